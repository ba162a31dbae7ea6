"""An emulated GPU's memory: MTLBuffers, each at an address that is not the host's.

What is allocated is filled with 0xFF, which reads as NaN or -1. Between buffers are addresses that
nobody owns, so that an access beyond a buffer's end is a fault.
"""

from __future__ import annotations

import ctypes
import threading
import weakref

from treadle.emulate.metal.objects import Object, message
from treadle.emulate.simt.machine import Region
from treadle.forks import fork_safe

__all__ = ["Buffer", "Memory"]

_ALIGN = 256
_FIRST_ADDRESS = 1 << 40  # nothing of the host's lies so low or so high that it could be meant
_POISON = 0xFF


class Memory:
    """How much of a GPU's memory is taken, and the addresses of it."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.used = nbytes, 0
        self._next = _FIRST_ADDRESS
        self._lock = fork_safe(threading.RLock())

    def take(self, nbytes: int) -> int | None:
        """A GPU's address with room behind it, or None where there is no memory left."""
        with self._lock:
            if nbytes > self.nbytes - self.used:
                return None
            self.used += nbytes
            address = self._next
            self._next += -(-nbytes // _ALIGN) * _ALIGN + _ALIGN
            return address

    def give_back(self, nbytes: int) -> None:
        """That memory is free."""
        with self._lock:
            self.used -= nbytes


class Buffer(Object):
    """MTLBuffer, shared with the host."""

    def __init__(self, owner: Object, memory: Memory, nbytes: int, address: int) -> None:
        self.owner, self.nbytes, self.address = owner, nbytes, address
        self.data = (ctypes.c_char * (nbytes + _ALIGN))()
        self.host = -(-ctypes.addressof(self.data) // _ALIGN) * _ALIGN
        ctypes.memset(self.host, _POISON, nbytes)
        weakref.finalize(self, memory.give_back, nbytes)

    @property
    def region(self) -> Region:
        """What a kernel may touch of it: all."""
        return Region(self.address, self.nbytes, self.host - self.address)

    @message("contents")
    def contents(self) -> memoryview:
        """Its bytes, which keep it alive."""
        start = self.host - ctypes.addressof(self.data)
        return memoryview(self.data).cast("B")[start : start + self.nbytes]

    @message("length")
    def length(self) -> int:
        return self.nbytes

    @message("storageMode")
    def storage_mode(self) -> int:
        return 0

    @message("device")
    def device(self) -> Object:
        return self.owner
