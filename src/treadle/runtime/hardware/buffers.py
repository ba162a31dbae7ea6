"""Buffers in a GPU's memory: what is given back waits for reuse, by its size.

    buffer = Allocator(...).alloc(1024)
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
from treadle.runtime.hardware.blocks import Block, BlockMemory
from treadle.runtime.hardware.host_memory import PAGE, round_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.runtime.base import MemoryStats
    from treadle.runtime.hardware.failures import Failures

__all__ = ["Allocator", "Blocks", "DeviceBuffer"]

Blocks = BlockCache[int, Block]


class DeviceBuffer:
    """`nbytes` of a GPU's memory at `argument`; `block` is what it is a part of."""

    __slots__ = ("__weakref__", "_cache", "_owner", "argument", "block", "nbytes")

    def __init__(
        self, block: Block, nbytes: int, cache: Blocks | None, owner: object = None
    ) -> None:
        self.block, self.argument, self.nbytes = block, block.address, nbytes
        self._cache, self._owner = cache, owner

    def view(self) -> NoReturn:
        """Raises DeviceError: the host has no access."""
        raise DeviceError("the host has no access to the GPU's own memory: read it")

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._cache is not None and not exiting():
            self._cache.give_back(id(self.block))


class Allocator:
    """Makes DeviceBuffers. All threads may call it.

    `synchronize` returns once no work uses memory that is free.
    """

    def __init__(
        self,
        memory: BlockMemory,
        failures: Failures,
        largest: int,
        synchronize: Callable[[], None],
    ) -> None:
        self._memory, self._failures, self.largest = memory, failures, largest
        self._synchronize = synchronize
        lock = fork_safe(threading.RLock())
        self._blocks: Blocks = BlockCache(self._fresh, int, lock, self._settle)
        self._code: Blocks = BlockCache(self._fresh, int, lock, self._settle)

    def alloc(self, nbytes: int) -> DeviceBuffer:
        """Memory with undefined contents. Raises OutOfMemory, and DeviceError for a lost device."""
        self._failures.check()
        name = self._failures.name
        if nbytes > self.largest:
            have, need = human_bytes(self.largest), human_bytes(nbytes)
            raise OutOfMemory(
                f"{name}: the GPU has at most {have}, not {need}: split the tensor, or use a "
                "narrower dtype"
            )
        size = round_up(size_class(nbytes), PAGE)
        return DeviceBuffer(self._blocks.take(size), nbytes, self._blocks)

    def alloc_code(self, nbytes: int) -> DeviceBuffer:
        """Memory for code, which counts for no tensor's. Raises OutOfMemory."""
        self._failures.check()
        return DeviceBuffer(self._code.take(round_up(nbytes, PAGE)), nbytes, self._code)

    def _fresh(self, size: int) -> Block:
        with self._failures.translated(f"allocate {human_bytes(size)}"):
            return self._memory.alloc_own(size)

    def _settle(self) -> None:
        with contextlib.suppress(DeviceError):  # a lost device uses nothing
            self._synchronize()

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> DeviceBuffer:
        """Memory of the host's, in place; `owner` lives as long as the buffer, and waits for it."""
        with self._failures.translated("use memory of the host's"):
            block = self._memory.import_host(pointer, max(nbytes, 1))
        return _Imported(block, nbytes, self._settle, owner)

    def trim(self) -> int:
        """Gives the memory that waits back to the driver; how many bytes."""
        freed = self._blocks.trim() + self._code.trim()
        self._memory.collect()
        return freed

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, waiting for reuse, and the most that were ever live."""
        return self._blocks.stats


class _Imported(DeviceBuffer):
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
