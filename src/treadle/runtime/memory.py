"""Raw host memory: aligned blocks from the C library, huge-page blocks from the system.

    block = allocate(4096); release(block, 4096)

One surprise: both return plain addresses, and `release` has to be told the size that was asked
for, because it decides which of the two made the block.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

__all__ = ["ALIGNMENT", "HUGE_PAGE", "allocate", "machine_memory", "release"]

ALIGNMENT = 64  # one cache line, and the widest vector
HUGE_PAGE = 2 << 20

_PROT_READ_WRITE = 3
_MAP_PRIVATE = 2
_MAP_ANONYMOUS = 0x1000 if sys.platform == "darwin" else 0x20
_MADV_HUGEPAGE = 14
_MAP_FAILED = ctypes.c_void_p(-1).value


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None) if os.name == "posix" else ctypes.cdll.msvcrt
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    if os.name == "posix":
        libc.mmap.restype = pointer
        libc.mmap.argtypes = (pointer, size, number, number, number, ctypes.c_int64)
        libc.munmap.argtypes = (pointer, size)
        libc.madvise.argtypes = (pointer, size, number)
        libc.posix_memalign.argtypes = (ctypes.POINTER(pointer), size, size)
        libc.free.argtypes = (pointer,)
    else:
        libc._aligned_malloc.restype = pointer
        libc._aligned_malloc.argtypes = (size, size)
        libc._aligned_free.argtypes = (pointer,)
    return libc


def allocate(nbytes: int) -> int | None:
    """The address of `nbytes` of memory, aligned to ALIGNMENT; None if the system has no more.

    From HUGE_PAGE on, the block starts on a huge page and asks for huge pages.
    """
    libc = _libc()
    if os.name != "posix":
        return libc._aligned_malloc(nbytes, ALIGNMENT)
    if nbytes >= HUGE_PAGE:
        return _map(nbytes)
    block = ctypes.c_void_p()
    return None if libc.posix_memalign(ctypes.byref(block), ALIGNMENT, nbytes) else block.value


def release(address: int, nbytes: int) -> None:
    """Gives a block of `allocate(nbytes)` back to the system."""
    libc = _libc()
    if os.name != "posix":
        libc._aligned_free(address)
    elif nbytes >= HUGE_PAGE:
        libc.munmap(address, nbytes)
    else:
        libc.free(address)


def _map(nbytes: int) -> int | None:
    libc = _libc()
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS
    start = libc.mmap(None, nbytes + HUGE_PAGE, _PROT_READ_WRITE, flags, -1, 0)
    if start in (None, _MAP_FAILED):
        return None
    aligned = -(-start // HUGE_PAGE) * HUGE_PAGE
    end, mapped_end = aligned + nbytes, start + nbytes + HUGE_PAGE
    if aligned > start:
        libc.munmap(start, aligned - start)
    if mapped_end > end:
        libc.munmap(end, mapped_end - end)
    if sys.platform == "linux":
        libc.madvise(aligned, nbytes, _MADV_HUGEPAGE)
    return aligned


@functools.cache
def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its control group's limit."""
    limits = [_sysconf_memory()]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                limits.append(int(file.read()))
        except (OSError, ValueError):  # no control group, or no limit ("max")
            continue
    return min(limits)


def _sysconf_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30
