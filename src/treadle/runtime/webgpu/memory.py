"""Storage buffers of a WebGPU device, with a cache by size.

    buffer = WebGPUAllocator(...).alloc(10)   # 16 bytes in Dawn: WebGPU moves whole words only

One surprise: the host never sees this memory. `read` and `write` of the device copy.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.base import MemoryStats
from treadle.runtime.buffer import size_class
from treadle.runtime.webgpu.structures import BufferDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.runtime.webgpu.dawn import Dawn, Handle

__all__ = [
    "COPY_SOURCE", "COPY_TARGET", "MAP_READ", "QUERY_RESOLVE", "STORAGE", "UNIFORM",
    "WebGPUAllocator", "WebGPUBuffer", "make_buffer",
]  # fmt: skip

MAP_READ, COPY_SOURCE, COPY_TARGET, UNIFORM, STORAGE, QUERY_RESOLVE = 1, 4, 8, 64, 128, 512
MAX_CACHED = 1 << 30


def make_buffer(dawn: Dawn, device: Handle, nbytes: int, usage: int) -> Handle:
    """A buffer. Raises OutOfMemory or DeviceError."""
    descriptor = BufferDescriptor(size=nbytes, usage=usage)
    with dawn.checked(device, f"allocate {nbytes} bytes"):
        return dawn.make("Buffer", "wgpuDeviceCreateBuffer", device, ctypes.byref(descriptor))


class WebGPUBuffer:
    """`nbytes` of device memory in a buffer of `size` bytes. It is its own argument."""

    __slots__ = ("__weakref__", "_allocator", "handle", "nbytes", "size")
    handle: Handle
    nbytes: int
    size: int

    def __init__(self, handle: Handle, nbytes: int, size: int, allocator: WebGPUAllocator) -> None:
        self.handle, self.nbytes, self.size, self._allocator = handle, nbytes, size, allocator

    @property
    def argument(self) -> WebGPUBuffer:
        """What launches take."""
        return self

    def view(self) -> NoReturn:
        """Raises DeviceError: the host has no access."""
        raise DeviceError("the host has no access to WEBGPU memory: read it")

    def __del__(self) -> None:
        self._allocator._returned.append(id(self.handle))


class WebGPUAllocator:
    """Makes WebGPUBuffers; freed ones wait, by size, for reuse."""

    def __init__(
        self, dawn: Dawn, device: Handle, most: int, lock: Any, check: Callable[[], None]
    ) -> None:
        self._dawn, self._device, self._check = dawn, device, check
        self.largest = most
        self._free: dict[int, list[Handle]] = {}
        self._live = self._cached = self._peak = 0
        self._lock = lock
        # A buffer that dies in a cycle is finalized together with all that only it holds: so the
        # handles that it returns are held here, by their id, and not by it alone.
        self._held: dict[int, tuple[Handle, int]] = {}
        # Buffers die in the garbage collector, which may run while this thread holds the lock.
        self._returned: deque[int] = deque()

    def alloc(self, nbytes: int) -> WebGPUBuffer:
        """Memory with undefined contents. Raises OutOfMemory, and DeviceError for a lost device."""
        self._check()
        size = size_class(nbytes)
        if size > self.largest:
            raise OutOfMemory(
                f"WEBGPU: this adapter's buffers have at most {self.largest} bytes, {nbytes} are "
                "needed: split the tensor, or use a narrower dtype"
            )
        with self._lock:
            self._collect()
            waiting = self._free.get(size)
            if waiting:
                handle = waiting.pop()
                self._cached -= size
            else:
                handle = self._fresh(size)
            self._held[id(handle)] = handle, size
            self._live += size
            self._peak = max(self._peak, self._live)
        return WebGPUBuffer(handle, nbytes, size, self)

    def _fresh(self, size: int) -> Handle:
        usage = STORAGE | COPY_SOURCE | COPY_TARGET
        try:
            return make_buffer(self._dawn, self._device, size, usage)
        except OutOfMemory as error:
            if self._evict():
                return self._fresh(size)
            raise OutOfMemory(
                f"{error}; {self._live} bytes are live: delete tensors that are no longer needed, "
                "or use smaller batches"
            ) from None

    def _collect(self) -> None:
        while self._returned:
            handle, size = self._held.pop(self._returned.popleft())
            self._live -= size
            self._cached += size
            self._free.setdefault(size, []).append(handle)
        if self._cached > MAX_CACHED:
            self._evict()

    def _evict(self) -> int:
        freed, self._cached = self._cached, 0
        self._free.clear()
        return freed

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> NoReturn:
        """Raises DeviceError: WebGPU has no pointers."""
        raise DeviceError(
            "WEBGPU cannot use memory of somebody else: it has no pointers. Make a tensor from the "
            "data, which copies it"
        )

    def trim(self) -> int:
        """Gives waiting buffers back; how many bytes."""
        with self._lock:
            self._collect()
            return self._evict()

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, waiting, and the most that were ever live, in whole size classes."""
        with self._lock:
            self._collect()
            return MemoryStats(self._live, self._cached, self._peak)
