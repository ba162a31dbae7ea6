"""An NV device on emulated GPUs of every generation, with machine code of NVRTC's."""

import itertools

import numpy as np
import pytest
from tests.emulate.nv.machine import CHIPS, Machine, download, upload

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.base import Launch
from treadle.runtime.hardware import device as hardware_device
from treadle.runtime.hardware.nv import channels

COUNT = 64


@pytest.fixture(params=CHIPS)
def machine(request):
    return Machine(request.param, seed=5)


@pytest.fixture
def device(machine):
    return machine.device()


@pytest.fixture
def small():
    """The device of one chip, where the others are the same."""
    return Machine("sm_80", seed=1, vram=64 << 20)


def test_a_buffer_gives_back_what_was_written(device):
    for nbytes in (1, 3, 4096, 9 << 20):
        data = np.random.default_rng(0).integers(0, 255, nbytes, np.uint8)
        assert (download(device, upload(device, data), np.uint8) == data).all()


def test_launches_run_in_their_order_and_with_their_arguments(machine, device):
    phase = machine.kernel(device, "add_number")
    a, b = upload(device, np.arange(COUNT, dtype=np.int32)), device.allocator.alloc(4 * COUNT)
    steps = [Launch([phase], [a.argument, b.argument], [7])]
    steps += [Launch([phase], [b.argument, b.argument], [n]) for n in range(10)]
    device.run(steps)
    assert (download(device, b) == np.arange(COUNT) + 7 + 45).all()
    assert (download(device, a) == np.arange(COUNT)).all()


def test_copies_and_kernels_wait_for_each_other(machine, device):
    phase = machine.kernel(device, "add_number")
    buffer = device.allocator.alloc(4 * COUNT)
    for turn in range(6):
        device.write(buffer, memoryview(np.full(COUNT, turn, np.int32)).cast("B"))
        device.run([Launch([phase], [buffer.argument, buffer.argument], [100])])
        assert (download(device, buffer) == turn + 100).all()


def test_a_dispatch_is_what_the_launch_says(machine, device):
    phase = machine.kernel(device, "add_number", grid=2, work_items=32)
    a, b = upload(device, np.arange(COUNT, dtype=np.int32)), device.allocator.alloc(4 * COUNT)
    device.run([Launch([phase], [a.argument, b.argument], [1])])
    device.synchronize()
    (seen,) = machine.dispatches
    assert (seen.grid, seen.block, seen.program) == ((2, 1, 1), (32, 1, 1), phase.program)
    assert seen.registers == phase.kernel.registers > 0
    assert seen.local_window == device.machine.local_window


def test_local_memory_grows_with_what_a_kernel_needs(machine, device):
    phase = machine.kernel(device, "spill")
    assert phase.kernel.stack >= 256
    data = np.arange(COUNT, dtype=np.int32)
    a, b = upload(device, data), device.allocator.alloc(4 * COUNT)
    for _ in range(2):
        device.run([Launch([phase], [a.argument, b.argument], [3])])
    assert (download(device, b) == (data + 3 & 63) + 3).all()
    assert device.local.version == 1


def test_shared_memory_that_a_launch_asks_for_is_there(machine, device):
    phase = machine.kernel(device, "share", shared=4 * COUNT)
    data = np.arange(COUNT, dtype=np.int32)
    a, b = upload(device, data), device.allocator.alloc(4 * COUNT)
    device.run([Launch([phase], [a.argument, b.argument], [2])])
    assert (download(device, b) == data[::-1] * 2).all()


def test_variables_and_constants_of_the_code_are_loaded_and_relocated(machine, device):
    phase = machine.kernel(device, "globals")
    data = np.arange(COUNT, dtype=np.int32)
    a, b = upload(device, data), device.allocator.alloc(4 * COUNT)
    device.run([Launch([phase], [a.argument, b.argument], [1000])])
    assert (download(device, b) == np.array([3, 5, 7, 9])[data & 3] + 1040).all()


def test_a_replay_takes_other_memory_and_other_integers(machine, device):
    phase = machine.kernel(device, "add_number")
    a = upload(device, np.arange(COUNT, dtype=np.int32))
    b, c = device.allocator.alloc(4 * COUNT), device.allocator.alloc(4 * COUNT)
    steps = [Launch([phase], [a.argument, b.argument], [1])]
    steps += [Launch([phase], [b.argument, b.argument], [2])]
    calls = device.call_list(steps)
    for turn in range(5):
        calls.set_var(0, 0, turn)
        calls.set_arg(1, 1, c.argument if turn % 2 else b.argument)
        calls.run()
        found = download(device, c if turn % 2 else b)
        assert (found == np.arange(COUNT) + turn + 2).all()
    assert calls.patched > 0


def test_launches_of_a_replay_start_each_other(machine, device):
    phase = machine.kernel(device, "add_number")
    a = upload(device, np.zeros(COUNT, np.int32))
    calls = device.call_list([Launch([phase], [a.argument, a.argument], [1])] * 20)
    calls.run()
    assert (download(device, a) == 20).all()
    assert len(calls._copies[0].words) == 6  # one launch, and a wait for idle
    assert len(machine.dispatches) == 20


def test_a_timed_run_tells_when_kernels_began_and_ended(machine, device):
    phase = machine.kernel(device, "add_number")
    a = upload(device, np.arange(COUNT, dtype=np.int32))
    calls = device.call_list([Launch([phase], [a.argument, a.argument], [1])] * 3)
    times = calls.run_timed()
    assert len(times) == 3
    assert all(start < end for start, end in times)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(times))


def test_a_gpus_memory_ends_with_a_sentence(small):
    device = small.device()
    with pytest.raises(OutOfMemory, match=r"^NV: the GPU has at most 64"):
        device.allocator.alloc(65 << 20)
    kept = [device.allocator.alloc(40 << 20)]
    with pytest.raises(OutOfMemory, match=r"^NV: no memory to allocate"):
        kept.append(device.allocator.alloc(40 << 20))
    del kept
    assert device.allocator.alloc(40 << 20).nbytes == 40 << 20


def test_many_submissions_go_around_the_rings(small):
    device = small.device()
    phase = small.kernel(device, "add_number")
    a = upload(device, np.zeros(COUNT, np.int32))
    for _ in range(3 * channels._ENTRIES // 2):
        device.run([Launch([phase], [a.argument, a.argument], [1])])
    assert (download(device, a) == 3 * channels._ENTRIES // 2).all()


def test_more_launches_at_once_than_there_is_room_for_their_arguments(small):
    device = small.device()
    phase = small.kernel(device, "add_number")
    a = upload(device, np.zeros(COUNT, np.int32))
    count = 2 * hardware_device._ARGUMENT_BYTES // phase.kernarg_bytes
    device.run([Launch([phase], [a.argument, a.argument], [1])] * count)
    assert (download(device, a) == count).all()


def test_memory_of_the_hosts_is_used_in_place(small):
    device = small.device()
    phase = small.kernel(device, "add_number")
    data = np.zeros(3 * COUNT, np.int32)
    data[COUNT : 2 * COUNT] = np.arange(COUNT)
    nbytes = data.nbytes // 3
    buffer = device.allocator.from_pointer(data.ctypes.data + nbytes, nbytes, data)
    device.run([Launch([phase], [buffer.argument, buffer.argument], [5])])
    device.synchronize()
    assert (data[COUNT : 2 * COUNT] == np.arange(COUNT) + 5).all()
    assert not data[:COUNT].any()


def test_a_kernel_that_uses_memory_of_nobodys_is_named_with_the_address(small):
    device = small.device()
    phase = small.kernel(device, "add_number")
    device.run([Launch([phase], [0x5000, 0x6000], [1])])
    with pytest.raises(
        DeviceError, match=r"^NV: a kernel or a copy used memory that is not its"
    ) as e:
        device.synchronize()
    assert "0x5000" in str(e.value)
    assert "what ran: add_number" in str(e.value)
    with pytest.raises(DeviceError, match=r"this process can use it no more"):
        device.allocator.alloc(4)


def test_two_gpus_are_two_devices():
    machine = Machine("sm_80", "sm_86", seed=2)
    first, second = machine.device(0), machine.device(1)
    data = np.arange(COUNT, dtype=np.int32)
    a, b = upload(first, data), upload(second, data * 2)
    assert (download(first, a) == data).all()
    assert (download(second, b) == data * 2).all()
    assert "sm_86" in second.target.name
    assert "emulated" in second.target.name
    machine.driver.gpus[0].lose()
    with pytest.raises(DeviceError, match=r"^NV: the device was lost"):
        first.synchronize()
    assert (download(second, b) == data * 2).all()


@pytest.mark.parametrize("has_peers", [True, False])
def test_a_copy_between_gpus_waits_for_both_and_goes_without_the_host(has_peers):
    machine = Machine("sm_80", "sm_80", seed=4)
    machine.driver.rm.has_peers = has_peers
    first, second = machine.device(0), machine.device(1)
    phases = [machine.kernel(one, "add_number") for one in (first, second)]
    a = upload(first, np.arange(COUNT, dtype=np.int32))
    b = upload(second, np.zeros(COUNT, np.int32))
    for turn in range(4):
        first.run([Launch([phases[0]], [a.argument, a.argument], [1])])
        assert second.copy_from(first, a, b, 4 * COUNT) is has_peers
        first.run([Launch([phases[0]], [a.argument, a.argument], [1])])
        if has_peers:
            second.run([Launch([phases[1]], [b.argument, b.argument], [100])])
            assert (download(second, b) == np.arange(COUNT) + 2 * turn + 101).all()
    assert (download(first, a) == np.arange(COUNT) + 8).all()


def test_two_devices_of_one_gpu_have_one_address_space():
    machine = Machine("sm_80", seed=6)
    first, second = machine.device(0), machine.device(0)
    data = np.arange(COUNT, dtype=np.int32)
    for one in (first, second, first):
        phase = machine.kernel(one, "add_number")
        a = upload(one, data)
        one.run([Launch([phase], [a.argument, a.argument], [3])])
        assert (download(one, a) == data + 3).all()
