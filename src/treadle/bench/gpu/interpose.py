"""Calls that a loaded library makes to another one, passed on to a function of ours.

    with interposed("libcuda.so", {"ioctl": function}):     # function: a ctypes callback
        ...

A library calls what it imports by way of a table of addresses, its GOT. Its dynamic section (ELF,
System V gABI chapter 5) says which entry is for which name; for the time of the block the entry
holds another address. x86-64 and AArch64, Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import platform
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _ctypes import CFuncPtr

__all__ = ["imported", "interposed", "loaded_at", "memory_at"]

_DYNAMIC = 2  # PT_DYNAMIC
_EXEC = 2  # ET_EXEC: a program whose addresses are the ones in its file
_STRTAB, _SYMTAB, _RELA, _RELASZ, _JMPREL, _PLTRELSZ = 5, 6, 7, 8, 23, 2  # DT_...
_SLOTS = {"x86_64": (6, 7), "aarch64": (1025, 1026)}  # R_..._GLOB_DAT, R_..._JUMP_SLOT
_PROT_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE


@dataclass(frozen=True)
class _Image:
    """A library, or the program, where it is loaded: what its dynamic section says.

    `base`: what its addresses count from.
    """

    base: int
    tags: Mapping[int, int]

    def at(self, tag: int) -> int:
        """The address that a tag holds; some loaders leave it relative to the base."""
        value = self.tags.get(tag, 0)
        return value if not value or value >= self.base else value + self.base


def memory_at(address: int, count: int) -> bytes | None:
    """`count` bytes of this process's memory, or None where they cannot be read."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            found = memory.read(count)
    except (OSError, OverflowError, ValueError):
        return None
    return found if len(found) == count else None


def loaded_at(name: str) -> int | None:
    """Where the first library whose file name begins with `name` is loaded, or None."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        for line in file:
            columns = line.split(maxsplit=5)
            path = columns[5].strip() if len(columns) == 6 else ""
            if path.rsplit("/", 1)[-1].startswith(name) and int(columns[2], 16) == 0:
                return int(columns[0].split("-")[0], 16)
    return None


def _image(start: int) -> _Image:
    header = _bytes(start, 64)
    (kind,), (first,) = struct.unpack_from("<H", header, 16), struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    base = 0 if kind == _EXEC else start
    for number in range(count):
        kind, _, _, address = struct.unpack_from("<IIQQ", _bytes(start + first + number * size, 56))
        if kind == _DYNAMIC:
            return _Image(base, dict(_tags(base + address)))
    raise ValueError(f"what is loaded at {start:#x} has no dynamic section")


def _tags(address: int) -> Iterator[tuple[int, int]]:
    while True:
        tag, value = struct.unpack("<qQ", _bytes(address, 16))
        if not tag:
            return
        yield tag, value
        address += 16


def _bytes(address: int, count: int) -> bytes:
    return ctypes.string_at(address, count)


def imported(start: int) -> dict[str, list[int]]:
    """The addresses of the table entries of each function that the library at `start` imports."""
    image, kinds = _image(start), _SLOTS[platform.machine()]
    found: dict[str, list[int]] = {}
    for begin, size in ((_RELA, _RELASZ), (_JMPREL, _PLTRELSZ)):
        table = image.at(begin)
        for at in range(table, table + image.tags.get(size, 0) if table else table, 24):
            offset, info, _ = struct.unpack("<QQq", _bytes(at, 24))
            if info & 0xFFFFFFFF in kinds:
                symbol = image.at(_SYMTAB) + 24 * (info >> 32)
                name = image.at(_STRTAB) + struct.unpack("<I", _bytes(symbol, 4))[0]
                found.setdefault(ctypes.string_at(name).decode(), []).append(image.base + offset)
    return found


@contextlib.contextmanager
def interposed(library: str, functions: Mapping[str, CFuncPtr]) -> Iterator[None]:
    """For the time of a block, what a loaded `library` calls by a name is one of `functions`.

    Raises LookupError where it is not loaded, or imports none of them.
    """
    start = loaded_at(library)
    if start is None:
        raise LookupError(f"no library that begins with {library} is loaded")
    slots = imported(start)
    there = [name for name in functions if name in slots]
    if not there:
        raise LookupError(f"{library} imports none of {', '.join(functions)}")
    before: list[tuple[int, int]] = []
    try:
        for name in there:
            address = ctypes.cast(functions[name], ctypes.c_void_p).value or 0
            before += [(slot, _exchange(slot, address)) for slot in slots[name]]
        yield
    finally:
        for slot, address in before:
            _exchange(slot, address)


def _exchange(slot: int, address: int) -> int:
    """Writes an address into a table that may be read-only; returns what was there."""
    page = slot & -mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), _PROT_READ_WRITE):
        raise OSError(ctypes.get_errno(), "mprotect")
    entry = ctypes.c_uint64.from_address(slot)
    old, entry.value = entry.value, address
    return old
