"""The CUDA runtime over a driver that is made of Python: order, memory, graphs, every failure."""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import replace

import numpy as np
import pytest

from treadle.errors import (
    DeviceError,
    InternalError,
    OutOfMemory,
    StaleCodeError,
    TreadleError,
)
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.cuda import CUDADevice, describe, runs_as_it_is, staging, target_of
from treadle.runtime.cuda.failures import BREAKING

from .fake_cuda import FakeDriver, _facts

ADD = Entry("add", 2, 4, tuple(Slot(n, 32, n == 0) for n in range(3)), (1,))
SCALE = Entry("scale", 2, 4, (Slot(1, 32, True), Slot(0, 32, False)), (0,))


def open_device(driver, index=0):
    return CUDADevice(f"CUDA:{index}" if index else "CUDA", driver, index, target_of)


@pytest.fixture
def driver():
    return FakeDriver()


@pytest.fixture
def device(driver):
    return open_device(driver)


def put(device, values):
    data = np.asarray(values, np.int32)
    buffer = device.allocator.alloc(data.nbytes)
    device.write(buffer, data.view("uint8").data)
    return buffer


def get(device, buffer):
    found = np.empty(buffer.nbytes // 4, np.int32)
    device.read(buffer, found.view("uint8").data)
    return found.tolist()


def three(device):
    """Buffers, and their addresses."""
    buffers = [put(device, [1] * 8) for _ in range(3)]
    return buffers, [buffer.argument for buffer in buffers]


def order(driver):
    """What was put on which stream, in order; each wait is for the event recorded before it."""
    found, last = [], None
    for _, call, *about in driver.log:
        if call == "record":
            last, stream = about
            found.append((call, stream))
        elif call == "wait_event":
            assert about[1] == last
            found.append((call, about[0]))
        elif call == "launch":
            found.append((call, about[3]))
    return found


def both(device):
    """A kernel of two phases: out = x + y, then x = 3 * out."""
    return device.load(b"add scale", [ADD, SCALE]).phases


# -- launches ---------------------------------------------------------------------------------


def test_a_phase_gets_its_slots_and_its_variables_in_its_own_order(device):
    out, x, y = put(device, [0] * 8), put(device, range(8)), put(device, [10] * 8)
    memory = [b.argument for b in (out, x, y)]
    device.run([Launch(both(device), memory, [3, 8])])
    assert get(device, out) == [10, 11, 12, 13, 14, 15, 16, 17]
    assert get(device, x) == [3 * v for v in get(device, out)]


def test_a_call_list_is_a_graph_and_changes_only_what_was_set(driver, device):
    out, x, y = put(device, [0] * 8), put(device, range(8)), put(device, [10] * 8)
    memory = [b.argument for b in (out, x, y)]
    phases = both(device)
    calls = device.call_list([Launch(phases[:1], memory, [3, 8]), Launch(phases, memory, [2, 8])])
    calls.run()
    assert get(device, x) == [2 * (v + 10) for v in range(8)]
    # The second adds to the same memory, so it waits for the first; `scale` reads what it wrote.
    assert driver.calls("add_kernel") == [
        ("add_kernel", "add"), ("add_kernel", "add", 0), ("add_kernel", "scale", 1)
    ]  # fmt: skip
    other = put(device, [5] * 8)
    calls.set_arg(0, 2, other.argument)
    calls.set_var(0, 1, 4)
    before = get(device, x)
    calls.run()
    assert driver.calls("update_kernel") == [("update_kernel", "add")]
    assert len(driver.calls("new_graph")) == 1
    assert get(device, out) == [v + 10 for v in before]
    calls.run()
    assert len(driver.calls("update_kernel")) == 1
    assert len(driver.calls("launch_graph")) == 3
    assert not driver.calls("launch")
    del calls
    gc.collect()
    assert driver.calls("delete_graph") == [("delete_graph",)]


def test_kernels_that_share_nothing_run_side_by_side_until_they_do(driver, device):
    """Three sums: two of the same inputs, and one of their results."""
    a, b, x, y, total = (put(device, [n] * 8) for n in range(5))
    add = device.load(b"add", [ADD]).phases
    memory = [(a, x, y), (b, x, y), (total, a, b)]
    calls = device.call_list([Launch(add, [m.argument for m in row], [8, 8]) for row in memory])
    calls.run()
    nodes = [("add_kernel", "add"), ("add_kernel", "add"), ("add_kernel", "add", 0, 1)]
    assert driver.calls("add_kernel") == nodes
    assert get(device, total) == [10] * 8
    elsewhere = put(device, [7] * 8)  # another result: the same order
    calls.set_arg(2, 0, elsewhere.argument)
    calls.run()
    assert get(device, elsewhere) == [10] * 8
    assert len(driver.calls("new_graph")) == 1
    calls.set_arg(1, 1, a.argument)  # the second sum reads the first one's result
    calls.run()
    assert get(device, elsewhere) == [5 + (5 + 3)] * 8
    assert driver.calls("add_kernel")[3:] == [
        ("add_kernel", "add"), ("add_kernel", "add", 0), ("add_kernel", "add", 1)
    ]  # fmt: skip


def test_an_empty_call_list_runs(driver, device):
    calls = device.call_list([])
    calls.run()
    assert calls.run_timed() == []
    assert not driver.calls("new_graph")


def test_what_a_kernel_needs_is_told(device):
    library = device.load(b"add scale", [ADD, SCALE])
    assert device.describe(library)[0] == (
        "add: 2 blocks of 4 threads, 32 registers, 0 bytes shared; 512 blocks for each of 4 "
        "multiprocessors at a time"
    )


def test_times_are_taken_around_each_launch(driver, device):
    _kept, memory = three(device)
    times = device.call_list([Launch(both(device), memory, [3, 8])] * 2).run_timed()
    assert times == [(0, 1000), (2000, 3000)]
    assert len(driver.calls("delete_event")) == 4


# -- copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 16, 17, 100, 200, 201, 250, 999])
def test_copies_go_through_pinned_memory_piece_by_piece(monkeypatch, driver, device, size):
    monkeypatch.setattr(staging, "SMALL", 16)
    monkeypatch.setattr(staging, "PIECE", 100)
    data = np.random.default_rng(size).integers(0, 255, size, np.uint8)
    buffer = device.allocator.alloc(size)
    data.setflags(write=False)
    device.write(buffer, data.data)
    found = np.zeros(size, np.uint8)
    device.read(buffer, found.data)
    assert (found == data).all()
    copies = driver.calls("copy_in")
    if size > 16:
        assert len(copies) == -(-size // 100)
        assert all(stream != device.stream for _, _, stream in copies)
        assert len(driver.calls("alloc_pinned")) == 2
    # A piece's stream waits for the device's, or the other way round, before anybody goes on.
    recorded = {event: stream for _, event, stream in driver.calls("record")}
    for _, stream, event in driver.calls("wait_event"):
        assert recorded[event] != stream


def test_the_host_does_not_wait_for_kernels_before_it_writes(monkeypatch, driver, device):
    monkeypatch.setattr(staging, "SMALL", 16)
    buffer = device.allocator.alloc(400)
    driver.log.clear()
    device.write(buffer, np.zeros(400, np.uint8).data)
    order = [entry for entry in driver.log if entry[1] in ("wait_stream", "wait_event")]
    assert order[0][1] == "wait_stream"
    assert device.stream not in [entry[2] for entry in order if entry[1] == "wait_stream"]


def test_small_copies_are_done_on_return_even_where_the_memory_is_pinned(driver, device):
    """The driver goes on with pinned memory behind their back, so that it may not see the write's,
    and the read waits."""
    seen, context = [], device.context
    copy_in = context.copy_in
    context.copy_in = lambda target, host, *more: seen.append(host) or copy_in(target, host, *more)
    data = np.arange(8, dtype=np.int32)
    buffer = put(device, data)
    assert len(seen) == 1
    assert not data.ctypes.data <= seen[0] < data.ctypes.data + data.nbytes
    driver.log.clear()
    assert get(device, buffer) == data.tolist()
    assert [entry[1:] for entry in driver.log] == [
        ("copy_out", 32, device.stream), ("wait_stream", device.stream)
    ]  # fmt: skip


@pytest.mark.parametrize("index", [0, 1])
def test_devices_copy_to_each_other_in_the_order_of_both_streams(driver, device, index):
    other = open_device(driver, index)
    there, here = put(other, range(8)), device.allocator.alloc(32)
    driver.log.clear()
    device.copy_from(other, there, here, 32)
    assert get(device, here) == list(range(8))
    names = [entry[:2] for entry in driver.log if not entry[1].endswith(("w_event", "e_event"))]
    copied = [(0, "copy")] if index == 0 else [(0, "reach_peer"), (0, "copy_peer")]
    assert names[: 4 + len(copied)] == [
        (index, "record"), (0, "wait_event"), *copied, (0, "record"), (index, "wait_event"),
    ]  # fmt: skip
    assert not device.copy_from(open_device(FakeDriver()), there, here, 32)


def test_a_broken_device_breaks_no_other_that_copies_from_it(driver, device):
    other = open_device(driver, 1)
    there, here = put(other, range(8)), put(device, range(8))
    driver.fail("record", "CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(DeviceError, match=r"^CUDA:1: a kernel used memory"):
        device.copy_from(other, there, here, 32)
    assert get(device, here) == list(range(8))
    with pytest.raises(DeviceError, match=r"^CUDA:1: a kernel used memory"):
        get(other, there)


# -- memory -----------------------------------------------------------------------------------


def test_memory_is_freed_on_the_stream_by_whoever_drops_it(driver, device):
    kept = [device.allocator.alloc(1000), device.allocator.alloc(0)]
    assert device.allocator.stats.live == 1001
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert device.allocator.stats.live == 0
    assert device.allocator.stats.peak == 1001
    assert {entry[2] for entry in driver.calls("free")} == {device.stream}
    assert not driver.contexts[0].memory


def test_a_buffer_dropped_while_the_allocator_is_busy_is_freed_later(driver, device):
    buffer = device.allocator.alloc(10)
    with device.allocator._lock:
        del buffer
        assert not driver.calls("free")
    assert device.allocator.stats.live == 0
    assert len(driver.calls("free")) == 1


def test_memory_that_was_lent_is_freed_after_everything(driver, device):
    buffer = device.allocator.alloc(10)
    buffer.is_lent = True
    driver.log.clear()
    del buffer
    assert not driver.log  # to wait there would break a graph that somebody captures just then
    assert (device.allocator.stats.live, device.allocator.stats.cached) == (0, 10)
    kept = device.allocator.alloc(20)
    assert [entry[1] for entry in driver.log] == ["synchronize", "free", "alloc"]
    assert (device.allocator.stats.live, device.allocator.stats.cached) == (kept.nbytes, 0)


def test_lent_memory_is_freed_another_time_while_a_graph_is_captured(driver, device):
    buffer = device.allocator.alloc(10)
    buffer.is_lent = True
    del buffer
    driver.fail("synchronize", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")
    kept = [device.allocator.alloc(20)]
    assert not driver.calls("free")
    kept.append(device.allocator.alloc(20))
    assert len(driver.calls("free")) == 1


def test_a_full_device_gives_spare_memory_back_before_it_refuses(driver, device):
    kept = device.allocator.alloc(3 << 20)
    driver.fail("alloc", "CUDA_ERROR_OUT_OF_MEMORY")
    other = device.allocator.alloc(1 << 20)
    assert driver.calls("trim") == [("trim", 0)]
    with pytest.raises(OutOfMemory) as caught:
        device.allocator.alloc(2 << 30)
    assert str(caught.value) == (
        "CUDA: no memory for 2.0 GiB on Fake 0; 4.0 MiB are live in 2 buffers (largest: 3.0 MiB, "
        "1.0 MiB), 1020.0 MiB of 1.0 GiB are free. Delete tensors that are no longer needed, use "
        "smaller batches or a narrower dtype"
    ), str(caught.value)
    assert device.allocator.alloc(1 << 20).nbytes == 1 << 20
    assert kept.nbytes + other.nbytes == 4 << 20
    assert device.allocator.trim() == 0


def test_memory_of_others_is_checked_and_left_to_them(driver, device):
    theirs = driver.contexts[0].alloc(64, 0)
    owner = object()
    buffer = device.allocator.from_pointer(theirs + 32, 32, owner)
    assert buffer.argument == theirs + 32
    del buffer
    assert theirs in driver.contexts[0].memory
    foreign = driver.contexts[1].alloc(64, 0)
    for address, nbytes, words in [
        (0x1234, 4, "0x1234 is not an address in a GPU's memory"),
        (theirs + 32, 33, "33 bytes are needed .* ends after 32"),
        (foreign, 4, "memory of CUDA device 1: use device='CUDA:1'"),
    ]:
        with pytest.raises(DeviceError, match=words):
            device.allocator.from_pointer(address, nbytes)
    with pytest.raises(DeviceError, match="the host has no access"):
        device.allocator.alloc(4).view()


# -- other libraries' streams -----------------------------------------------------------------


def test_work_is_ordered_with_the_streams_of_shared_memory_while_it_lives(driver, device):
    theirs = device.allocator.from_pointer(driver.contexts[0].alloc(64, 0), 64)
    device.join(theirs, 0)
    device.join(theirs, 1)
    launch = Launch(device.load(b"nothing", [Entry("nothing", 1)]).phases, [])
    device.run([launch])
    assert not driver.calls("record")  # CUDA orders the legacy default stream itself
    device.join(theirs, 4321)
    driver.log.clear()
    device.run([launch])
    ours = device.stream
    assert order(driver) == [
        ("record", 4321), ("wait_event", ours), ("launch", ours), ("record", ours),
        ("wait_event", 4321),
    ]  # fmt: skip
    assert len(driver.calls("new_event")) == len(driver.calls("delete_event")) == 2
    del theirs
    driver.log.clear()
    device.run([launch])
    assert not driver.calls("record")


def test_what_is_handed_over_is_finished_on_the_other_stream_first(driver, device):
    driver.log.clear()
    device.hand_over(1)
    assert driver.log == []
    device.hand_over(99)
    assert order(driver) == [("record", device.stream), ("wait_event", 99)]


# -- failures ---------------------------------------------------------------------------------

CODES = [
    "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_NOT_INITIALIZED", "CUDA_ERROR_INVALID_CONTEXT",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "CUDA_ERROR_NOT_SUPPORTED", "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    "CUDA_ERROR_SOMETHING_NEW", *BREAKING,
]  # fmt: skip
CALLS = [
    "alloc", "copy_in", "copy_out", "wait_stream", "load", "launch", "new_graph", "add_kernel",
    "instantiate", "update_kernel", "launch_graph", "record", "new_event", "alloc_pinned",
    "wait_event", "elapsed", "free",
]  # fmt: skip


def use_everything(device):
    """Each call of the driver's at least once; True if all values are right."""
    data = np.arange(40, dtype=np.int32)
    buffers = [put(device, data) for _ in range(3)]
    memory = [b.argument for b in buffers]
    phases = both(device)
    device.run([Launch(phases, memory, [3, 8])])
    calls = device.call_list([Launch(phases, memory, [3, 8])])
    calls.run()
    calls.set_var(0, 0, 2)
    calls.run()
    calls.run_timed()
    found = get(device, buffers[2])
    buffers.clear()
    device.synchronize()
    return found == data.tolist()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", CODES)
def test_every_failure_of_every_call_is_one_sentence(monkeypatch, driver, device, call, code):
    monkeypatch.setattr(staging, "SMALL", 16)
    other = open_device(driver, 1)
    assert use_everything(open_device(driver))
    for _ in range(2 if (call, code) == ("alloc", "CUDA_ERROR_OUT_OF_MEMORY") else 1):
        driver.fail(call, code)
    if call == "free":  # nobody could be told
        assert use_everything(device)
        return
    with pytest.raises(TreadleError) as caught:
        use_everything(device)
    told = str(caught.value)
    assert told.startswith("CUDA: ")
    assert "\n" not in told
    assert (type(caught.value) is InternalError) == (code == "CUDA_ERROR_INVALID_VALUE")
    if code in BREAKING:
        calls = device.call_list
        for use in (lambda: use_everything(device), device.synchronize, lambda: calls([])):
            with pytest.raises(DeviceError) as again:
                use()
            assert str(again.value) == told
    else:
        assert use_everything(device)
    assert use_everything(other)


def test_a_kernels_fault_names_those_that_may_have_made_it(driver, device):
    _kept, memory = three(device)
    device.synchronize()
    driver.fail("wait_stream", "CUDA_ERROR_ILLEGAL_ADDRESS")
    device.run([Launch(both(device), memory, [3, 8])] * 3)
    with pytest.raises(DeviceError) as caught:
        device.synchronize()
    assert str(caught.value) == (
        "CUDA: a kernel used memory that is not its own (CUDA_ERROR_ILLEGAL_ADDRESS): one of add, "
        "scale (CUDA_LAUNCH_BLOCKING=1 in the environment names the one). The device's tensors are "
        "gone, and CUDA lets this process use the device no more: start it anew; other devices go "
        "on"
    )
    other = open_device(driver, 1)
    driver.fail("launch", "CUDA_ERROR_ILLEGAL_ADDRESS", "thread 3 of block 0 at 0x10")
    with pytest.raises(
        DeviceError, match=r"its own \(CUDA_ERROR_.*\): thread 3 of block 0 at 0x10"
    ):
        other.run([Launch(both(other)[:1], three(other)[1], [3, 8])])


def test_what_has_finished_is_not_suspected(driver, device):
    _kept, memory = three(device)
    add, scale = both(device)
    device.run([Launch([add], memory, [3, 8])])
    device.synchronize()
    driver.fail("wait_stream", "CUDA_ERROR_LAUNCH_FAILED")
    device.run([Launch([scale], memory, [3, 8])])
    with pytest.raises(
        DeviceError, match=r"a kernel failed \(CUDA_ERROR_LAUNCH_FAILED\): scale\. "
    ):
        device.synchronize()


def test_code_that_the_driver_refuses_is_compiled_anew(driver, device):
    driver.fail("load", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "Unsupported .version 9.9")
    words = r"serves CUDA 13\.0, refuses a kernel: its PTX is newer .* \(Unsupported .version 9.9\)"
    with pytest.raises(StaleCodeError, match=words):
        both(device)
    assert len(both(device)) == 2


def test_a_forked_child_is_told_so(monkeypatch, device):
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    for use in (device.synchronize, lambda: device.allocator.alloc(4), lambda: device.run([])):
        with pytest.raises(DeviceError, match="before this process was forked"):
            use()


# -- devices ----------------------------------------------------------------------------------


def test_a_device_that_is_not_there_is_counted(driver):
    with pytest.raises(DeviceError, match=r"there is no CUDA:2: CUDA has 2 devices here \(CUDA_V"):
        open_device(driver, 2)
    with pytest.raises(DeviceError, match="there is no CUDA: CUDA has no devices here"):
        open_device(FakeDriver(devices=0))


@pytest.mark.parametrize("code", ["CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_DEVICE_UNAVAILABLE"])
def test_a_device_that_does_not_open_says_why(driver, code):
    driver.fail("open", code)
    with pytest.raises(DeviceError, match=rf"^CUDA: the GPU .*{code}.*; [a-z]"):
        open_device(driver)
    assert use_everything(open_device(driver))


def test_machine_code_runs_on_later_chips_of_its_generation():
    def runs(capability, arch):
        facts = replace(_facts("Fake", 1), capability=capability, is_emulated=False)
        return runs_as_it_is(facts, target_of(facts, arch))

    for capability, archs in {
        (9, 0): ("sm_90a", "sm_90"), (12, 1): ("sm_120",), (8, 9): ("sm_80", "sm_86"),
        (10, 3): ("sm_100",), (8, 7): ("sm_87",),
    }.items():  # fmt: skip
        assert all(runs(capability, arch) for arch in archs)
    for capability, arch in {
        (9, 0): "sm_80", (11, 0): "sm_100", (8, 7): "sm_80", (8, 9): "sm_87",
    }.items():  # fmt: skip
        assert not runs(capability, arch)
    emulated = _facts("Fake", 1)
    assert not runs_as_it_is(replace(emulated, is_emulated=True), target_of(emulated))


def test_the_target_is_that_of_the_devices_architecture(driver):
    facts = _facts("Fake", 1 << 30)

    def cpu(*capability, arch=None):
        return target_of(type(facts)(**{**vars(facts), "capability": capability}), arch).cpu

    assert cpu(8, 0) == "sm_80"
    assert cpu(9, 0) == "sm_90a"
    assert cpu(12, 0) == "sm_120a"
    assert cpu(8, 8) == "sm_87"  # not in the table
    assert cpu(12, 9) == "sm_120"
    assert cpu(9, 0, arch="sm_80") == "sm_80"
    assert cpu(9, 0, arch="sm_90") == "sm_90"
    with pytest.raises(DeviceError, match=r"Fake is of architecture sm_70.*sm_75 and newer"):
        cpu(7, 0)
    with pytest.raises(DeviceError, match=r"architecture sm_80, which does not run code for sm_90"):
        cpu(8, 0, arch="sm_90")
    with pytest.raises(DeviceError, match="does not run code for sm_90a"):
        cpu(10, 0, arch="sm_90a")
    older = replace(facts, capability=(7, 0))
    driver._facts = [older, facts]
    assert describe(driver).startswith("Fake, which is too old, Fake (sm_80) with 1 GiB")
    driver._facts = [older, older]
    with pytest.raises(DeviceError, match=r"sm_70.*sm_75 and newer"):
        describe(driver)
    driver._facts = [_facts(f"Fake {i}", 1 << 30) for i in range(2)]
    about = describe(driver)
    each = (
        "Fake {} (sm_80) with 1 GiB, 163 KiB shared by a block, matrix units for bfloat16, "
        "float16, int8, uint8, a display's watchdog, which ends kernels that run for seconds, "
    )
    assert about == each.format(0) + each.format(1) + "driver for CUDA 13.0"
    older = replace(facts, capability=(7, 5), has_pools=False, has_watchdog=False)
    driver._facts = [older, replace(older, capability=(9, 0), has_pools=True)]
    about = describe(driver)
    assert "no matrix units in use, no memory pools, so that freeing waits" in about
    assert about.count("watchdog") == 0
    assert about.count("tensor maps") == 1
