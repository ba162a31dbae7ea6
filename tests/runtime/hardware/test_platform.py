"""The operating system as runtimes of the hardware see it: files, memory and time."""

import errno
import os
from array import array

import pytest

from treadle.runtime.hardware import host_memory
from treadle.runtime.hardware.platform import LinuxPlatform
from treadle.runtime.hardware.stream import Image

PAGE = host_memory.PAGE


@pytest.fixture
def platform():
    return LinuxPlatform()


def test_an_unknown_call_is_an_error_of_the_system(platform):
    fd = platform.open(os.devnull)
    with pytest.raises(OSError) as info:
        platform.ioctl(fd, 0x80084B01, bytearray(8))
    assert info.value.errno == errno.ENOTTY
    platform.close(fd)


def test_what_is_not_there_is_not_found(platform, tmp_path):
    for look in (platform.open, platform.read_text, platform.names):
        with pytest.raises(FileNotFoundError):
            look(str(tmp_path / "none"))


def test_a_file_is_mapped_to_reserved_addresses(platform, tmp_path):
    path = tmp_path / "memory"
    path.write_bytes(bytes(PAGE) + b"abcdefgh" + bytes(PAGE - 8))
    fd, address = platform.open(str(path)), platform.reserve(PAGE, 1 << 16)
    platform.map(fd, PAGE, PAGE, address)
    assert address % (1 << 16) == 0
    assert platform.load64(address) == int.from_bytes(b"abcdefgh", "little")
    platform.store32(address + 4, 7)
    platform.barrier()
    assert path.read_bytes()[PAGE : PAGE + 8] == b"abcd\7\0\0\0"
    platform.unmap(address, PAGE)
    platform.close(fd)


def test_time_goes_on(platform):
    before = platform.now()
    platform.pause()
    assert platform.now() >= before
    assert platform.explain() == ""


def test_an_image_counts_the_words_that_are_changed(platform):
    data = bytearray(PAGE)
    address = host_memory.address_of(data)
    image = Image(address, PAGE)
    image.fill(array("I", range(8)), 4)
    assert image.patched == 0
    image.put32(4, 9)
    image.put64(6, 1 << 32 | 2)
    assert image.patched == 3
    words = [platform.load32(address + 4 * place) for place in range(4, 12)]
    assert words == [9, 1, 2, 1, 4, 5, 6, 7]
