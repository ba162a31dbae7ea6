"""What the host reads and writes too early, past a runtime that forgets to wait, is a fault."""

import numpy as np
import pytest
from tests.emulate.kfd.machine import Machine, download, upload

from treadle.errors import DeviceError
from treadle.runtime.base import Launch

COUNT, SEEDS = 64, range(6)
TOLD = "in an order that nobody asked for: the host, "


def add_one(run):
    (place,) = run.addresses(1)
    run.write(place, run.read(place, COUNT) + 1)


@pytest.fixture(params=SEEDS)
def machine(request):
    return Machine("gfx1100", seed=request.param)


@pytest.fixture
def device(machine):
    return machine.device()


@pytest.fixture
def hasty(device, monkeypatch):
    """The device returns from waits at once."""
    return lambda: monkeypatch.setattr(device, "wait", lambda moment: None)


def test_a_read_before_the_copy_is_known_to_have_ended_is_a_fault(device, hasty):
    buffer = upload(device, np.arange(COUNT, dtype=np.int32))
    device.synchronize()
    hasty()
    with pytest.raises(DeviceError, match=rf"{TOLD}reads 0x\w+; the copy queue .*copies .*wrote"):
        download(device, buffer)


def test_a_write_over_what_a_copy_may_still_read_is_a_fault(device, hasty):
    buffer = device.allocator.alloc(4 * COUNT)
    hasty()
    data = np.arange(COUNT, dtype=np.int32).data.cast("B")

    def write():
        for _ in range(3):  # two pieces take turns
            device.write(buffer, data)
        device.synchronize()

    with pytest.raises(DeviceError, match="nothing says that this has ended"):
        write()


def test_arguments_that_are_changed_while_a_replay_may_read_them_are_a_fault(
    machine, device, hasty
):
    phase = machine.kernel(device, add_one, slots=1)
    buffers = [upload(device, np.zeros(COUNT, np.int32)) for _ in range(2)]
    calls = device.call_list([Launch([phase], [buffers[0].argument])] * 4)
    calls.run()
    hasty()
    machine.platform.scheduler.is_paused = True  # else the GPU may be done before

    def replay():
        for turn in range(4):
            calls.set_arg(0, 0, buffers[turn % 2].argument)
            calls.run()
        machine.platform.scheduler.is_paused = False
        device.synchronize()

    with pytest.raises(DeviceError, match="nothing says that this has ended"):
        replay()


def test_a_device_that_waits_does_all_of_this(machine, device):
    phase = machine.kernel(device, add_one, slots=1)
    buffer = upload(device, np.zeros(COUNT, np.int32))
    calls = device.call_list([Launch([phase], [buffer.argument])])
    for _ in range(5):
        calls.run()
    assert (download(device, buffer) == 5).all()
