"""An Adreno GPU as a runtime: what it computes, what goes wrong with it, and what it costs."""

import errno
import mmap
import struct
from collections import Counter

import numpy as np
import pytest
from tests.emulate.ir3.words import immed, r, word
from tests.emulate.judges import judge
from tests.runtime.hardware.qcom.machine import (
    Machine,
    add_number,
    download,
    pack,
    private_sum,
    upload,
)

from treadle.emulate.kgsl import Injection, KernelFault, tables
from treadle.emulate.kgsl.abi import CALLS as DRIVER_CALLS
from treadle.emulate.kgsl.chips import CHIPS
from treadle.emulate.kgsl.packets import packets
from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.ir3_object import unpack
from treadle.runtime.base import Entry, Launch
from treadle.runtime.hardware.qcom import KGSL, describe
from treadle.runtime.hardware.qcom.abi import CALLS

COUNT = 256
DATA = np.arange(COUNT, dtype=np.int32) * 3


@pytest.fixture
def machine():
    return Machine(seed=3)


def run(machine, device, phase, n=5):
    a, b = upload(device, DATA), device.allocator.alloc(4 * COUNT)
    device.run([Launch([phase], [a.argument, b.argument], [n])])
    return download(device, b)


@pytest.mark.parametrize("arch", sorted(CHIPS))
def test_a_kernel_runs_on_each_chip(arch):
    machine = Machine(arch, seed=1)
    device = machine.device()
    phase = machine.kernel(device, groups=4, wave=max(CHIPS[arch].waves))
    assert (run(machine, device, phase) == DATA + 5).all()
    assert arch in device.target.name
    assert device.target.name.startswith("emulated Adreno")


@pytest.mark.parametrize("seed", range(6))
def test_kernels_run_one_after_another(seed):
    machine = Machine(seed=seed)
    device = machine.device()
    phase = machine.kernel(device, groups=4)
    a, b = upload(device, DATA), device.allocator.alloc(4 * COUNT)
    launches = [
        Launch([phase], [x.argument, y.argument], [n])
        for n, (x, y) in enumerate([(a, b), (b, a)] * 4)
    ]
    device.run(launches)
    assert (download(device, a) == DATA + sum(range(8))).all()


def test_work_items_have_memory_of_their_own(machine):
    device = machine.device()
    words = add_number(value=private_sum())
    small = machine.kernel(device, words, groups=4, private=512)
    large = machine.kernel(device, words, groups=4, private=4096)
    for phase in (small, large, small):
        assert (run(machine, device, phase) == DATA + 5).all()
    assert device.private.version == 2


def test_launches_are_replayed_with_other_memory_and_integers(machine):
    device = machine.device()
    phase = machine.kernel(device, groups=4)
    a, b, other = (upload(device, DATA * k) for k in (1, 0, 2))
    calls = device.call_list([Launch([phase], [a.argument, b.argument], [1])])
    for n, source in ((1, a), (7, other), (-3, a)):
        calls.set_var(0, 0, n)
        calls.set_arg(0, 0, source.argument)
        calls.run()
        assert (download(device, b) == download(device, source) + n).all()


def test_a_replay_makes_one_call(machine):
    device = machine.device()
    phase = machine.kernel(device)
    memory = device.allocator.alloc(4 * COUNT)
    launch = Launch([phase], [memory.argument, memory.argument], [1])
    calls = device.call_list([launch] * 16)
    for _ in range(3):
        calls.run()
    device.synchronize()
    counted = Counter()
    real = machine.platform.ioctl

    def ioctl(fd, request, argument):
        counted[request] += 1
        real(fd, request, argument)

    machine.platform.ioctl = ioctl
    calls.run()
    assert counted == {CALLS["command"][0]: 1}
    assert calls.patched == 0


def test_times_are_told(machine):
    device = machine.device()
    memory = device.allocator.alloc(4 * COUNT)
    launch = Launch([machine.kernel(device)], [memory.argument, memory.argument], [1])
    ((start, end), (second, last)) = device.call_list([launch] * 2).run_timed()
    assert start < end <= second < last


def test_memory_of_the_program_is_used_in_place(machine):
    device = machine.device()
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    array = np.frombuffer(pages, np.int32)
    array[100 : 100 + COUNT] = DATA
    outside = device.allocator.from_pointer(array[100:].ctypes.data, 4 * COUNT, pages)
    out = device.allocator.alloc(4 * COUNT)
    phase = machine.kernel(device, groups=4)
    device.run([Launch([phase], [outside.argument, out.argument], [2])])
    assert (download(device, out) == DATA + 2).all()
    device.run([Launch([phase], [out.argument, outside.argument], [2])])
    device.synchronize()
    assert (array[100 : 100 + COUNT] == DATA + 4).all()


# -- what goes wrong


def fails(device, phase, what, address=0x7000):
    """Each use of the device from then on raises the same."""
    device.run([Launch([phase], [address, address], [1])])
    with pytest.raises(DeviceError, match=what) as first:
        device.synchronize()
    launch = [Launch([phase], [0x7000, 0x7000], [1])]
    for use in (lambda: device.allocator.alloc(16), lambda: device.run(launch), device.synchronize,
                lambda: device.call_list(launch)):  # fmt: skip
        with pytest.raises(DeviceError) as later:
            use()
        assert str(later.value) == str(first.value)
    assert "what ran: k" in str(first.value)


def test_memory_that_is_nobodys(machine):
    device = machine.device()
    fails(device, machine.kernel(device), "QCOM: a kernel or a command stopped it.*0x7000")
    other = machine.device()
    assert (run(machine, other, machine.kernel(other, groups=4)) == DATA + 5).all()


def test_a_register_that_is_read_too_early(machine):
    device = machine.device()
    early = add_number(value=[word("add.u", DST=12, FULL=1, SRC1=r(12), SRC2=immed(1))])
    early[early.index(word("nop", SY=1))] = word("nop")
    phase = machine.kernel(device, early)
    told = r"r3.x, which 'ldg.u32 r3.x, g\[r2.x\], 1' at word 8 sets"
    fails(device, phase, told, device.allocator.alloc(4 * COUNT).argument)


def test_a_kernel_that_hangs_is_given_up(machine):
    device = machine.device(timeout=0.01)
    machine.driver.inject(Injection("event"))
    phase = machine.kernel(machine.device())
    memory = device.allocator.alloc(1024)
    device.run([Launch([phase], [memory.argument, memory.argument], [1])])
    with pytest.raises(DeviceError, match="it has not finished what it was given"):
        device.synchronize()


def test_a_gpu_that_is_gone(machine):
    device = machine.device()
    machine.driver.gpu.lose()
    with pytest.raises(DeviceError, match=r"QCOM: .*ENODEV"):
        device.run([Launch([machine.kernel(device)], [0, 0], [1])])


def test_memory_has_an_end():
    machine = Machine(memory=16 << 20)
    device = machine.device()
    held = [device.allocator.alloc(4 << 20) for _ in range(2)]
    with pytest.raises(OutOfMemory, match="delete tensors that are no longer needed"):
        device.allocator.alloc(8 << 20)
    del held
    device.allocator.alloc(8 << 20)
    with pytest.raises(OutOfMemory, match=r"at most 4.0 GiB"):
        device.allocator.alloc(5 << 30)


def test_memory_goes_back_to_the_driver(machine):
    device = machine.device()
    before = machine.driver.gpu.used
    buffers = [device.allocator.alloc(1 << 20) for _ in range(4)]
    assert machine.driver.gpu.used >= before + (4 << 20)
    del buffers
    device.allocator.trim()
    assert machine.driver.gpu.used <= before


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (errno.ENOENT, "there is no /dev/kgsl-3d0: the kernel driver KGSL is not there"),
        (errno.EACCES, "this user may not open /dev/kgsl-3d0; sudo chmod a\\+rw /dev/kgsl-3d0"),
    ],
)
def test_a_driver_that_does_not_open(number, what):
    platform = EmulatedPlatform()
    if number == errno.EACCES:
        machine = Machine()
        machine.driver.refuses_access, platform = True, machine.platform
    with pytest.raises(DeviceError, match=what):
        KGSL(platform)


def test_a_chip_without_code_is_refused(machine):
    machine.kgsl.chip_id = 0x07030001
    with pytest.raises(DeviceError, match="no code for the GPU with chip id 0x07030001"):
        describe(machine.kgsl)
    machine.kgsl.chip_id = 0x06050002  # a patch of a650
    assert describe(machine.kgsl) == "emulated Adreno 650 (a650)"


# -- what the compiler leaves


@pytest.mark.parametrize("cut", [0, 7, 11, 20, 60, -1])
def test_a_broken_object_is_refused(machine, cut):
    data = pack(add_number())[:cut]
    with pytest.raises(InternalError, match="Adreno's machine code"):
        machine.device().load(data, [])


@pytest.mark.parametrize(
    ("entry", "error", "what"),
    [
        (Entry("other", 1, 64), InternalError, "the code has no kernels other"),
        (Entry("k", 1, 32), InternalError, "compiled for 64 work items, not 32"),
        (Entry("k", 1, 64), InternalError, "takes arguments of"),
        (Entry("k", 1 << 27, 64), DeviceError, "split the tensor"),
    ],
)
def test_a_kernel_that_does_not_fit_its_entry_is_refused(machine, entry, error, what):
    with pytest.raises(error, match=what):
        machine.device().load(pack(add_number()), [entry])


# -- what is sent to the driver


def test_calls_are_those_of_the_header():
    """Those of the emulated driver, which are compared with the header."""
    known = {request: layout for request, (_, layout) in DRIVER_CALLS.items()}
    for name, (request, layout) in CALLS.items():
        assert request in known, name
        assert layout.nbytes == known[request].nbytes
        for field, (at, size) in known[request].fields.items():
            assert (layout.offsets[field], layout.size_of(field)) == (at, size), f"{name}.{field}"


def test_packets_are_those_that_mesa_describes(machine):
    judge("mesa")  # of which the tables are
    device = machine.device()
    phase = machine.kernel(device, private=512)
    device.give_scratch(phase)
    seen = set()
    for packet in packets(phase.words(0x1_2345_6780, device.private)):
        if packet.opcode is None:
            for n in range(len(packet.words)):
                seen.add(tables.register(packet.register + n))
        else:
            seen.add(tables.opcode(packet.opcode))
    assert None not in seen
    assert {"CP_EXEC_CS", "CP_WAIT_FOR_IDLE", "SP_CS_OBJ_START_HI", "SP_CS_PVT_MEM_SIZE"} <= seen


def test_a_fault_of_the_emulator_is_told(machine):
    def fail(dispatch):
        raise KernelFault("what went wrong there")

    device = machine.device()
    phase = machine.kernel(device)
    machine.run_dispatch = fail
    fails(device, phase, "what went wrong there")


def test_the_object_in_these_tests_is_whole():
    (found,) = unpack(pack(add_number(), literals=[64]))
    assert struct.pack("<Q", found.code[-1]) == struct.pack("<Q", word("end"))


@pytest.mark.parametrize("number", [errno.ENODEV, errno.EINVAL])
def test_a_driver_that_answers_nothing_is_closed_again(number):
    machine, closed = Machine(), []
    platform = machine.platform

    def ioctl(fd, request, argument):
        raise OSError(number, "no answer")

    platform.ioctl, platform.close = ioctl, closed.append
    with pytest.raises(DeviceError, match="QCOM: could not open the kernel driver"):
        KGSL(platform)
    assert len(closed) == 1
