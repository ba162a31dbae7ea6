"""Memory of an Apple GPU: MTLBuffers that the host shares, with a cache by size.

    buffer = MetalAllocator(...).alloc(10)
    buffer.view()[:4] = b"abcd"           # the host's memory is the GPU's

One surprise: a GPU may still use a buffer that is collected. Command buffers keep what they use,
and the next user of a block comes behind them in the same queue; the host waits before it writes.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

from treadle.errors import DeviceError, OutOfMemory
from treadle.forks import fork_safe
from treadle.helpers import human_bytes
from treadle.runtime.block_cache import BlockCache
from treadle.runtime.buffer import host_view, size_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.runtime.base import MemoryStats
    from treadle.runtime.metal.messages import Handle, Messages
    from treadle.runtime.presence import Presence

__all__ = ["MetalAllocator", "MetalBuffer"]

STORAGE_SHARED = 0  # MTLResourceStorageModeShared; its hazards are tracked


class _Block:
    """An MTLBuffer and where the host sees it."""

    __slots__ = ("handle", "memory", "nbytes", "pointer")

    def __init__(self, messages: Messages, handle: Handle, nbytes: int) -> None:
        self.handle, self.nbytes = handle, nbytes
        self.memory = messages.contents(handle, nbytes)
        self.pointer = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))


class MetalBuffer:
    """`nbytes` of an MTLBuffer, from byte `offset` on. It is its own argument."""

    __slots__ = ("__weakref__", "_block", "_owner", "_waiting", "nbytes", "offset")

    def __init__(
        self, block: _Block, nbytes: int, waiting: BlockCache[int, _Block] | None,
        owner: object = None, offset: int = 0,
    ) -> None:  # fmt: skip
        self._block, self.nbytes, self._waiting = block, nbytes, waiting
        self._owner, self.offset = owner, offset

    @property
    def handle(self) -> Handle:
        """The MTLBuffer."""
        return self._block.handle

    @property
    def argument(self) -> MetalBuffer:
        """What launches take."""
        return self

    def view(self) -> memoryview:
        """The bytes, writable, without a copy. The view keeps the buffer alive."""
        return host_view(self._block.pointer + self.offset, self.nbytes, self)

    def __del__(self) -> None:
        if self._waiting is not None:
            self._waiting.give_back(id(self._block))


class MetalAllocator:
    """Makes MetalBuffers; freed ones wait, by size, for reuse."""

    def __init__(
        self, presence: Presence, messages: Messages, device: Handle,
        probe: Callable[[], Callable[[], object] | None],
    ) -> None:  # fmt: skip
        self._presence, self._messages, self._device = presence, messages, device
        self._probe = probe  # what raises DeviceError where the GPU is lost, while it is there
        self.largest = messages.number(device, "maxBufferLength")
        self._blocks: BlockCache[int, _Block] = BlockCache(
            self._fresh, int, fork_safe(threading.RLock())
        )

    def alloc(self, nbytes: int) -> MetalBuffer:
        """Memory with undefined contents. Raises OutOfMemory."""
        self._presence.check()
        size = size_class(nbytes)
        if size > self.largest:
            raise OutOfMemory(
                f"{self._presence.name}: this GPU's buffers have at most "
                f"{human_bytes(self.largest)}, {human_bytes(nbytes)} are needed: split the tensor, "
                "or use a narrower dtype"
            )
        try:
            block = self._blocks.take(size)
        except OutOfMemory:
            if (probe := self._probe()) is not None:
                probe()
            raise
        return MetalBuffer(block, nbytes, self._blocks)

    def _fresh(self, size: int) -> _Block:
        messages = self._messages
        with messages.pool():
            made = messages.find(self._device, "newBufferWithLength:options:", size, STORAGE_SHARED)
        if made is None:
            raise OutOfMemory(
                f"{self._presence.name}: the GPU has no {human_bytes(size)} left: free tensors, or "
                "use a narrower dtype"
            )
        return _Block(messages, made, size)

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> MetalBuffer:
        """The MTLBuffer whose address as an object is `pointer`, as PyTorch's MPS tensors have it.

        Raises DeviceError for one of another device, or too small.
        """
        self._presence.check()
        messages = self._messages
        with messages.pool():
            handle = messages.object_at(pointer)
            if messages.send(handle, "device") != self._device:
                raise DeviceError(f"{self._presence.name}: the buffer belongs to another GPU")
            length = messages.number(handle, "length")
            if length < nbytes:
                raise DeviceError(
                    f"{self._presence.name}: the buffer has {length} bytes, but {nbytes} are needed"
                )
            if messages.number(handle, "storageMode") != STORAGE_SHARED:
                raise DeviceError(
                    f"{self._presence.name}: the buffer is private to the GPU, not shared with "
                    "the host"
                )
            return MetalBuffer(_Block(messages, handle, length), nbytes, None, owner)

    def trim(self) -> int:
        """Gives waiting buffers back; how many bytes."""
        return self._blocks.trim()

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, waiting, and the most that were ever live, in whole size classes."""
        return self._blocks.stats
