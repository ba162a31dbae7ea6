"""Memory of an emulated device: objects of bytes, and address spaces that map them.

    block = MemoryObject(1 << 20, fill=POISON)
    space = AddressSpace(ordering)
    space.map(0x10000, block.nbytes, block, Permission.READ)
    space.write(0x10000, b"1")                         # MemoryFault: read-only

A GPU's address says nothing of where its bytes are in this process. So an address of the host's,
given to the GPU by mistake, is a fault. The bytes of objects are parts of a file in memory: a
program maps them where it wants to see them, and the emulator has a mapping of its own. What work
reads and writes is told to the ordering.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from treadle.emulate.machine.ordering import words
from treadle.forks import fork_safe
from treadle.runtime.hardware import host_memory
from treadle.runtime.hardware.host_memory import PAGE

if TYPE_CHECKING:
    from treadle.emulate.machine.knowledge import Knowledge
    from treadle.emulate.machine.ordering import Ordering

__all__ = [
    "POISON", "UNWRITTEN", "AddressSpace", "HostPages", "Mapping", "MemoryFault", "MemoryObject",
    "Permission",
]  # fmt: skip

POISON = 0xFF  # reads as NaN or -1
UNWRITTEN = 0xC5  # fills words that are looked at for having been written: no number of a program
_CODE_BYTES = 64  # of code whose order is checked: it is copied as a whole, and read anywhere
_FILE_BYTES = 1 << 46  # hardly any of which are there


class Permission:
    """What an address space lets its owner do: bits of a number."""

    READ = 1
    WRITE = 2
    EXECUTE = 4


class MemoryFault(Exception):
    """An access that the page tables refuse. `reason` is "unmapped", "read-only", "no execute".

    `told` is what is known of it beyond that.
    """

    def __init__(self, address: int, reason: str, told: str = "") -> None:
        self.address, self.reason = address, reason
        super().__init__(told or f"{reason} address {address:#x}")


class _File:
    """One file for the memory of all objects: a process may have few open files, and many objects.

    Each object has a part that was nobody's before; what it lets go is a hole from then on.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("treadle-emulated", os.MFD_CLOEXEC)
        os.truncate(self.fd, _FILE_BYTES)
        self._end, self._lock = 0, fork_safe(threading.Lock())

    def __del__(self) -> None:
        os.close(self.fd)

    def take(self, nbytes: int) -> int:
        """Where in the file so many fresh bytes are."""
        with self._lock:
            start, self._end = self._end, self._end + host_memory.round_up(nbytes, PAGE)
        return start


@functools.cache
def _file() -> _File:
    return _File()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_file.cache_clear)  # its parent gives out the same parts


class MemoryObject:
    """`nbytes` of memory that anybody may map: those of the file `fd` from `offset` on.

    It lives as long as somebody holds it. `fill` is the byte that fresh memory is made of.
    """

    def __init__(self, nbytes: int, fill: int = 0) -> None:
        self.nbytes, self._pid, self._file = nbytes, os.getpid(), _file()
        self.fd, self.offset = self._file.fd, self._file.take(nbytes)
        self.host = host_memory.map_file(self.fd, nbytes, self.offset)
        if fill:
            ctypes.memset(self.host, fill, nbytes)

    def __del__(self) -> None:
        if hasattr(self, "host"):
            if os.getpid() == self._pid:  # what a forked child lets go its parent may still use
                host_memory.discard(self.host, self.nbytes)
            host_memory.release(self.host, self.nbytes)


class HostPages:
    """Memory that the program has already, as an object: what USERPTR gives a GPU."""

    def __init__(self, host: int, nbytes: int) -> None:
        self.host, self.nbytes = host, nbytes


class Mapping(NamedTuple):
    """`nbytes` of addresses from `start` on; the bytes are at `host` in this process."""

    start: int
    nbytes: int
    host: int
    permissions: int
    owner: MemoryObject | HostPages

    @property
    def end(self) -> int:
        return self.start + self.nbytes


_REFUSED = {Permission.WRITE: "read-only", Permission.EXECUTE: "no execute"}


class AddressSpace:
    """The page tables of one device for one process."""

    def __init__(self, ordering: Ordering) -> None:
        self.ordering = ordering
        self._starts: list[int] = []
        self._mappings: dict[int, Mapping] = {}

    def map(
        self,
        start: int,
        nbytes: int,
        owner: MemoryObject | HostPages,
        permissions: int,
    ) -> None:
        """Maps an object's bytes. ValueError where addresses are taken, or are no whole pages."""
        if start % PAGE or nbytes % PAGE or nbytes <= 0 or nbytes > owner.nbytes:
            raise ValueError(f"{nbytes} bytes at {start:#x} are no whole pages of the memory")
        at = bisect.bisect_left(self._starts, start)
        before = self._mappings[self._starts[at - 1]].end if at else 0
        after = self._starts[at] if at < len(self._starts) else start + nbytes
        if before > start or after < start + nbytes:
            raise ValueError(f"addresses from {start:#x} on are mapped already")
        self._starts.insert(at, start)
        self._mappings[start] = Mapping(start, nbytes, owner.host, permissions, owner)

    def unmap(self, start: int) -> None:
        """Removes the mapping that begins there. KeyError if none does."""
        del self._mappings[start]
        self._starts.remove(start)

    def mappings(self) -> list[Mapping]:
        """All of them, by address."""
        return [self._mappings[start] for start in self._starts]

    def find(self, address: int, wanted: int) -> Mapping:
        """The mapping around an address. MemoryFault if it is not there or does not allow it."""
        at = bisect.bisect_right(self._starts, address) - 1
        found = self._mappings[self._starts[at]] if at >= 0 else None
        if found is None or address >= found.end:
            raise MemoryFault(address, "unmapped")
        missing = wanted & ~found.permissions
        if missing:
            raise MemoryFault(address, _REFUSED.get(missing, "unmapped"))
        return found

    def pieces(self, address: int, nbytes: int, wanted: int) -> list[tuple[int, int]]:
        """Where `nbytes` from an address on are in this process: (host address, bytes) each."""
        mapped = self._mapped(address, nbytes, wanted)
        return [(mapping.host + offset, size) for mapping, offset, size in mapped]

    def _mapped(self, address: int, nbytes: int, wanted: int) -> list[tuple[Mapping, int, int]]:
        """The mappings of bytes; of each, from which offset on, and how many."""
        found: list[tuple[Mapping, int, int]] = []
        while nbytes > 0:
            mapping = self.find(address, wanted)
            size = min(nbytes, mapping.end - address)
            found.append((mapping, address - mapping.start, size))
            address, nbytes = address + size, nbytes - size
        return found

    def read(self, address: int, nbytes: int) -> bytes:
        """Bytes as the device reads them."""
        pieces = self._mapped(address, nbytes, Permission.READ)
        if self.ordering.is_watching:
            for mapping, offset, size in pieces:
                self.ordering.reads(mapping.owner, words(offset, size), mapping.start)
        return b"".join(ctypes.string_at(m.host + offset, size) for m, offset, size in pieces)

    def write(self, address: int, data: bytes) -> None:
        """Bytes as the device writes them; none, where one of them may not be written."""
        pieces = self._mapped(address, len(data), Permission.WRITE)
        if self.ordering.is_watching:
            for mapping, offset, size in pieces:
                self.ordering.writes(mapping.owner, words(offset, size), mapping.start)
        done = 0
        for mapping, offset, size in pieces:
            ctypes.memmove(mapping.host + offset, data[done : done + size], size)
            done += size

    def write_past(self, address: int, data: bytes) -> tuple[Mapping, int]:
        """Bytes within a page that are no access for the ordering; where they are."""
        mapping, offset, size = self._mapped(address, len(data), Permission.WRITE)[0]
        ctypes.memmove(mapping.host + offset, data, size)
        return mapping, offset

    def signal(self, address: int, data: bytes, covers_itself: bool = False) -> None:
        """The bytes of a signal, which says what the work that writes it knows (see ordering)."""
        mapping, offset = self.write_past(address, data)
        self.ordering.signal(mapping.owner, offset, covers_itself)

    def heard_at(self, address: int) -> Knowledge:
        """What one knows who has waited for a signal."""
        mapping = self.find(address, 0)
        return self.ordering.heard_at(mapping.owner, address - mapping.start)

    def fetch(self, address: int, nbytes: int) -> bytes:
        """Bytes as instructions are read."""
        pieces = self._mapped(address, nbytes, Permission.EXECUTE)
        if pieces and self.ordering.is_watching:
            mapping, offset, size = pieces[0]
            first = words(offset, min(size, _CODE_BYTES))
            self.ordering.reads(mapping.owner, first, mapping.start)
        return b"".join(ctypes.string_at(m.host + offset, size) for m, offset, size in pieces)

    def read32(self, address: int) -> int:
        return int.from_bytes(self.read(address, 4), "little")

    def read64(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")

    def write32(self, address: int, value: int) -> None:
        self.write(address, (value & 0xFFFFFFFF).to_bytes(4, "little"))

    def write64(self, address: int, value: int) -> None:
        self.write(address, (value & (1 << 64) - 1).to_bytes(8, "little"))
