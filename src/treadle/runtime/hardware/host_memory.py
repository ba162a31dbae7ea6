"""Pages of this process at chosen addresses: what Python's own mmap cannot do.

    address = reserve(1 << 20)                        # nobody else gets these addresses
    map_file(fd, 1 << 20, offset=0, address=address)  # the file's bytes, at that place
    view(address, 16)[:] = bytes(16)
    release(address, 1 << 20)

Addresses are integers; sizes are multiples of PAGE.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os

__all__ = [
    "LOW_END", "PAGE", "address_of", "discard", "map_file", "release", "reserve", "reserve_low",
    "round_up", "view",
]  # fmt: skip

PAGE = 4096
LOW_END = 1 << 40

_PROT_NONE = 0
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_FIXED = 0x10  # MAP_FIXED, on every architecture of Linux that has such a GPU
_FIXED_IF_FREE = 0x100000  # MAP_FIXED_NOREPLACE
_NORESERVE = 0x4000
_REMOVE = 9  # MADV_REMOVE
_FAILED = ctypes.c_void_p(-1).value
_TRIES = 1 << 12  # places that may be taken


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
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
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


class _Low:
    """The next address below `LOW_END` that may be free. They are given out once around."""

    start = next = 1 << 36

    @classmethod
    def take(cls, nbytes: int, alignment: int) -> int:
        found = round_up(cls.next, alignment)
        if found + nbytes > LOW_END:
            found = round_up(cls.start, alignment)
        cls.next = found + nbytes
        return found


def reserve_low(nbytes: int, alignment: int = PAGE) -> int:
    """Like `reserve`, for addresses below LOW_END: some commands of GPUs have 40 bits for them."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED_IF_FREE
    for _ in range(_TRIES):
        wanted = _Low.take(nbytes, alignment)
        try:
            found = _mmap(wanted, nbytes, _PROT_NONE, flags, -1, 0)
        except FileExistsError:
            continue
        if found == wanted:
            return found
        release(found, nbytes)  # by a kernel that takes the address for a wish
    raise OSError(errno.ENOMEM, f"no {nbytes} bytes of addresses are free below {LOW_END:#x}")


def map_file(fd: int, nbytes: int, offset: int = 0, address: int | None = None) -> int:
    """Bytes of a file, shared with all who map it; at `address`, which has to be reserved."""
    flags = mmap.MAP_SHARED | (0 if address is None else _FIXED)
    return _mmap(address, nbytes, _READ_WRITE, flags, fd, offset)


def release(address: int, nbytes: int) -> None:
    """Gives pages back, whatever they are."""
    if _libc().munmap(address, nbytes):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def discard(address: int, nbytes: int) -> None:
    """Makes the bytes of a mapped file zeros that take no memory, for all who map it."""
    if _libc().madvise(address, nbytes, _REMOVE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def view(address: int, nbytes: int) -> memoryview:
    """The bytes at an address, writable, without a copy."""
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")


def address_of(data: bytearray | memoryview) -> int:
    """Where the bytes are, which have to be writable."""
    return ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))
