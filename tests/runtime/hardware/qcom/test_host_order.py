"""What the host reads and writes too early, past a runtime that forgets to wait, is a fault."""

import numpy as np
import pytest
from tests.runtime.hardware.qcom.machine import Machine, download, upload

from treadle.errors import DeviceError
from treadle.runtime.base import Launch

COUNT, SEEDS = 256, range(4)
DATA = np.arange(COUNT, dtype=np.int32)
TOLD = "in an order that nobody asked for: the host, "


@pytest.fixture(params=SEEDS)
def machine(request):
    return Machine(seed=request.param)


@pytest.fixture
def device(machine):
    return machine.device()


@pytest.fixture
def phase(machine, device):
    return machine.kernel(device, groups=4)


@pytest.fixture
def hasty(device, monkeypatch):
    """The device returns from waits at once."""
    return lambda: monkeypatch.setattr(device.order, "wait", lambda moment: None)


def go_on(machine, device, launch):
    """Uses the device: the driver tells of a fault at one of the next calls."""
    for _ in range(100):
        device.run([launch])
        machine.platform.pause()


def test_a_read_before_the_kernel_is_known_to_have_ended_is_a_fault(device, phase, hasty):
    a, b = upload(device, DATA), upload(device, DATA)
    hasty()
    device.run([Launch([phase], [a.argument, b.argument], [1])])
    with pytest.raises(DeviceError, match=rf"{TOLD}reads 0x\w+; context 1, .*wrote it"):
        download(device, b)


def test_a_write_over_what_a_kernel_may_still_read_is_a_fault(machine, device, phase, hasty):
    a, b = upload(device, DATA), upload(device, DATA)
    hasty()
    machine.platform.scheduler.is_paused = True  # else the GPU may be done before
    device.run([Launch([phase], [a.argument, b.argument], [1])])
    device.write(a, DATA.data.cast("B"))
    machine.platform.scheduler.is_paused = False
    with pytest.raises(DeviceError, match=r"reads 0x\w+; the host, wrote it, and nothing says"):
        go_on(machine, device, Launch([phase], [b.argument, b.argument], [1]))


def test_a_copy_by_the_host_of_what_a_kernel_may_still_write_is_a_fault(device, phase, hasty):
    a, b, c = (upload(device, DATA) for _ in range(3))
    hasty()
    device.run([Launch([phase], [a.argument, b.argument], [1])])
    with pytest.raises(DeviceError, match=rf"{TOLD}reads 0x\w+; context 1, .*wrote it"):
        device.copy_from(device, b, c, b.nbytes)


def test_constants_that_are_changed_while_a_replay_may_read_them_are_a_fault(
    machine, device, phase, hasty
):
    a, b = upload(device, DATA), upload(device, DATA)
    calls = device.call_list([Launch([phase], [a.argument, b.argument], [1])] * 4)
    calls.run()
    hasty()
    machine.platform.scheduler.is_paused = True

    def replay():
        for turn in range(4):
            calls.set_var(0, 0, turn)
            calls.run()
        machine.platform.scheduler.is_paused = False
        go_on(machine, device, Launch([phase], [a.argument, b.argument], [1]))

    with pytest.raises(DeviceError, match="nothing says that this has ended"):
        replay()


def test_packets_that_are_overwritten_while_they_may_be_read_are_a_fault(
    machine, device, phase, monkeypatch
):
    a, b = upload(device, DATA), upload(device, DATA)
    monkeypatch.setattr(device.compute._room, "take", lambda count, timeout: 0)
    machine.platform.scheduler.is_paused = True
    launch = [Launch([phase], [a.argument, b.argument], [1])]
    device.run(launch)
    device.run(launch)
    machine.platform.scheduler.is_paused = False
    with pytest.raises(DeviceError, match=r"reads packets, reads 0x\w+; the host, wrote it"):
        device.synchronize()


def test_a_device_that_waits_does_all_of_this(device, phase):
    a, b, c = (upload(device, DATA) for _ in range(3))
    calls = device.call_list([Launch([phase], [a.argument, b.argument], [1])])
    for turn in range(5):
        calls.set_var(0, 0, turn)
        calls.run()
        assert (download(device, b) == DATA + turn).all()
    assert device.copy_from(device, b, c, b.nbytes)
    device.write(b, DATA.data.cast("B"))
    assert (download(device, c) == DATA + 4).all()
    assert (download(device, b) == DATA).all()
