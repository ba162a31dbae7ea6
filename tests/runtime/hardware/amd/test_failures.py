"""What goes wrong with an AMD GPU: one clear sentence each, and what comes after."""

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from tests.emulate.kfd.machine import Machine, download, load, upload

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.base import Launch
from treadle.runtime.hardware.amd.kfd import KFD

ROOT = Path(__file__).parents[4]
COUNT = 16


def copy_all(run):
    source, target = run.addresses(2)
    run.write(target, run.read(source, COUNT))


@pytest.fixture(params=[False, True], ids=["PM4", "AQL"])
def machine(request):
    return Machine("gfx1100", "gfx1100", seed=3, uses_aql=request.param, timeout=20.0)


def fails_after(device, phase, *args):
    """The error that the device has from a launch on, at each use."""
    device.run([Launch([phase], args)])
    with pytest.raises(DeviceError) as first:
        device.synchronize()
    for use in (
        lambda: device.allocator.alloc(16),
        lambda: device.run([Launch([phase], args)]),
        lambda: device.call_list([Launch([phase], args)]),
        device.synchronize,
    ):
        with pytest.raises(DeviceError) as later:
            use()
        assert str(later.value) == str(first.value)
    return str(first.value)


def goes_on(device):
    """Another device computes as before."""
    data = np.arange(COUNT, dtype=np.int32)
    assert (download(device, upload(device, data)) == data).all()


def test_a_page_fault_tells_the_address_and_the_kernel(machine):
    device, other = machine.device(0), machine.device(1)
    phase = machine.kernel(device, copy_all, slots=2)
    a = upload(device, np.zeros(COUNT, "i4"))
    told = fails_after(device, phase, a.argument, 0x1234560000)
    assert told.startswith("AMD: a kernel used memory that is not its own, in the page at 0x12345")
    assert "what ran: copy_all" in told
    goes_on(other)


def test_a_pointer_of_the_hosts_is_a_page_fault(machine):
    device = machine.device()
    phase = machine.kernel(device, copy_all, slots=2)
    host = np.zeros(4096, np.int32)
    told = fails_after(device, phase, host.ctypes.data, host.ctypes.data)
    assert "used memory that is not its own" in told


def test_memory_of_another_gpu_is_a_page_fault(machine):
    device, other = machine.device(0), machine.device(1)
    phase = machine.kernel(device, copy_all, slots=2)
    theirs = upload(other, np.zeros(COUNT, "i4"))
    told = fails_after(device, phase, theirs.argument, theirs.argument)
    assert "used memory that is not its own" in told
    goes_on(other)


def test_a_gpu_goes_on_that_waits_for_one_that_has_failed(machine):
    device, other = machine.device(0), machine.device(1)
    phase = machine.kernel(device, copy_all, slots=2)
    source, target = upload(device, np.zeros(COUNT, "i4")), other.allocator.alloc(4 * COUNT)
    device.run([Launch([phase], [source.argument, 0x1234560000])])
    assert other.copy_from(device, source, target, 4 * COUNT)
    goes_on(other)
    with pytest.raises(DeviceError, match=r"^AMD: a kernel used memory that is not its own"):
        device.synchronize()
    other.synchronize()
    del source
    goes_on(other)


def test_an_illegal_instruction_is_told(machine):
    device = machine.device()
    phase = load(device, "odd", 0xBAD, 1, 0, 1, 32)
    told = fails_after(device, phase, 0)
    assert "such as an illegal instruction (0xbad is no instruction)" in told
    assert "what ran: odd" in told


def test_a_kernel_that_hangs_is_a_timeout():
    machine = Machine("gfx1100", seed=3, timeout=20.0)
    device = machine.device()
    phase = machine.kernel(device, lambda run: None)
    before = machine.platform.now()
    machine.driver.gpus[0].is_halted = True
    told = fails_after(device, phase, 0)
    assert told.startswith(
        "AMD: it has not finished what it was given: nothing has happened for 20"
    )
    assert machine.platform.now() - before >= 20 * 10**9


def test_a_gpu_that_is_lost_while_it_works_is_told(machine):
    device, other = machine.device(0), machine.device(1)
    phase = machine.kernel(device, lambda run: machine.driver.gpus[0].lose())
    told = fails_after(device, phase, 0)
    assert told.startswith("AMD: the device was lost (the driver has reset it, or it is no longer")
    goes_on(other)


def test_a_gpu_that_is_lost_while_it_is_idle_is_told(machine):
    device, other = machine.device(0), machine.device(1)
    machine.driver.gpus[0].lose()
    with pytest.raises(DeviceError, match=r"^AMD: the device was lost \(the kernel driver says al"):
        device.allocator.alloc(1 << 20)
    with pytest.raises(DeviceError, match=r"^AMD: the device was lost"):
        device.synchronize()
    goes_on(other)


def test_memory_that_ends_is_told_and_the_device_goes_on():
    machine = Machine("gfx1100", vram=32 << 20)
    device = machine.device()
    with pytest.raises(OutOfMemory, match=r"^AMD: no memory to allocate 32.*: delete tensors"):
        device.allocator.alloc(32 << 20)
    goes_on(device)


def test_a_driver_that_is_too_old_is_told():
    with pytest.raises(
        DeviceError, match=r"too old: its interface is 1\.5, and 1\.6 is needed; upd"
    ):
        KFD(Machine("gfx1100", version=(1, 5)).platform)


def test_a_driver_whose_first_call_fails_is_told_and_closed(monkeypatch):
    platform = Machine("gfx1100").platform

    def ioctl(fd, request, argument):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(platform, "ioctl", ioctl)
    with pytest.raises(
        DeviceError, match=r"^AMD: could not open the kernel driver \(get_version: E"
    ):
        KFD(platform)
    assert not platform._open


@pytest.mark.parametrize("version", [(1, 6), (1, 13), (1, 14), (1, 17)])
def test_a_driver_that_is_old_enough_serves(version):
    goes_on(Machine("gfx1100", version=version).device())


def test_a_user_without_permission_is_told_what_to_do():
    machine = Machine("gfx1100")
    machine.driver.refuses_access = True
    with pytest.raises(DeviceError, match="may not open /dev/kfd; sudo usermod -aG render,video"):
        KFD(machine.platform)


def test_a_render_node_without_permission_is_told():
    machine = Machine("gfx1100")
    kfd = machine.opened
    machine.driver.refuses_access = True
    assert kfd.nodes
    with pytest.raises(DeviceError, match="may not open /dev/dri/renderD128; sudo usermod"):
        machine.device()


def test_a_machine_without_the_driver_is_told():
    machine = Machine("gfx1100")
    machine.platform.remove_device("/dev/kfd")
    with pytest.raises(DeviceError, match="there is no /dev/kfd: the kernel driver amdgpu is not"):
        KFD(machine.platform)


def test_a_gpu_of_an_unknown_generation_is_told():
    machine = Machine("gfx1100")
    path = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/properties"
    text = machine.platform.read_text(path)
    machine.platform.add_text(path, text.replace("version 110000", "version 80003"))
    with pytest.raises(DeviceError, match="gfx803 is not supported"):
        machine.device()


def test_a_forked_child_is_refused():
    machine = Machine("gfx1100")
    device = machine.device()
    child = os.fork()
    if child == 0:
        try:
            device.synchronize()
            os._exit(1)
        except DeviceError as error:
            os._exit(0 if "before this process was forked" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    goes_on(device)


def test_a_program_ends_quietly_while_work_is_running():
    code = """
        from tests.emulate.kfd.machine import Machine, upload
        from treadle.runtime.base import Launch
        import numpy as np

        machine = Machine("gfx1100")
        device = machine.device()
        phase = machine.kernel(device, lambda run: None)
        buffer = upload(device, np.zeros(8))
        calls = device.call_list([Launch([phase], [buffer.argument])])
        calls.run()
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
