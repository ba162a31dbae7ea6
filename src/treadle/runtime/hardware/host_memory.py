"""Pages of this process at chosen addresses: what Python's own mmap cannot do.

    address = reserve(1 << 20)                        # nobody else gets these addresses
    map_file(fd, 1 << 20, offset=0, address=address)  # the file's bytes, at that place
    view(address, 16)[:] = bytes(16)
    release(address, 1 << 20)

Addresses are integers; sizes are multiples of PAGE.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os

__all__ = ["PAGE", "address_of", "map_file", "release", "reserve", "round_up", "view"]

PAGE = 4096

_PROT_NONE = 0
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_FIXED = 0x10  # MAP_FIXED, on every architecture of Linux that has such a GPU
_NORESERVE = 0x4000
_FAILED = ctypes.c_void_p(-1).value


def round_up(value: int, unit: int) -> int:
    """The least multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    ]  # fmt: skip
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


def _mmap(address: int | None, nbytes: int, protection: int, flags: int, fd: int, at: int) -> int:
    found = _libc().mmap(address, nbytes, protection, flags, fd, at)
    if found == _FAILED or found is None:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


def reserve(nbytes: int, alignment: int = PAGE) -> int:
    """Addresses that nothing else of this process gets, without memory behind them."""
    extra = alignment - PAGE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    found = _mmap(None, nbytes + extra, _PROT_NONE, flags, -1, 0)
    start = round_up(found, alignment)
    if start > found:
        release(found, start - found)
    if found + extra > start:
        release(start + nbytes, found + extra - start)
    return start


def map_file(fd: int, nbytes: int, offset: int = 0, address: int | None = None) -> int:
    """Bytes of a file, shared with all who map it; at `address`, which has to be reserved."""
    flags = mmap.MAP_SHARED | (0 if address is None else _FIXED)
    return _mmap(address, nbytes, _READ_WRITE, flags, fd, offset)


def release(address: int, nbytes: int) -> None:
    """Gives pages back, whatever they are."""
    if _libc().munmap(address, nbytes):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def view(address: int, nbytes: int) -> memoryview:
    """The bytes at an address, writable, without a copy."""
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")


def address_of(data: bytearray | memoryview) -> int:
    """Where the bytes are, which have to be writable."""
    return ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))
