"""An AMD device on emulated GPUs of every generation, by PM4 and by AQL."""

import gc
import threading

import numpy as np
import pytest
from tests.emulate.kfd.machine import Machine, download, upload

from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.base import Launch
from treadle.runtime.hardware.amd import queues

GPUS = [
    ("gfx90a", False), ("gfx90a", True), ("gfx942", True), ("gfx1030", False), ("gfx1030", True),
    ("gfx1100", False), ("gfx1100", True), ("gfx1201", False), ("gfx1201", True),
]  # fmt: skip
COUNT = 64


def add_number(run):
    source, target = run.addresses(2)
    (number,) = run.integers(2, 1)
    run.write(target, run.read(source, COUNT) + number)


@pytest.fixture(params=GPUS, ids=lambda row: f"{row[0]}-{'AQL' if row[1] else 'PM4'}")
def machine(request):
    arch, uses_aql = request.param
    return Machine(arch, seed=5, uses_aql=uses_aql)


@pytest.fixture
def device(machine):
    return machine.device()


@pytest.fixture
def small():
    """The device of one chip, where the others are the same."""
    return Machine("gfx1100", seed=1, vram=64 << 20)


def test_a_buffer_gives_back_what_was_written(device):
    for nbytes in (1, 3, 4096, 100_001):
        data = np.random.default_rng(0).integers(0, 255, nbytes, np.uint8)
        assert (download(device, upload(device, data), np.uint8) == data).all()


def test_copies_larger_than_a_piece_and_than_a_packet_arrive():
    device = Machine("gfx1100", seed=2).device()
    data = np.arange((9 << 20) // 4 + 5, dtype=np.int32)
    assert (download(device, upload(device, data)) == data).all()


def test_a_write_is_done_with_its_data_on_return(device):
    data = np.arange(COUNT, dtype=np.int32)
    buffer = upload(device, data)
    data[:] = 0
    assert (download(device, buffer) == np.arange(COUNT)).all()


def test_a_write_leaves_the_rest_of_a_buffer(device):
    buffer = upload(device, np.arange(COUNT, dtype=np.int32))
    device.write(buffer, memoryview(np.full(3, -1, np.int32)).cast("B"))
    assert download(device, buffer)[:5].tolist() == [-1, -1, -1, 3, 4]


def test_launches_run_in_their_order_and_with_their_arguments(machine, device):
    phase = machine.kernel(device, add_number, slots=2, variables=1)
    a, b = upload(device, np.arange(COUNT, dtype=np.int32)), device.allocator.alloc(4 * COUNT)
    steps = [Launch([phase], [a.argument, b.argument], [7])]
    steps += [Launch([phase], [b.argument, b.argument], [n]) for n in range(10)]
    device.run(steps)
    assert (download(device, b) == np.arange(COUNT) + 7 + 45).all()
    assert (download(device, a) == np.arange(COUNT)).all()


def test_copies_and_kernels_wait_for_each_other(machine, device):
    phase = machine.kernel(device, add_number, slots=2, variables=1)
    buffer = device.allocator.alloc(4 * COUNT)
    for turn in range(6):
        data = np.full(COUNT, turn, np.int32)
        device.write(buffer, memoryview(data).cast("B"))
        device.run([Launch([phase], [buffer.argument, buffer.argument], [100])])
        assert (download(device, buffer) == turn + 100).all()


def test_a_dispatch_has_the_fields_of_its_kernel_and_launch(machine, device):
    phase = machine.kernel(
        device, lambda run: None, slots=1, grid=3, work_items=96, group=100, shared=1000,
        rsrc1=0x00AC0081, rsrc3=0x21,
    )  # fmt: skip
    device.run([Launch([phase], [0])])
    device.synchronize()
    (seen,) = machine.dispatches
    is_privileged = device.generation.name == "gfx11" and not machine._uses_aql
    assert seen.chip == device.node.arch
    assert seen.program == phase.program
    assert seen.rsrc1 == 0x00AC0081 | (1 << 20 if is_privileged else 0)
    assert seen.rsrc3 == 0x21
    assert (seen.workgroup, seen.work_items) == ((96, 1, 1), (288, 1, 1))
    assert seen.workgroups == (3, 1, 1)
    assert seen.lds == 1536  # 1100 in units of 512
    assert (seen.scratch, seen.scratch_wave) == (0, 0)
    assert seen.wave == device.node.wave
    assert len(seen.user_sgprs) == 2


def test_a_phase_gets_the_arguments_that_its_entry_names(machine, device):
    seen = []
    phase = machine.kernel(
        device, lambda run: seen.append((run.addresses(2), run.integers(2, 2))), slots=2,
        variables=2,
    )  # fmt: skip
    device.run([Launch([phase], [0x1000, 0x2000], [-5, 6])])
    device.synchronize()
    assert seen == [((0x1000, 0x2000), (-5, 6))]


def test_a_call_list_is_replayed_with_other_memory_and_integers(machine, device):
    phase = machine.kernel(device, add_number, slots=2, variables=1)
    a, b = upload(device, np.arange(COUNT, dtype=np.int32)), upload(device, np.zeros(COUNT, "i4"))
    c = upload(device, np.zeros(COUNT, "i4"))
    calls = device.call_list(
        [
            Launch([phase], [a.argument, b.argument], [1]),
            Launch([phase], [b.argument, b.argument], [10]),
        ]
    )
    assert len(calls) == 2
    calls.run()
    assert (download(device, b) == np.arange(COUNT) + 11).all()
    calls.set_var(1, 0, 20)
    calls.set_arg(1, 1, c.argument)
    calls.run()
    assert (download(device, c) == np.arange(COUNT) + 21).all()
    for number in range(5):
        calls.set_var(0, 0, number)
        calls.run()
    assert (download(device, c) == np.arange(COUNT) + 24).all()


def test_a_replay_that_is_under_way_keeps_its_arguments(machine, device):
    seen = []
    phase = machine.kernel(device, lambda run: seen.append(run.integers(1, 1)[0]), 1, 1)
    calls = device.call_list([Launch([phase], [0], [0])])
    for number in range(50):
        calls.set_var(0, 0, number)
        calls.run()
    device.synchronize()
    assert seen == list(range(50))


@pytest.mark.parametrize("uses_aql", [False, True])
def test_a_replay_of_sixteen_launches_changes_at_most_eight_words_each(uses_aql):
    machine = Machine("gfx1100", uses_aql=uses_aql)
    device = machine.device()
    phase = machine.kernel(device, add_number, slots=2, variables=1)
    a = upload(device, np.zeros(COUNT, "i4"))
    calls = device.call_list([Launch([phase], [a.argument, a.argument], [0])] * 16)
    calls.run()
    calls.run()
    device.synchronize()
    before = calls.patched
    calls.run()
    assert calls.patched == before  # nothing was set: nothing is changed
    others = [upload(device, np.zeros(COUNT, "i4")) for _ in range(16)]
    for call, other in enumerate(others):
        calls.set_arg(call, 0, other.argument)
        calls.set_arg(call, 1, other.argument)
        calls.set_var(call, 0, call + 1)
    calls.run()
    assert calls.patched - before == 16 * 5
    assert all((download(device, other) == call + 1).all() for call, other in enumerate(others))


def test_times_of_launches_follow_each_other(machine, device):
    def slow(run):
        machine.platform.skip(50_000)

    phase = machine.kernel(device, slow)
    launches, began = [Launch([phase, phase], [0]), Launch([phase], [0])], machine.platform.now()
    times = device.call_list(launches).run_timed()
    whole = machine.platform.now() - began
    (start, end), (next_start, next_end) = times
    assert end - start >= 100_000
    assert next_end - next_start >= 50_000
    assert end <= next_start
    assert next_end - start <= whole


def test_memory_that_is_given_back_serves_the_next_buffer(small):
    device = small.device()
    before = device.allocator.stats.live
    address = device.allocator.alloc(10_000).argument
    gc.collect()
    assert device.allocator.alloc(10_000).argument == address
    gc.collect()
    assert device.allocator.stats.live == before
    assert device.allocator.trim() > 0
    assert device.allocator.stats.cached == 0


def test_trimmed_memory_goes_back_to_the_driver(small):
    device = small.device()
    before = small.driver.gpus[0].used
    buffer = device.allocator.alloc(1 << 20)
    assert small.driver.gpus[0].used > before
    del buffer
    gc.collect()
    device.allocator.trim()
    assert small.driver.gpus[0].used == before


def test_too_much_memory_is_out_of_memory_and_the_device_goes_on(small):
    device = small.device()
    with pytest.raises(OutOfMemory, match=r"^AMD: the GPU has at most 64"):
        device.allocator.alloc(1 << 40)
    large = [device.allocator.alloc(20 << 20) for _ in range(2)]
    with pytest.raises(OutOfMemory, match=r"^AMD: no memory to allocate"):
        device.allocator.alloc(40 << 20)
    assert len(large) == 2
    data = np.arange(5, dtype=np.int32)
    assert (download(device, upload(device, data)) == data).all()


def test_a_device_that_is_collected_in_the_middle_of_a_kernel_is_closed_behind_it(small):
    device, others = small.device(), [small.device()]
    assert len(small.driver.queues) == 4

    def forget(run):
        others.clear()
        gc.collect()

    device.run([Launch([small.kernel(device, forget)], [0])])
    device.synchronize()
    assert not others
    assert len(small.driver.queues) == 2
    data = np.arange(5, dtype=np.int32)
    assert (download(device, upload(device, data)) == data).all()


def test_what_waits_for_reuse_is_given_up_for_a_larger_buffer(small):
    device = small.device()
    buffer = device.allocator.alloc(30 << 20)
    del buffer
    gc.collect()
    assert device.allocator.alloc(40 << 20).nbytes == 40 << 20


def test_memory_of_the_host_is_used_in_place(machine, device):
    data = np.arange(3 * 1024, dtype=np.int32)
    part = data[100 : 100 + COUNT]
    buffer = device.allocator.from_pointer(part.ctypes.data, part.nbytes, data)
    assert buffer.argument != part.ctypes.data
    phase = machine.kernel(device, add_number, slots=2, variables=1)
    device.run([Launch([phase], [buffer.argument, buffer.argument], [1000])])
    device.synchronize()
    expected = np.arange(3 * 1024)
    expected[100 : 100 + COUNT] += 1000
    assert (data == expected).all()


def test_the_host_has_no_view_of_a_buffer(small):
    with pytest.raises(DeviceError, match="no access"):
        small.device().allocator.alloc(16).view()


def test_there_is_no_device_behind_the_last(small):
    with pytest.raises(DeviceError, match="there is no AMD:1: the kernel driver shows 1 GPU"):
        small.device(1)


@pytest.mark.parametrize("uses_aql", [False, True])
def test_a_ring_goes_around_its_end(uses_aql, monkeypatch):
    monkeypatch.setattr(queues, "_RING_BYTES", 1 << 14)
    machine = Machine("gfx1100", seed=5, uses_aql=uses_aql)
    device = machine.device()
    turns = device.compute._ring._room
    phase = machine.kernel(device, add_number, slots=2, variables=1)
    buffer = upload(device, np.zeros(COUNT, "i4"))
    launches = [Launch([phase], [buffer.argument, buffer.argument], [1])] * 10
    count = 0
    while turns.position < 3 * turns.size:
        device.run(launches)
        count += 10
    assert (download(device, buffer) == count).all()


@pytest.mark.parametrize("uses_aql", [False, True])
def test_launches_of_more_words_than_the_ring_holds_are_started_in_parts(uses_aql):
    machine = Machine("gfx1100", seed=5, uses_aql=uses_aql)
    device, seen = machine.device(), []
    device.compute.limit = 4000  # words
    phase = machine.kernel(device, lambda run: seen.append(run.integers(1, 1)[0]), 1, 1)
    device.run([Launch([phase], [0], [number]) for number in range(500)])
    device.synchronize()
    assert seen == list(range(500))


def test_a_device_that_is_collected_leaves_no_queue(small):
    device = small.device()
    upload(device, np.zeros(5))
    assert len(small.driver.queues) == 2
    device.synchronize()
    del device
    gc.collect()
    assert len(small.driver.queues) == 0


def test_a_list_that_is_collected_while_it_runs_keeps_its_words(machine, device):
    seen = []
    phase = machine.kernel(device, lambda run: seen.append(run.integers(1, 1)[0]), 1, 1)
    for number in range(20):
        calls = device.call_list([Launch([phase], [0], [number])] * 3)
        calls.run()
        del calls
        gc.collect(1)  # the list is young; all that a long process holds would take seconds
    device.synchronize()
    assert seen == [number for number in range(20) for _ in range(3)]


def test_several_threads_launch_write_and_read_at_once(machine, device):
    phase = machine.kernel(device, add_number, slots=2, variables=1)
    wrong = []

    def work(number):
        data = np.full(COUNT, number, np.int32)
        for _ in range(8):
            buffer = upload(device, data)
            device.run([Launch([phase], [buffer.argument, buffer.argument], [1])] * 3)
            if (download(device, buffer) != number + 3).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Interrupting(EmulatedPlatform):
    """A platform on which Ctrl-C comes at the n-th thing that is asked of it."""

    left = 1 << 60

    def _tick(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def store64(self, address, value):
        self._tick()
        super().store64(address, value)
        self._tick()

    def load64(self, address):
        self._tick()
        return super().load64(address)

    def pause(self):
        self._tick()
        super().pause()


@pytest.mark.parametrize("uses_aql", [False, True])
def test_a_device_goes_on_after_an_interrupt_anywhere(uses_aql, monkeypatch):
    monkeypatch.setattr("tests.emulate.machines.EmulatedPlatform", Interrupting)
    machine = Machine("gfx1100", seed=2, uses_aql=uses_aql)
    device = machine.device()
    phase = machine.kernel(device, add_number, slots=2, variables=1)
    calls = device.call_list([Launch([phase], [0, 0], [5])])
    count = 0
    for place in range(1, 60):
        buffer = device.allocator.alloc(4 * COUNT)
        machine.platform.left = place
        try:
            device.write(buffer, memoryview(np.zeros(COUNT, np.int32)).cast("B"))
            device.run([Launch([phase], [buffer.argument] * 2, [1])])
            download(device, buffer)
        except KeyboardInterrupt:
            count += 1
        machine.platform.left = 1 << 60
        device.write(buffer, memoryview(np.full(COUNT, place, np.int32)).cast("B"))
        calls.set_arg(0, 0, buffer.argument)
        calls.set_arg(0, 1, buffer.argument)
        calls.run()
        assert (download(device, buffer) == place + 5).all()
    assert count > 10


def pages_of_this_process():
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum(1 for _ in file)


def test_machines_that_are_collected_leave_no_memory_in_this_process():
    def use():
        machine = Machine("gfx1100", "gfx90a")
        for index in range(2):
            device = machine.device(index)
            phase = machine.kernel(device, lambda run: None)
            device.call_list([Launch([phase], [0])]).run()
            upload(device, np.zeros(COUNT))
            device.synchronize()

    use()
    gc.collect()
    before = pages_of_this_process()
    for _ in range(10):
        use()
        gc.collect()
    assert pages_of_this_process() <= before + 10
