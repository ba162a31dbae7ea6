"""An operating system with emulated devices."""

import errno
import gc
import os

import pytest

from treadle.emulate.machine.memory import MemoryObject
from treadle.emulate.machine.platform import Doorbells, EmulatedPlatform, refusal

PAGE = 4096


class Device:
    """A file with one call, memory at offset 0 and doorbells at offset 1 << 20."""

    def __init__(self):
        self.memory, self.rung, self.is_closed = MemoryObject(PAGE), [], False
        self.doorbells = MemoryObject(PAGE)

    def open(self, fd):
        return self

    def ioctl(self, request, argument):
        if request != 7:
            raise refusal(errno.ENOTTY)
        argument[0] += 1

    def map(self, nbytes, offset):
        if offset:
            return Doorbells(self.doorbells, lambda place, value: self.rung.append((place, value)))
        return self.memory

    def close(self):
        self.is_closed = True


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def platform(device):
    platform = EmulatedPlatform()
    platform.add_device("/dev/thing", device)
    platform.add_text("/sys/things/0/name", "first\n")
    platform.add_text("/sys/things/1/name", "second\n")
    return platform


def test_a_call_changes_its_argument(platform):
    argument = bytearray(4)
    platform.ioctl(platform.open("/dev/thing"), 7, argument)
    assert argument[0] == 1


def test_an_unknown_call_is_enotty(platform):
    with pytest.raises(OSError) as info:
        platform.ioctl(platform.open("/dev/thing"), 8, bytearray(4))
    assert info.value.errno == errno.ENOTTY


def test_what_is_not_there_is_not_found(platform):
    for look in (
        lambda: platform.open("/dev/none"),
        lambda: platform.read_text("/sys/none"),
        lambda: platform.names("/sys/none"),
    ):
        with pytest.raises(FileNotFoundError):
            look()


def test_a_file_that_was_closed_is_none(platform, device):
    fd = platform.open("/dev/thing")
    platform.close(fd)
    assert device.is_closed
    with pytest.raises(OSError) as info:
        platform.ioctl(fd, 7, bytearray(4))
    assert info.value.errno == errno.EBADF


def test_folders_have_the_names_of_what_is_in_them(platform):
    assert platform.names("/sys/things") == ["0", "1"]
    assert platform.read_text("/sys/things/1/name") == "second\n"


def test_memory_of_a_device_is_seen_where_it_is_mapped(platform, device):
    address = platform.reserve(PAGE, PAGE)
    platform.map(platform.open("/dev/thing"), PAGE, 0, address)
    platform.store32(address + 8, 77)
    assert platform.load32(address + 8) == 77
    assert device.memory.host != address
    assert platform.load64(device.memory.host + 8) == 77
    platform.unmap(address, PAGE)


def test_a_device_sees_each_store_to_its_doorbells(platform, device):
    address = platform.reserve(PAGE, PAGE)
    platform.map(platform.open("/dev/thing"), PAGE, 1 << 20, address)
    platform.store64(address + 16, 5)
    platform.store64(address + 16, 6)
    assert device.rung == [(16, 5), (16, 6)]
    platform.unmap(address, PAGE)


def test_a_pause_moves_the_clock_where_nothing_can_go_on(platform):
    before = platform.now()
    for _ in range(1000):
        platform.pause()
    assert platform.now() - before >= 1_000_000_000


def test_addresses_are_reserved_at_multiples_of_an_alignment(platform):
    address = platform.reserve(PAGE, 2 << 20)
    assert address % (2 << 20) == 0
    platform.unmap(address, PAGE)


def test_a_platform_that_is_collected_leaves_no_open_files(device):
    def use():
        platform = EmulatedPlatform()
        platform.add_device("/dev/thing", device)
        platform.close(platform.open("/dev/thing"))
        return platform.open("/dev/thing")

    fd = use()
    gc.collect()
    with pytest.raises(OSError):
        os.fstat(fd)
