"""Storage buffers of a WebGPU device, with a cache by size.

    buffer = WebGPUAllocator(...).alloc(10)   # 16 bytes in Dawn: WebGPU moves whole words only

One surprise: the host never sees this memory. `read` and `write` of the device copy.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NoReturn

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.block_cache import BlockCache
from treadle.runtime.buffer import size_class
from treadle.runtime.webgpu.structures import BufferDescriptor

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from treadle.runtime.base import MemoryStats
    from treadle.runtime.presence import Presence
    from treadle.runtime.webgpu.dawn import Dawn, Handle

__all__ = [
    "COPY_SOURCE", "COPY_TARGET", "MAP_READ", "QUERY_RESOLVE", "STORAGE", "UNIFORM",
    "WebGPUAllocator", "WebGPUBuffer", "make_buffer",
]  # fmt: skip

MAP_READ, COPY_SOURCE, COPY_TARGET, UNIFORM, STORAGE, QUERY_RESOLVE = 1, 4, 8, 64, 128, 512


def make_buffer(dawn: Dawn, device: Handle, nbytes: int, usage: int) -> Handle:
    """A buffer. Raises OutOfMemory or DeviceError."""
    descriptor = BufferDescriptor(size=nbytes, usage=usage)
    with dawn.checked(device, f"allocate {nbytes} bytes"):
        return dawn.make("Buffer", "wgpuDeviceCreateBuffer", device, ctypes.byref(descriptor))


class WebGPUBuffer:
    """`nbytes` of device memory in a buffer of `size` bytes. It is its own argument."""

    __slots__ = ("__weakref__", "_waiting", "handle", "nbytes", "size")
    handle: Handle
    nbytes: int
    size: int

    def __init__(
        self, handle: Handle, nbytes: int, size: int, waiting: BlockCache[int, Handle]
    ) -> None:
        self.handle, self.nbytes, self.size, self._waiting = handle, nbytes, size, waiting

    @property
    def argument(self) -> WebGPUBuffer:
        """What launches take."""
        return self

    def view(self) -> NoReturn:
        """Raises DeviceError: the host has no access."""
        raise DeviceError("the host has no access to WEBGPU memory: read it")

    def __del__(self) -> None:
        self._waiting.give_back(id(self.handle))


class WebGPUAllocator:
    """Makes WebGPUBuffers; freed ones wait, by size, for reuse. Dawn frees none that is in use."""

    def __init__(
        self,
        presence: Presence,
        dawn: Dawn,
        device: Handle,
        most: int,
        lock: AbstractContextManager[object],
    ) -> None:
        self._presence, self._dawn, self._device = presence, dawn, device
        self.largest = most
        self._blocks: BlockCache[int, Handle] = BlockCache(self._fresh, int, lock)

    def alloc(self, nbytes: int) -> WebGPUBuffer:
        """Memory with undefined contents. Raises OutOfMemory, and DeviceError for a lost device."""
        self._presence.check()
        size = size_class(nbytes)
        if size > self.largest:
            raise OutOfMemory(
                f"{self._presence.name}: this adapter's buffers have at most {self.largest} bytes, "
                f"{nbytes} are needed: split the tensor, or use a narrower dtype"
            )
        return WebGPUBuffer(self._blocks.take(size), nbytes, size, self._blocks)

    def _fresh(self, size: int) -> Handle:
        return make_buffer(self._dawn, self._device, size, STORAGE | COPY_SOURCE | COPY_TARGET)

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> NoReturn:
        """Raises DeviceError: WebGPU has no pointers."""
        raise DeviceError(
            "WEBGPU cannot use memory of somebody else: it has no pointers. Make a tensor from the "
            "data, which copies it"
        )

    def trim(self) -> int:
        """Gives waiting buffers back; how many bytes."""
        return self._blocks.trim()

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, waiting, and the most that were ever live, in whole size classes."""
        return self._blocks.stats
