"""Host memory with a cache: freed blocks keep their warm pages and serve the next request.

    buffer = HostAllocator().alloc(1 << 20)
    buffer.view()[:4] = b"abcd"

Fresh pages cost more than any kernel that writes them, so blocks are reused by size class, up to
a bound. One surprise: a buffer's contents are undefined until somebody writes them.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from treadle.errors import DeviceError, OutOfMemory
from treadle.forks import fork_safe
from treadle.helpers import human_bytes
from treadle.runtime.base import MemoryStats
from treadle.runtime.memory import ALIGNMENT, allocate, machine_memory, release

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HostAllocator", "HostBuffer", "host_view", "size_class"]

_WAITING = 8  # so many buffers that are gone may wait for the next request, if they are not large
_new = object.__new__


class HostBuffer:
    """`nbytes` of host memory at `pointer`, returned to its allocator when it is collected."""

    __slots__ = ("__weakref__", "_allocator", "_owner", "nbytes", "pointer")
    nbytes: int
    pointer: int
    argument: int  # the address, as kernels take it

    def __init__(
        self, pointer: int, nbytes: int, allocator: HostAllocator | None, owner: object = None
    ) -> None:
        self.pointer, self.nbytes = pointer, nbytes
        self._allocator, self._owner = allocator, owner

    def view(self) -> memoryview:
        """The bytes, writable, without a copy. The view keeps the buffer alive."""
        return host_view(self.pointer, self.nbytes, self)

    def slice(self, offset: int, nbytes: int) -> HostBuffer:
        """The part [offset, offset + nbytes), in bytes, which keeps the whole alive."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise DeviceError(
                f"bytes {offset} to {offset + nbytes} lie outside a buffer of {self.nbytes} bytes"
            )
        return HostBuffer(self.pointer + offset, nbytes, None, self)

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit a daemon thread's kernel may still write here; the system takes it all back.
        allocator = self._allocator
        if allocator is None or exiting():
            return
        # Buffers die in the garbage collector, which may run while this very thread holds the
        # lock: so they only leave their address here, for the next one who has the lock.
        allocator._returned.append((self.pointer, self.nbytes))
        if len(allocator._returned) > _WAITING or self.nbytes >= allocator._large:
            allocator._collect_soon()

    def __repr__(self) -> str:
        return f"HostBuffer({self.nbytes} bytes at {self.pointer:#x})"


HostBuffer.argument = HostBuffer.__dict__["pointer"]  # by another name, and no call of Python's


def host_view(pointer: int, nbytes: int, keep: object) -> memoryview:
    """The bytes at `pointer`, writable; `keep` lives as long as the view."""
    if not nbytes:
        return memoryview(bytearray())
    array = (ctypes.c_uint8 * nbytes).from_address(pointer)
    array._keep = keep  # type: ignore[attr-defined]
    return memoryview(array).cast("B")


@functools.lru_cache(1024)
def size_class(nbytes: int) -> int:
    """The size that a request is rounded up to: four steps for each power of two.

    size_class(1) == 64, size_class(1000) == 1024, size_class(1100) == 1280
    """
    step = max(ALIGNMENT, (1 << max(nbytes - 1, 0).bit_length()) >> 3)
    return max(-(-nbytes // step), 1) * step


class HostAllocator:
    """Allocates HostBuffers. At most `keep` bytes of freed ones wait for reuse.

    The default bound is a quarter of the memory that this process may use. `name` is the device's.
    """

    largest: int | None = None

    def __init__(self, keep: int | None = None, name: str = "CPU") -> None:
        self._name = name
        self._keep = machine_memory() // 4 if keep is None else keep
        self._live: dict[int, tuple[int, int]] = {}  # address -> (size class, bytes asked for)
        self._free: dict[int, dict[int, None]] = {}  # size class -> addresses, oldest first
        self._oldest: OrderedDict[int, int] = OrderedDict()  # address -> size class
        self._live_bytes = self._cached_bytes = self._peak = 0
        # A handler of a signal, or a finalizer, may ask for memory while this thread does: what
        # says that a block is free is read and removed in one step, and only then believed.
        self._lock = fork_safe(threading.RLock())
        self._large = self._keep // (4 * _WAITING)
        self._returned: deque[tuple[int, int]] = deque()  # address, bytes asked for

    def alloc(self, nbytes: int) -> HostBuffer:
        """`nbytes` bytes aligned to 64, contents undefined. Raises OutOfMemory."""
        with self._lock:
            # What was given back last is taken as it is, if it fits: little is touched, and after
            # a kernel that streamed through the caches whatever is touched comes from memory.
            address, asked = self._returned.pop() if self._returned else (0, -1)
            if asked != nbytes:
                if address:
                    self._returned.append((address, asked))
                address = self._found(nbytes)
        buffer = _new(HostBuffer)
        buffer.pointer, buffer.nbytes = address, nbytes
        buffer._allocator, buffer._owner = self, None
        return buffer

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> HostBuffer:
        """Somebody else's memory, without a copy; `owner` lives as long as the buffer."""
        return HostBuffer(pointer, nbytes, None, owner)

    def trim(self) -> int:
        """Gives all cached memory back to the system; how many bytes that were."""
        with self._lock:
            self._collect()
            return self._evict(0)

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, cached, and the most that were ever live, in whole size classes."""
        with self._lock:
            self._collect()
            return MemoryStats(self._live_bytes, self._cached_bytes, self._peak)

    def _collect_soon(self) -> None:
        """Called by a dying buffer on any thread, at any moment."""
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def _collect(self) -> None:
        while self._returned:
            address, _ = self._returned.popleft()
            size, _ = self._live.pop(address)
            self._live_bytes -= size
            self._cached_bytes += size
            self._free.setdefault(size, {})[address] = None
            self._oldest[address] = size
        if self._cached_bytes > self._keep:
            self._evict(self._keep)

    def _found(self, nbytes: int) -> int:
        """The address of a block that is noted as live."""
        self._collect()
        size = size_class(nbytes)
        address = self._reuse(size) or self._fresh(size, nbytes)
        self._live[address] = size, nbytes
        self._live_bytes += size
        self._peak = max(self._peak, self._live_bytes)
        return address

    def _reuse(self, size: int) -> int | None:
        blocks = self._free.get(size)
        if not blocks:
            return None
        address, _ = blocks.popitem()  # the one freed last has the warmest pages
        self._oldest.pop(address, None)
        self._cached_bytes -= size
        return address

    def _fresh(self, size: int, nbytes: int) -> int:
        address = allocate(size)
        if address is None and self._evict(0):
            address = allocate(size)
        if address is None:
            raise OutOfMemory(self._report(nbytes))
        return address

    def _evict(self, bound: int) -> int:
        """Releases the longest unused blocks until at most `bound` bytes are cached."""
        before = self._cached_bytes
        while self._oldest and self._cached_bytes > bound:
            address, size = self._oldest.popitem(last=False)
            if self._free[size].pop(address, 0) is None:  # else it has been taken just now
                self._cached_bytes -= size
                release(address, size)
        return before - self._cached_bytes

    def _report(self, nbytes: int) -> str:
        asked = sorted((asked for _, asked in self._live.values()), reverse=True)
        largest = ", ".join(human_bytes(size) for size in asked[:5]) or "none"
        return (
            f"{self._name}: no memory for {human_bytes(nbytes)}; "
            f"{human_bytes(self._live_bytes)} are live in {len(asked)} buffers "
            f"(largest: {largest}) of {human_bytes(machine_memory())} in all. "
            "Delete tensors that are no longer needed, use smaller batches or a narrower dtype"
        )
