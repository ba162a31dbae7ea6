"""Memory of a CUDA device, from the driver's pool: allocated and freed in the order of a stream.

    buffer = CUDAAllocator("CUDA", 0, context, stream, failures).alloc(1024)
    buffer.argument        ->  its address

The pool is the cache: what a buffer gives back serves the next one without the GPU being waited
for. Buffers may be collected on any thread at any moment, also while this thread allocates; so they
only leave their addresses here, and whoever has the lock frees them.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, NoReturn

from treadle.errors import DeviceError, OutOfMemory
from treadle.forks import fork_safe
from treadle.helpers import human_bytes
from treadle.runtime.base import MemoryStats
from treadle.runtime.cuda.driver import DriverError

from .driver import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.runtime.cuda.driver import Context
    from treadle.runtime.cuda.failures import Failures

__all__ = ["CUDAAllocator", "CUDABuffer"]


class CUDABuffer:
    """`nbytes` of device memory at `argument`."""

    __slots__ = ("__weakref__", "_allocator", "_owner", "argument", "is_lent", "nbytes")

    def __init__(
        self, address: int, nbytes: int, allocator: CUDAAllocator | None, owner: object = None
    ) -> None:
        self.argument, self.nbytes = address, nbytes
        self._allocator, self._owner = allocator, owner
        self.is_lent = False  # whether another library may work on it, on streams of its own

    def view(self) -> NoReturn:
        """Raises DeviceError: the host has no access."""
        raise DeviceError("the host has no access to CUDA memory: read it")

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._allocator is not None and not exiting():
            self._allocator._give_back(self.argument, self.is_lent)


class CUDAAllocator:
    """Makes CUDABuffers. All threads may call it."""

    def __init__(
        self, name: str, index: int, context: Context, stream: Stream | None, failures: Failures
    ) -> None:
        self._name, self._index, self._context = name, index, context
        self._stream, self._failures = stream, failures
        self.largest: int = context.facts.memory
        self._live: dict[int, int] = {}  # address -> bytes
        self._live_bytes = self._peak = 0
        self._lock = fork_safe(threading.Lock())
        self._returned: deque[int] = deque()
        self._lent_back: deque[int] = deque()

    def alloc(self, nbytes: int) -> CUDABuffer:
        """Memory with undefined contents. Raises OutOfMemory, DeviceError for a broken context."""
        size = max(nbytes, 1)
        with self._lock:
            self._collect_all()
            address = self._take(size)
            self._live[address] = size
            self._live_bytes += size
            self._peak = max(self._peak, self._live_bytes)
        return CUDABuffer(address, nbytes, self)

    def _take(self, nbytes: int) -> int:
        with self._failures.translated(f"allocate {human_bytes(nbytes)}"):
            for attempt in range(2 if nbytes <= self.largest else 0):
                try:
                    return self._context.alloc(nbytes, self._stream)
                except DriverError as error:
                    if error.code != "CUDA_ERROR_OUT_OF_MEMORY":
                        raise
                    if attempt == 0:
                        self._trim()
            raise OutOfMemory(self._report(nbytes))

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> CUDABuffer:
        """Device memory of somebody else's, in place; `owner` lives as long as the buffer.

        Raises DeviceError for what is not memory of this device, or is less than `nbytes`.
        """
        with self._failures.translated("look at memory of somebody else's"):
            found = self._context.owner_of(pointer)
            if found is None:
                raise DeviceError(
                    f"{self._name}: {pointer:#x} is not an address in a GPU's memory; memory of "
                    "the host goes to the CPU device"
                )
            device, start, there = found
            if device != self._index:
                raise DeviceError(
                    f"{self._name}: {pointer:#x} is memory of CUDA device {device}: "
                    f"use device='CUDA{f':{device}' if device else ''}'"
                )
            # Mapped pieces of one reservation may follow each other: it is the end that counts.
            ends_outside = pointer + nbytes > start + there
            if ends_outside and self._context.owner_of(pointer + nbytes - 1) is None:
                raise DeviceError(
                    f"{self._name}: {nbytes} bytes are needed at {pointer:#x}, but the allocation "
                    f"there ends after {start + there - pointer}"
                )
        return CUDABuffer(pointer, nbytes, None, owner)

    def trim(self) -> int:
        """Gives the pool's spare memory back to the system; how many bytes."""
        with self._lock, self._failures.translated("give memory back"):
            self._collect_all()
            return self._trim()

    def _trim(self) -> int:
        before, _ = self._context.memory_info()
        self._context.synchronize()  # what was freed in stream order is free from here on
        self._context.trim(0)
        return max(self._context.memory_info()[0] - before, 0)

    @property
    def stats(self) -> MemoryStats:
        """Bytes live and the most that ever were; what waits for reuse is known to the driver."""
        with self._lock:
            self._collect()
            waiting = sum(self._live[address] for address in tuple(self._lent_back))
            return MemoryStats(self._live_bytes - waiting, waiting, self._peak)

    # -- what was collected -----------------------------------------------------------------------

    def _give_back(self, address: int, is_lent: bool) -> None:
        """Called by a dying buffer on any thread, at any moment.

        The borrower of a lent one may have left work on a stream that nobody knows. To wait for it
        here could break a graph that another library captures on this thread: `alloc` does.
        """
        if is_lent:
            self._lent_back.append(address)
            return
        self._returned.append(address)
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def _collect(self) -> None:
        while self._returned:
            address = self._returned.popleft()
            self._live_bytes -= self._live.pop(address)
            try:
                self._failures.check()
                self._context.free(address, self._stream)
            except (DeviceError, DriverError):
                pass  # broken, or a forked child's: the driver has taken it all back

    def _collect_all(self) -> None:
        """What was lent, too: once for all of it, the whole GPU is waited for."""
        lent = [self._lent_back.popleft() for _ in range(len(self._lent_back))]
        if lent:
            try:
                self._failures.check()
                self._context.synchronize()
            except (DeviceError, DriverError) as error:
                if isinstance(error, DriverError) and "CAPTURE" in error.code:
                    self._lent_back += lent  # somebody captures a graph: another time
                    lent = []
        self._returned += lent
        self._collect()

    def _report(self, nbytes: int) -> str:
        free, total = self._context.memory_info()
        largest = ", ".join(human_bytes(n) for n in sorted(self._live.values())[:-6:-1]) or "none"
        return (
            f"{self._name}: no memory for {human_bytes(nbytes)} on {self._context.facts.name}; "
            f"{human_bytes(self._live_bytes)} are live in {len(self._live)} buffers (largest: "
            f"{largest}), {human_bytes(free)} of {human_bytes(total)} are free. Delete tensors "
            "that are no longer needed, use smaller batches or a narrower dtype"
        )
