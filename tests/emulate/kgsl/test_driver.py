"""Calls of /dev/kgsl-3d0: what they do, and what they refuse."""

import errno
import mmap
import struct

import numpy as np
import pytest
from tests.emulate.kgsl.rig import (
    ALLOC,
    COMMAND,
    CREATE,
    DESTROY,
    FREE,
    INFO,
    MAP,
    MEM_WRITE,
    NOP,
    PAGE,
    PROPERTY,
    SET,
    STAMP,
    UNMAP,
    WAIT,
    WAIT_REG_MEM,
    Rig,
    halves,
    packet,
)  # fmt: skip

from treadle.emulate.kgsl.abi import CALLS
from treadle.emulate.kgsl.chips import CHIPS


@pytest.fixture
def machine():
    return Rig(lambda dispatch: None)


def fails(number, call, *arguments):
    with pytest.raises(OSError, match=r".") as error:
        call(*arguments)
    assert error.value.errno == number, error.value


@pytest.mark.parametrize("arch", sorted(CHIPS))
def test_a_chip_tells_what_it_is(arch):
    machine = Rig(lambda dispatch: None, arch=arch)
    place = np.zeros(40, np.uint8)
    machine.ioctl(PROPERTY, bytearray(struct.pack("<IxxxxQQ", 1, place.ctypes.data, 40)))
    _, chip_id, has_mmu, _, gpu_id, gmem = struct.unpack("<IIIxxxxQIxxxxQ", place.tobytes())
    assert (chip_id >> 24, has_mmu, gmem) == (6, 1, 1 << 20)
    assert gpu_id == int(arch[1:])
    assert chip_id == CHIPS[arch].chip_id


def test_a_version_is_told_and_other_properties_are_refused(machine):
    place = np.zeros(16, np.uint8)
    machine.ioctl(PROPERTY, bytearray(struct.pack("<IxxxxQQ", 8, place.ctypes.data, 16)))
    assert struct.unpack("<4I", place.tobytes())[:2] == (3, 14)
    for kind, nbytes in ((8, 12), (0x99, 16), (1, 16)):
        block = bytearray(struct.pack("<IxxxxQQ", kind, place.ctypes.data, nbytes))
        fails(errno.EINVAL, machine.ioctl, PROPERTY, block)
    machine.ioctl(SET, bytearray(struct.pack("<IxxxxQQ", 0x12, 0, 0)))
    fails(errno.EINVAL, machine.ioctl, SET, bytearray(struct.pack("<IxxxxQQ", 1, 0, 0)))


@pytest.mark.parametrize("request_", [0, 0xC0180903, ALLOC + (1 << 16), 0xC0400A4A, 0xC0200948])
def test_a_number_that_is_not_there_is_enotty(machine, request_):
    fails(errno.ENOTTY, machine.ioctl, request_, bytearray(256))


def test_an_argument_that_is_too_short_is_efault(machine):
    for request, (_, layout) in CALLS.items():
        fails(errno.EFAULT, machine.ioctl, request, bytearray(layout.nbytes - 1))


def test_the_sizes_of_arguments_are_in_the_numbers():
    for request, (name, layout) in CALLS.items():
        assert request >> 16 & 0x3FFF == layout.nbytes, name
        assert request >> 8 & 0xFF == 9
        for field, (at, size) in layout.fields.items():
            assert at % size == 0, f"{name}.{field}"
            assert at + size <= layout.nbytes, f"{name}.{field}"


def test_objects_are_the_gpus_and_the_hosts(machine):
    first, second = machine.memory(100), machine.memory(3 * PAGE, flags=16 << 16)
    assert second.address % (1 << 16) == 0
    assert first.words(2) == [0xFFFFFFFF] * 2, "fresh memory is no number of a program"
    machine.run(packet(MEM_WRITE, *halves(second.address + 2 * PAGE), 5))
    assert second.words(1, 2 * PAGE) == [5]
    assert machine.driver.gpu.used >= 4 * PAGE


def test_an_object_that_is_freed_is_unmapped(machine):
    used = machine.driver.gpu.used
    memory = machine.memory()
    machine.ioctl(FREE, bytearray(struct.pack("<QQIIIxxxx", 0, 0, memory.number, 0, 0)))
    assert machine.driver.gpu.used == used
    with pytest.raises(OSError, match="a fault"):
        machine.run(packet(MEM_WRITE, *halves(memory.address), 5))
    assert "unmapped" in machine.platform.explain()
    block = bytearray(struct.pack("<QQIIIxxxx", 0, 0, memory.number, 0, 0))
    fails(errno.EINVAL, machine.ioctl, FREE, block)
    fails(errno.EINVAL, machine.ioctl, INFO, bytearray(40) + struct.pack("<Ixxxx", memory.number))


def test_the_gpu_does_not_write_what_it_may_only_read(machine):
    memory = machine.memory(flags=1 << 24)
    with pytest.raises(OSError, match="a fault"):
        machine.run(packet(MEM_WRITE, *halves(memory.address), 5))
    assert "read-only" in machine.platform.explain()


def test_the_programs_own_memory_becomes_an_object(machine):
    pages = mmap.mmap(-1, 2 * PAGE)
    view = np.frombuffer(pages, np.uint32)
    block = bytearray(struct.pack("<ixxxxQQQQII", -1, 0, 2 * PAGE, 0, view.ctypes.data, 2, 0))
    machine.ioctl(MAP, block)
    address = struct.unpack_from("<Q", block, 8)[0]
    machine.run(packet(MEM_WRITE, *halves(address + PAGE), 9))
    assert view[PAGE // 4] == 9
    machine.ioctl(UNMAP, bytearray(struct.pack("<Q", address)))
    fails(errno.EINVAL, machine.ioctl, UNMAP, bytearray(struct.pack("<Q", address)))
    for place, nbytes, kind in ((view.ctypes.data + 8, PAGE, 2), (view.ctypes.data, 100, 2),
                                (view.ctypes.data, PAGE, 3)):  # fmt: skip
        block = bytearray(struct.pack("<ixxxxQQQQII", -1, 0, nbytes, 0, place, kind, 0))
        fails(errno.EINVAL, machine.ioctl, MAP, block)


@pytest.mark.parametrize(("size", "flags"), [(0, 0), (PAGE, 40 << 16)])
def test_objects_that_cannot_be_are_refused(machine, size, flags):
    block = bytearray(struct.pack("<QQQQIIQ", size, flags, 0, 0, 0, 0, 0))
    fails(errno.EINVAL, machine.ioctl, ALLOC, block)


def test_an_object_may_be_where_the_host_maps_it(machine):
    memory = machine.memory(2 * PAGE, flags=1 << 28)
    assert not memory.address, "it has no address before"
    with pytest.raises(OSError, match="a fault"):
        machine.run(packet(MEM_WRITE, 0, 1, 4))
    machine.run(packet(MEM_WRITE, *halves(memory.host + PAGE), 4))
    assert memory.words(1, PAGE) == [4]


def test_memory_has_an_end():
    machine = Rig(lambda dispatch: None, memory=4 * PAGE)
    machine.memory(3 * PAGE)
    block = bytearray(struct.pack("<QQQQIIQ", 2 * PAGE, 0, 0, 0, 0, 0, 0))
    fails(errno.ENOMEM, machine.ioctl, ALLOC, block)


def test_only_objects_are_mapped(machine):
    memory = machine.memory()
    place = machine.platform.reserve(2 * PAGE, PAGE)
    for nbytes, offset in ((PAGE, 99 * PAGE), (2 * PAGE, memory.number * PAGE), (PAGE, 8)):
        fails(errno.EINVAL, machine.platform.map, machine.fd, nbytes, offset, place)


def test_timestamps_count_the_submissions_of_a_context(machine):
    first, second = machine.context(), machine.context()
    assert [machine.submit(first, packet(NOP)) for _ in range(3)] == [1, 2, 3]
    assert machine.submit(second, packet(NOP)) == 1
    machine.wait(first, 3)

    def stamp(context, kind):
        return struct.unpack(
            "<III", machine.ioctl(STAMP, bytearray(struct.pack("<III", context, kind, 0)))
        )[2]

    assert (stamp(first, 2), stamp(first, 3)) == (3, 3)
    fails(errno.EINVAL, stamp, first, 9)
    fails(errno.EINVAL, machine.wait, first, 4)
    fails(errno.EINVAL, machine.wait, 77, 1)


def test_a_wait_ends_when_its_time_is_over(machine):
    flag, context = machine.memory(), machine.context()
    flag.put(bytes(4))
    words = packet(WAIT_REG_MEM, 3 | 1 << 4, *halves(flag.address), 1, 0xFFFFFFFF, 16)
    stamp = machine.submit(context, words)
    fails(errno.ETIMEDOUT, machine.wait, context, stamp, 10)
    flag.put(b"\1")
    machine.wait(context, stamp)


def test_several_buffers_run_in_order(machine):
    out, context = machine.memory(), machine.context()
    parts = [packet(MEM_WRITE, *halves(out.address), n) for n in range(4)]
    machine.wait(context, machine.submit(context, *parts))
    assert out.words(1) == [3]


@pytest.mark.parametrize(
    ("command", "count"),
    [
        (struct.pack("<QQQII", 0, PAGE, 0, 1, 0), 1), (struct.pack("<QQQII", 0, PAGE, 6, 1, 0), 1),
        (struct.pack("<QQQII", 0, PAGE, 8, 2, 0), 1), (bytes(32), 0), (bytes(32), 2001),
    ],
)  # fmt: skip
def test_commands_that_cannot_be_are_refused(machine, command, count):
    fails(errno.EINVAL, machine.submit_raw, machine.context(), command, count)


def test_a_context_that_is_gone_takes_nothing(machine):
    context = machine.context()
    machine.ioctl(DESTROY, bytearray(struct.pack("<I", context)))
    fails(errno.EINVAL, machine.submit, context, packet(NOP))
    fails(errno.EINVAL, machine.ioctl, DESTROY, bytearray(struct.pack("<I", context)))


def test_a_context_that_a_fault_has_ended_takes_nothing(machine):
    context = machine.context()
    stamp = machine.submit(context, [0])
    fails(errno.EDEADLK, machine.wait, context, stamp)
    fails(errno.EDEADLK, machine.submit, context, packet(NOP))
    other = machine.context()
    machine.wait(other, machine.submit(other, packet(NOP)))


def test_what_a_process_has_ends_with_its_last_file(machine):
    machine.memory()
    second = machine.platform.open("/dev/kgsl-3d0")
    machine.context()
    machine.platform.close(machine.fd)
    assert machine.driver.gpu.used
    machine.platform.close(second)
    assert not machine.driver.gpu.used
    assert not machine.driver.gpu.contexts


def test_a_gpu_that_is_lost_and_a_file_of_another_user(machine):
    machine.driver.refuses_access = True
    fails(errno.EACCES, machine.platform.open, "/dev/kgsl-3d0")
    machine.driver.gpu.lose()
    for request in (CREATE, COMMAND, WAIT):
        fails(errno.ENODEV, machine.ioctl, request, bytearray(64))
