"""What goes wrong with an NVIDIA GPU: one clear sentence each, and what comes after."""

import dataclasses
import errno
import gc
import os
import re

import numpy as np
import pytest
from tests.emulate.nv.machine import Machine, compiled, download, upload

from treadle.emulate.machine.platform import EmulatedPlatform, refusal
from treadle.emulate.nv.faults import Status
from treadle.emulate.nv.injection import Injection
from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.hardware.nv import RM, NVDevice, describe, target_of
from treadle.runtime.hardware.nv.failures import NVFailures, RMError
from treadle.runtime.hardware.nv.objects import GPUObjects

COUNT = 64
NOBODYS = 0x7000
TRAP = 'extern "C" __global__ void stop(const int* x, int* out, int n) { asm("trap;"); }'


@pytest.fixture
def machine():
    return Machine("sm_80", "sm_80", seed=3)


def fails_after(device, phase, *args):
    """The error that the device has from a launch on, at each use."""
    launch = [Launch([phase], args, [1])]
    device.run(launch)
    with pytest.raises(DeviceError) as first:
        device.synchronize()
    for use in (
        lambda: device.allocator.alloc(16),
        lambda: device.run(launch),
        lambda: device.call_list(launch),
        device.synchronize,
    ):
        with pytest.raises(DeviceError) as later:
            use()
        assert str(later.value) == str(first.value)
    return str(first.value)


def goes_on(machine, device):
    """A device copies and computes as before."""
    data = np.arange(COUNT, dtype=np.int32)
    a, b = upload(device, data), device.allocator.alloc(4 * COUNT)
    device.run([Launch([machine.kernel(device, "add_number")], [a.argument, b.argument], [2])])
    assert (download(device, b) == data + 2).all()


# -- while work runs ------------------------------------------------------------------------------


def test_an_mmu_fault_tells_the_address_and_the_kernel(machine):
    device, other = machine.device(0), machine.device(1)
    told = fails_after(device, machine.kernel(device, "add_number"), NOBODYS, NOBODYS)
    assert told.startswith(
        "NV: a kernel or a copy used memory that is not its own, at 0x7000 (Xid 31)"
    )
    assert "what ran: add_number. The device's tensors are gone, and this process can use" in told
    goes_on(machine, other)


def test_an_mmu_fault_is_told_where_the_driver_gives_no_address(machine):
    device = machine.device()
    phase = machine.kernel(device, "add_number")
    real = machine.driver.rm.control

    def control(client, handle, command, block):
        if command == 0x83DE0328:  # NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO
            raise Status("INSUFFICIENT_PERMISSIONS")
        real(client, handle, command, block)

    machine.driver.rm.control = control
    told = fails_after(device, phase, NOBODYS, NOBODYS)
    assert told.startswith("NV: a kernel or a copy used memory that is not its own (Xid 31)")


def test_memory_of_another_gpu_is_an_mmu_fault(machine):
    device, other = machine.device(0), machine.device(1)
    theirs = upload(other, np.zeros(COUNT, np.int32))
    told = fails_after(
        device, machine.kernel(device, "add_number"), theirs.argument, theirs.argument
    )  # fmt: skip
    assert f"used memory that is not its own, at {theirs.argument:#x}" in told
    goes_on(machine, other)


def test_a_kernel_that_stops_itself_is_told(machine):
    device, other = machine.device(0), machine.device(1)
    entry = Entry("stop", 1, 32, (Slot(0, 4, True), Slot(1, 4, True)), (0,))
    (phase,) = device.load(compiled("sm_80", TRAP), [entry]).phases
    told = fails_after(device, phase, 0, 0)
    assert told.startswith(
        "NV: a kernel stopped, such as at an illegal instruction or a trap (Xid 13)"
    )
    assert "what ran: stop" in told
    goes_on(machine, other)


def test_machine_code_that_is_damaged_is_told(machine):
    """What is no instruction stops a GPU; here it is code that nobody has compiled."""
    device = machine.device()
    phase = machine.kernel(device, "add_number")
    data = np.full(16, 0xBAD, np.int32)
    device.write(phase.code, memoryview(data).cast("B"))
    told = fails_after(device, phase, 0, 0)
    assert "a kernel stopped, such as at an illegal instruction or a trap (Xid 13)" in told


def test_commands_that_are_none_are_told(machine):
    device = machine.device()
    phase = machine.kernel(device, "add_number")
    device.synchronize()
    machine.driver.inject(Injection("word", every=1 << 40, skip=0))
    told = fails_after(device, phase, 0, 0)
    assert "the commands of a channel are not what the GPU understands (Xid 32)" in told


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (13, "a kernel stopped, such as at an illegal instruction or a trap"),
        (31, "a kernel or a copy used memory that is not its own, at 0x7000"),
        (32, "the commands of a channel are not what the GPU understands"),
        (39, "a copy stopped"),
        (69, "a command has a value that its class does not allow"),
        (43, "a channel stopped"),
    ],
)
def test_each_error_of_a_notifier_is_a_sentence_with_its_number(machine, number, sentence):
    failures = NVFailures("NV", machine.platform)
    failures.channel_stopped(number, NOBODYS if number == 31 else None)
    with pytest.raises(DeviceError) as told:
        failures.check()
    assert str(told.value).startswith(f"NV: {sentence} (Xid {number}). The device's tensors are")


def test_a_notifier_of_either_channel_is_heard(machine):
    """The driver writes what it says into the notifiers; the GPU says nothing more."""
    for which in ("compute", "copies"):
        device = machine.device()
        machine.driver.gpus[0].channels[getattr(device, which)._token].notify(43)
        with pytest.raises(DeviceError, match=r"^NV: a channel stopped \(Xid 43\)"):
            device.synchronize()


def test_a_gpu_that_does_nothing_is_a_timeout(machine):
    device = machine.device()
    phase = machine.kernel(device, "add_number")
    before = machine.platform.now()
    machine.platform.scheduler.is_paused = True
    told = fails_after(device, phase, 0, 0)
    assert told.startswith("NV: it has not finished what it was given: nothing has happened for 5")
    assert machine.platform.now() - before >= 5 * 10**9


def test_a_gpu_that_is_lost_while_it_works_is_told(machine):
    device, other = machine.device(0), machine.device(1)
    phase = machine.kernel(device, "add_number")
    machine.run_dispatch = lambda dispatch: machine.driver.gpus[0].lose()
    told = fails_after(device, phase, 0, 0)
    assert told.startswith("NV: the device was lost (it has fallen off the bus)")
    machine.run_dispatch = Machine("sm_80").run_dispatch
    goes_on(machine, other)


def test_a_gpu_that_is_lost_while_it_is_idle_is_told(machine):
    device, other = machine.device(0), machine.device(1)
    machine.driver.gpus[0].lose()
    with pytest.raises(
        DeviceError, match=r"^NV: the device was lost \((it has fallen|the kernel d)"
    ):
        device.allocator.alloc(1 << 20)
    goes_on(machine, other)


def test_memory_that_ends_is_told_and_the_device_goes_on():
    machine = Machine("sm_80", vram=32 << 20)
    device = machine.device()
    held = device.allocator.alloc(20 << 20)
    with pytest.raises(OutOfMemory, match=r"^NV: no memory to allocate 20.*: delete tensors"):
        device.allocator.alloc(20 << 20)
    del held
    goes_on(machine, device)


def test_a_forked_child_is_refused(machine):
    device = machine.device()
    child = os.fork()
    if child == 0:
        try:
            device.synchronize()
            os._exit(1)
        except DeviceError as error:
            os._exit(0 if "before this process was forked" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    goes_on(machine, device)


# -- others' work ---------------------------------------------------------------------------------


def another_process(machine, index=0):
    """A device of another client of the driver's, with files of its own."""
    return NVDevice(
        "NV", RM(machine.platform), index,
        lambda own, facts: target_of(own, facts, None, True), timeout=5.0,
        on_load=machine.programs.record,
    )  # fmt: skip


def objects_of(machine, device):
    objects = machine.driver.rm.objects.of(device.rm.client)
    return {one.handle: (one.kind, one.nbytes, one.mapped) for one in objects}


def test_a_fault_leaves_the_work_and_the_objects_of_another_process(machine):
    """Their kernels are in the GPU's queue when ours fails, and they go on after it."""
    theirs, ours = another_process(machine), machine.device()
    phase = machine.kernel(theirs, "add_number")
    a = upload(theirs, np.zeros(COUNT, np.int32))
    theirs.synchronize()
    objects = objects_of(machine, theirs)
    for _ in range(5):
        theirs.run([Launch([phase], [a.argument, a.argument], [1])])
    fails_after(ours, machine.kernel(ours, "add_number"), NOBODYS, NOBODYS)
    assert (download(theirs, a) == 5).all()
    goes_on(machine, theirs)
    assert {*objects.items()} <= {*objects_of(machine, theirs).items()}


def test_no_call_names_an_object_of_another_process(machine):
    theirs = another_process(machine)
    before = objects_of(machine, theirs)
    ours = machine.device()
    goes_on(machine, ours)
    assert ours.rm.client != theirs.rm.client
    del ours
    gc.collect()
    assert objects_of(machine, theirs) == before
    goes_on(machine, theirs)


# -- before a device is open ----------------------------------------------------------------------


def test_no_driver_is_a_sentence_with_a_command():
    with pytest.raises(DeviceError, match=r"^NV: there is no /dev/nvidiactl: .*; sudo nvidia-mod"):
        RM(EmulatedPlatform())


@pytest.mark.parametrize("path", ["/dev/nvidia-uvm", "/dev/nvidia0"])
def test_a_file_that_is_missing_is_named(machine, path):
    machine.platform.remove_device(path)
    with pytest.raises(DeviceError, match=rf"^NV: there is no {path}: NVIDIA's kernel driver is"):
        machine.device()


@pytest.mark.parametrize("path", ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"])
def test_a_missing_permission_names_the_file(machine, path, monkeypatch):
    def opened(name, really=machine.platform.open):
        if name == path:
            raise refusal(13)
        return really(name)

    monkeypatch.setattr(machine.platform, "open", opened)
    with pytest.raises(DeviceError, match=rf"^NV: this user may not open {path}; sudo chmod a\+rw"):
        machine.device()


def test_a_call_that_the_user_may_not_make_says_so(machine, monkeypatch):
    def alloc(*given):
        raise Status("INSUFFICIENT_PERMISSIONS")

    monkeypatch.setattr(machine.driver.rm, "alloc", alloc)
    with pytest.raises(
        DeviceError,
        match=r"^NV: this user may not open the GPU \(alloc: INSUFFICIENT_PERMISSIONS\); run as",
    ):
        machine.device()


def test_closed_kernel_modules_are_named_as_the_cause():
    machine = Machine("sm_80", is_closed=True)
    with pytest.raises(DeviceError, match=r"^NV: the kernel driver is NVIDIA's closed one"):
        _ = machine.opened


@pytest.mark.parametrize("version", ["535.54.03", "565.77"])
def test_a_driver_of_another_version_is_named_with_it(version):
    machine = Machine("sm_80", version=version)
    with pytest.raises(
        DeviceError, match=rf"is of release {version}, and 570 or newer is needed; install a newer"
    ):
        _ = machine.opened


def test_a_driver_that_takes_other_structures_than_it_says_is_told():
    """A driver whose structures are those of 570, and whose version is 580's."""
    machine = Machine("sm_80", version="570.133.20")
    machine.driver.version = "580.142"
    with pytest.raises(InternalError, match=r"^NV: could not open the GPU: .*INVALID_PARAM_STR"):
        machine.device()


@pytest.mark.parametrize("version", ["570.133.20", "580.142", "590.48.01"])
def test_each_release_has_a_device(version):
    assert Machine("sm_90a", version=version).device().synchronize() is None


def test_a_gpu_that_is_not_there_is_counted():
    with pytest.raises(DeviceError, match=r"there is no NV:1: the kernel driver shows 1 GPU$"):
        Machine("sm_80").device(1)


def test_a_driver_without_gpus_says_so():
    with pytest.raises(DeviceError, match=r"there is no NV: the kernel driver shows no GPUs$"):
        Machine().device()
    with pytest.raises(DeviceError, match=r"^NV: the kernel driver shows no GPU; sudo dmesg"):
        describe(Machine().opened)


def test_a_gpu_that_is_not_driven_is_named_and_others_are_described():
    machine = Machine("sm_80", "sm_86")
    gpu = machine.driver.gpus[0]
    gpu.chip = dataclasses.replace(gpu.chip, sm_version=0x705)  # Turing
    assert describe(machine.opened) == (
        "emulated NVIDIA GeForce RTX 3090 (sm_86) with 2 GiB, driver 580.142"
    )
    with pytest.raises(DeviceError, match=r"are of version 0x705, and treadle drives those of sm"):
        machine.device()
    machine.driver.gpus[1].chip = gpu.chip
    with pytest.raises(DeviceError, match="are of version 0x705"):
        describe(machine.opened)


def test_a_driver_that_lacks_a_class_is_named_as_the_cause(machine):
    gpu = machine.driver.gpus[0]
    gpu.chip = dataclasses.replace(gpu.chip, compute="BLACKWELL_COMPUTE_A")
    with pytest.raises(DeviceError, match=r"does not offer class 0xc6c0 on this sm_80 GPU; inst"):
        machine.device()


class Refusing(Machine):
    """A machine whose driver refuses one call, the `at`-th, with an `errno`."""

    def __init__(self, number=0, at=-1):
        super().__init__("sm_80")
        self.calls, self._really, self.platform.ioctl = 0, self.platform.ioctl, self._ioctl
        self._number, self._at = number, at

    def _ioctl(self, fd, request, argument):
        self.calls += 1
        if self.calls == self._at + 1:
            raise refusal(self._number)
        self._really(fd, request, argument)

    def program(self):
        """What is raised by a program that opens a GPU and computes, or None."""
        try:
            describe(self.opened)
            goes_on(self, self.device())
        except (DeviceError, InternalError) as error:
            return error
        return None


@pytest.mark.parametrize("number", [errno.EPERM, errno.EIO, errno.EINVAL])
def test_each_call_that_the_driver_refuses_is_one_sentence(number):
    plain = Refusing()
    assert plain.program() is None
    assert plain.calls > 100
    passed = []
    for at in range(plain.calls):
        machine = Refusing(number, at)
        told = machine.program()
        if told is None:
            passed.append(at)
            continue
        assert re.match(r"NV: (could not|this user may not|the device was lost)", str(told))
        assert errno.errorcode[number] in str(told)
        if machine._opened is None:
            assert not machine.platform._open
    assert len(passed) <= 1  # UVM_MM_INITIALIZE, which not all kernels take


def test_a_gpu_that_could_not_be_opened_leaves_nothing_and_may_be_opened_again():
    plain = Refusing()
    first = plain.opened and plain.calls
    GPUObjects(plain.opened, plain.opened.card(0, "NV"), 0, "NV")
    assert plain.calls > first + 8
    for at in range(first, plain.calls):
        machine = Refusing(errno.EIO, at)
        rm, objects = machine.opened, machine.driver.rm.objects
        files = len(machine.platform._open)
        with pytest.raises(RMError):
            GPUObjects(rm, rm.card(0, "NV"), 0, "NV")
        assert len(machine.platform._open) == files
        assert [one.kind for one in objects.of(rm.client)] == ["NV01_ROOT_CLIENT"]
        goes_on(machine, machine.device())


def test_calls_that_a_newer_driver_does_not_take_are_told_with_its_release():
    machine = Machine("sm_80", version="570.133.20")  # of other structures
    machine.driver.version = "610.43.02"
    with pytest.raises(
        DeviceError, match=r"INVALID_PARAM_STRUCT \(the kernel driver is of release"
    ):
        machine.device()
    refused = RMError("alloc", 0x51, newer="610.43.02")
    assert str(refused) == "alloc: NO_MEMORY"  # for which its release is no reason


def test_an_architecture_that_the_gpu_does_not_have_is_refused():
    machine = Machine("sm_80")
    with pytest.raises(DeviceError, match=r"is of sm_80, which does not run code for sm_90a"):
        NVDevice("NV", machine.opened, 0, lambda own, facts: target_of(own, facts, "sm_90a", True))
