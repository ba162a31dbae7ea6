"""Blocks of a driver's memory: those that are given back wait, by kind, for reuse.

    blocks = BlockCache(make, int, lock)
    block = blocks.take(4096)          # one that waits, or make(4096)
    blocks.give_back(id(block))        # by whatever finalizer, on whatever thread, at any moment

To make a block costs more than a launch. A kind is a size, or whatever else tells blocks apart.
One surprise: a block that waits may still be in use by work that was started before. The next user
comes behind that work; before blocks are freed, it is waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from treadle.errors import OutOfMemory
from treadle.runtime.base import MemoryStats

__all__ = ["BlockCache"]

MAX_CACHED = 1 << 30

K = TypeVar("K", bound=Hashable)
B = TypeVar("B")


class BlockCache(Generic[K, B]):
    """Takes blocks from `make`, which raises OutOfMemory; `bytes_of` is what one of a kind takes.

    `settle` returns once no work uses a block that waits: for drivers that free memory at once.
    """

    def __init__(
        self,
        make: Callable[[K], B],
        bytes_of: Callable[[K], int],
        lock: AbstractContextManager[object],
        settle: Callable[[], object] = lambda: None,
    ) -> None:
        self._make, self._bytes_of, self._lock, self._settle = make, bytes_of, lock, settle
        self._free: dict[K, list[B]] = {}
        self._live = self._cached = self._peak = 0
        # A buffer that dies in a cycle is finalized together with all that only it holds: so the
        # block that it gives back is held here, by its id, and not by it alone.
        self._held: dict[int, tuple[B, K]] = {}
        # Buffers die in the garbage collector, which may run while this thread holds the lock.
        self._returned: deque[int] = deque()

    def take(self, kind: K) -> B:
        """A block with undefined contents. Raises OutOfMemory."""
        with self._lock:
            self._collect()
            nbytes = self._bytes_of(kind)
            waiting = self._free.get(kind)
            if waiting:
                block = waiting.pop()
                self._cached -= nbytes
            else:
                block = self._made(kind)
            self._held[id(block)] = block, kind
            self._live += nbytes
            self._peak = max(self._peak, self._live)
            return block

    def give_back(self, key: int) -> None:
        """The block with this id is free; called by a dying buffer."""
        self._returned.append(key)

    def _made(self, kind: K) -> B:
        try:
            return self._make(kind)
        except OutOfMemory as error:
            if self._evict():
                return self._made(kind)
            raise OutOfMemory(
                f"{error}; {self._live} bytes are live: delete tensors that are no longer needed, "
                "or use smaller batches"
            ) from error

    def _collect(self) -> None:
        while self._returned:
            block, kind = self._held.pop(self._returned.popleft())
            self._live -= self._bytes_of(kind)
            self._cached += self._bytes_of(kind)
            self._free.setdefault(kind, []).append(block)
        if self._cached > MAX_CACHED:
            self._evict()

    def _evict(self) -> int:
        if self._cached:
            self._settle()
        freed, self._cached = self._cached, 0
        self._free.clear()
        return freed

    def trim(self) -> int:
        """Frees the blocks that wait; how many bytes."""
        with self._lock:
            self._collect()
            return self._evict()

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, waiting, and the most that were ever live."""
        with self._lock:
            self._collect()
            return MemoryStats(self._live, self._cached, self._peak)
