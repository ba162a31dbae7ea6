"""Buffers in a GPU's memory: what is given back waits for reuse, by its size.

    buffer = AMDAllocator(...).alloc(1024)
    buffer.argument        ->  its address

A block that waits may still be in use by work that was started before. What uses it next comes
behind that work, since all of a device's work happens in order.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from treadle.errors import DeviceError, OutOfMemory
from treadle.forks import fork_safe
from treadle.helpers import human_bytes
from treadle.runtime.block_cache import BlockCache
from treadle.runtime.buffer import size_class
from treadle.runtime.hardware.amd.memory import Block, GPUMemory, Where
from treadle.runtime.hardware.host_memory import PAGE, round_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.runtime.base import MemoryStats
    from treadle.runtime.hardware.amd.failures import Failures

__all__ = ["AMDAllocator", "AMDBuffer", "Blocks"]

Blocks = BlockCache[int, Block]


class AMDBuffer:
    """`nbytes` of a GPU's memory at `argument`; `block` is what it is a part of."""

    __slots__ = ("__weakref__", "_cache", "_owner", "argument", "block", "nbytes")

    def __init__(
        self, block: Block, nbytes: int, cache: Blocks | None, owner: object = None
    ) -> None:
        self.block, self.argument, self.nbytes = block, block.address, nbytes
        self._cache, self._owner = cache, owner

    def view(self) -> NoReturn:
        """Raises DeviceError: the host has no access."""
        raise DeviceError("the host has no access to memory of an AMD GPU: read it")

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._cache is not None and not exiting():
            self._cache.give_back(id(self.block))


class AMDAllocator:
    """Makes AMDBuffers. Any number of threads may call it.

    `synchronize` returns once no work uses memory that is free.
    """

    def __init__(
        self,
        memory: GPUMemory,
        failures: Failures,
        largest: int,
        synchronize: Callable[[], None],
    ) -> None:
        self._memory, self._failures, self.largest = memory, failures, largest
        self._synchronize = synchronize
        lock = fork_safe(threading.RLock())
        self._blocks: Blocks = BlockCache(self._fresh, int, lock, self._settle)

    def alloc(self, nbytes: int) -> AMDBuffer:
        """Memory with undefined contents. Raises OutOfMemory, and DeviceError for a lost device."""
        self._failures.check()
        name = self._failures.name
        if nbytes > self.largest:
            raise OutOfMemory(
                f"{name}: the GPU has {human_bytes(self.largest)}, not {human_bytes(nbytes)}: "
                "split the tensor, or use a narrower dtype"
            )
        size = round_up(size_class(nbytes), PAGE)
        return AMDBuffer(self._blocks.take(size), nbytes, self._blocks)

    def _fresh(self, size: int) -> Block:
        with self._failures.translated(f"allocate {human_bytes(size)}"):
            return self._memory.alloc(size, Where.VRAM)

    def _settle(self) -> None:
        with contextlib.suppress(DeviceError):  # a lost device uses nothing
            self._synchronize()

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> AMDBuffer:
        """Memory of the host's, in place; `owner` lives as long as the buffer, and waits for it."""
        with self._failures.translated("use memory of the host's"):
            block = self._memory.import_host(pointer, max(nbytes, 1))
        return _Imported(block, nbytes, self._settle, owner)

    def trim(self) -> int:
        """Gives the memory that waits back to the driver; how many bytes."""
        freed = self._blocks.trim()
        self._memory.collect()
        return freed

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, waiting for reuse, and the most that were ever live."""
        return self._blocks.stats


class _Imported(AMDBuffer):
    """A buffer in memory of somebody else's, which is given back when no work uses it."""

    __slots__ = ("_settle",)

    def __init__(
        self, block: Block, nbytes: int, settle: Callable[[], None], owner: object
    ) -> None:
        super().__init__(block, nbytes, None, owner)
        self._settle = settle

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():
            self._settle()
