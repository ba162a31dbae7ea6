"""Memory of emulated devices: permissions, poison, and bytes that several address spaces share."""

import ctypes

import pytest

from treadle.emulate.machine.memory import (
    POISON,
    AddressSpace,
    HostPages,
    MemoryFault,
    MemoryObject,
    Permission,
)
from treadle.emulate.machine.ordering import Ordering

PAGE = 4096
READ_WRITE = Permission.READ | Permission.WRITE


@pytest.fixture
def space():
    return AddressSpace(Ordering())


def test_fresh_memory_is_what_it_is_filled_with(space):
    space.map(0x10000, PAGE, MemoryObject(PAGE, POISON), Permission.READ)
    assert space.read(0x10000, PAGE) == b"\xff" * PAGE


def test_what_one_space_writes_another_reads_at_its_own_address(space):
    block, other = MemoryObject(2 * PAGE), AddressSpace(Ordering())
    space.map(0x10000, 2 * PAGE, block, READ_WRITE)
    other.map(0x90000, 2 * PAGE, block, Permission.READ)
    space.write(0x10FFE, b"over")
    assert other.read(0x90FFE, 4) == b"over"


def test_an_access_may_cross_from_one_mapping_to_the_next(space):
    space.map(0x10000, PAGE, MemoryObject(PAGE), READ_WRITE)
    space.map(0x11000, PAGE, MemoryObject(PAGE), READ_WRITE)
    space.write(0x10FFC, bytes(range(8)))
    assert space.read(0x10FFC, 8) == bytes(range(8))


@pytest.mark.parametrize("address", [0xFFFF, 0x11000, 0x10FFD])
def test_an_access_outside_is_a_fault_with_its_address(space, address):
    space.map(0x10000, PAGE, MemoryObject(PAGE), READ_WRITE)
    with pytest.raises(MemoryFault, match="unmapped") as info:
        space.read(address, 4)
    assert info.value.address == (address if address < 0x10000 else 0x11000)


def test_permissions_hold(space):
    space.map(0x10000, PAGE, MemoryObject(PAGE), Permission.READ)
    with pytest.raises(MemoryFault, match="read-only"):
        space.write(0x10000, b"1")
    with pytest.raises(MemoryFault, match="no execute"):
        space.fetch(0x10000, 4)


def test_a_write_that_is_refused_in_part_writes_nothing(space):
    space.map(0x10000, PAGE, MemoryObject(PAGE), READ_WRITE)
    with pytest.raises(MemoryFault):
        space.write(0x10FFE, b"1234")
    assert space.read(0x10FFE, 2) == bytes(2)


def test_a_pointer_of_the_host_is_no_address_of_the_device(space):
    block = MemoryObject(PAGE)
    space.map(0x10000, PAGE, block, READ_WRITE)
    with pytest.raises(MemoryFault, match="unmapped"):
        space.read(block.host, 4)


def test_addresses_are_given_once(space):
    space.map(0x10000, 2 * PAGE, MemoryObject(2 * PAGE), READ_WRITE)
    for start in (0xF000, 0x10000, 0x11000):
        with pytest.raises(ValueError, match="mapped already"):
            space.map(start, 2 * PAGE, MemoryObject(2 * PAGE), READ_WRITE)
    with pytest.raises(ValueError, match="whole pages"):
        space.map(0x20001, PAGE, MemoryObject(PAGE), READ_WRITE)


def test_mappings_are_listed_by_address_with_where_they_are_in_this_process(space):
    first, second = MemoryObject(PAGE), MemoryObject(PAGE)
    space.map(0x20000, PAGE, second, Permission.READ)
    space.map(0x10000, PAGE, first, READ_WRITE)
    assert [tuple(one)[:4] for one in space.mappings()] == [
        (0x10000, PAGE, first.host, 3), (0x20000, PAGE, second.host, 1),
    ]  # fmt: skip


def test_what_is_unmapped_is_gone(space):
    space.map(0x10000, PAGE, MemoryObject(PAGE), READ_WRITE)
    space.unmap(0x10000)
    with pytest.raises(MemoryFault):
        space.read(0x10000, 1)


def test_pages_of_the_program_are_used_in_place(space):
    data = ctypes.create_string_buffer(3 * PAGE)
    start = -(-ctypes.addressof(data) // PAGE) * PAGE
    space.map(0x10000, PAGE, HostPages(start, PAGE), READ_WRITE)
    space.write(0x10004, b"here")
    assert ctypes.string_at(start + 4, 4) == b"here"
