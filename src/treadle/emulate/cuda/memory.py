"""An emulated device's memory: pieces of the host's, with room between them that nobody owns.

What is allocated is filled with 0xFF, which reads as NaN or -1: a kernel that trusts fresh memory
to be zero shows it.
"""

from __future__ import annotations

import bisect
import ctypes

from treadle.emulate.simt.machine import Region

__all__ = ["DeviceMemory"]

_ALIGN = 512  # what cuMemAlloc gives, and what is left free behind each allocation


class DeviceMemory:
    """The allocations of one device."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.used = nbytes, 0
        self._starts: list[int] = []
        self._held: dict[int, tuple[int, ctypes.Array[ctypes.c_char]]] = {}

    def alloc(self, nbytes: int) -> int | None:
        """The address of fresh memory, or None if the device has no room."""
        if nbytes > self.nbytes - self.used:
            return None
        try:
            data = (ctypes.c_char * (nbytes + 2 * _ALIGN))()
        except MemoryError:
            return None
        start = -(-ctypes.addressof(data) // _ALIGN) * _ALIGN
        ctypes.memset(start, 0xFF, nbytes)
        bisect.insort(self._starts, start)
        self._held[start] = nbytes, data
        self.used += nbytes
        return start

    def free(self, address: int) -> bool:
        """False if no allocation starts there."""
        found = self._held.pop(address, None)
        if found is None:
            return False
        self._starts.remove(address)
        self.used -= found[0]
        return True

    def around(self, address: int) -> Region | None:
        """The allocation that an address is in."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        nbytes = self._held[start][0]
        return Region(start, nbytes) if address < start + max(nbytes, 1) else None

    def regions(self) -> list[Region]:
        """All allocations, in order."""
        held = self._held.copy()  # what else is freed meanwhile, no kernel is given
        return [Region(start, held[start][0]) for start in sorted(held)]
