"""Memory of an OpenCL device: host memory in place where it is shared, cl_mem objects elsewhere.

    allocator.alloc(1024).argument   ->  the pyopencl.Buffer that kernels take

A wrapped block stays wrapped while it waits for reuse, since wrapping costs more than a launch.
One surprise: a kernel may still run when its buffers are collected; the next user of a block is
another kernel behind it in the same queue, or a host write, which waits.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.base import MemoryStats
from treadle.runtime.buffer import HostAllocator, HostBuffer, size_class
from treadle.runtime.cl.platforms import binding

if TYPE_CHECKING:
    from treadle.runtime.cl.platforms import Facts

__all__ = ["CLAllocator", "CLBuffer"]

MAX_CACHED = 1 << 30


class CLBuffer:
    """`nbytes` of device memory. `argument` is the pyopencl.Buffer."""

    __slots__ = ("__weakref__", "_allocator", "_block", "_owner", "argument", "nbytes")

    def __init__(
        self, argument: Any, nbytes: int, block: HostBuffer | None,
        allocator: CLAllocator | None, owner: object = None,
    ) -> None:  # fmt: skip
        self.argument, self.nbytes = argument, nbytes
        self._block, self._allocator, self._owner = block, allocator, owner

    def view(self) -> memoryview:
        """The bytes themselves; DeviceError where the host cannot see them."""
        if self._block is None:
            raise DeviceError("the host has no access to memory of this OpenCL device: read it")
        return self._block.view()[: self.nbytes]

    def __del__(self) -> None:
        if self._allocator is not None:
            self._allocator._returned.append(id(self.argument))


class CLAllocator:
    """Makes CLBuffers of one context; freed ones wait, by size, for reuse."""

    def __init__(self, context: Any, facts: Facts) -> None:
        self._context, self._facts = context, facts
        self._host = HostAllocator() if facts.shares_memory else None
        self._free: dict[int, list[tuple[Any, HostBuffer | None]]] = {}
        self._live = self._cached = self._peak = 0
        self._lock = threading.Lock()
        # A buffer that dies in a cycle is finalized together with all that only it holds: so what
        # it returns is held here, by the id of its argument, and not by it alone.
        self._held: dict[int, tuple[Any, HostBuffer | None, int]] = {}
        # Buffers die in the garbage collector, which may run while this thread holds the lock.
        self._returned: deque[int] = deque()

    def alloc(self, nbytes: int) -> CLBuffer:
        """Memory with undefined contents. Raises OutOfMemory."""
        size = size_class(nbytes)
        if size > self._facts.max_alloc:
            raise OutOfMemory(
                f"CL: {self._facts.name} gives at most {self._facts.max_alloc} bytes to one "
                f"buffer, not {nbytes}: split the tensor, or use a narrower dtype"
            )
        with self._lock:
            self._collect()
            waiting = self._free.get(size)
            if waiting:
                argument, block = waiting.pop()
                self._cached -= size
            else:
                argument, block = self._fresh(size)
            self._held[id(argument)] = argument, block, size
            self._live += size
            self._peak = max(self._peak, self._live)
        return CLBuffer(argument, nbytes, block, self)

    def _fresh(self, size: int) -> tuple[Any, HostBuffer | None]:
        cl = binding()
        try:
            if self._host is None:
                return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size), None
            block = self._host.alloc(size)
            return self._wrapped(block), block
        except (cl.MemoryError, OutOfMemory) as error:
            if self._evict():
                return self._fresh(size)
            raise OutOfMemory(
                f"CL: no memory for {size} bytes on {self._facts.name}; {self._live} bytes are "
                "live: delete tensors that are no longer needed, or use smaller batches"
            ) from error

    def _wrapped(self, block: HostBuffer) -> Any:
        cl = binding()
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=block.view())

    def _collect(self) -> None:
        while self._returned:
            argument, block, size = self._held.pop(self._returned.popleft())
            self._live -= size
            self._cached += size
            self._free.setdefault(size, []).append((argument, block))
        if self._cached > MAX_CACHED:
            self._evict()

    def _evict(self) -> int:
        freed, self._cached = self._cached, 0
        self._free.clear()
        if self._host is not None:
            self._host.trim()
        return freed

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> CLBuffer:
        """Host memory of somebody else's, in place. Raises DeviceError where it is not shared."""
        if not self._facts.shares_memory:
            raise DeviceError(
                f"CL: {self._facts.name} cannot use host memory in place; pass a pyopencl buffer "
                "(pyopencl.Buffer.from_int_ptr makes one of a cl_mem)"
            )
        block = HostBuffer(pointer, max(nbytes, 1), None, owner)
        return CLBuffer(self._wrapped(block), nbytes, block, None, owner)

    def from_handle(self, handle: Any, nbytes: int, owner: object = None) -> CLBuffer:
        """A pyopencl buffer of this device's context, in place. Raises DeviceError."""
        cl = binding()
        if not isinstance(handle, cl.Buffer):
            raise DeviceError(f"CL takes a pyopencl.Buffer, not {type(handle).__name__}")
        if handle.context != self._context:
            raise DeviceError(
                "CL: the buffer belongs to another OpenCL context; make it in "
                'Device["CL"].runtime.context'
            )
        if handle.size < nbytes:
            raise DeviceError(f"CL: the buffer has {handle.size} bytes, but {nbytes} are needed")
        block = None
        if self._facts.shares_memory:
            block = self._mapped(handle)
        return CLBuffer(handle, nbytes, block, None, (owner, handle))

    def _mapped(self, handle: Any) -> HostBuffer:
        """The host's view of a buffer that somebody else made."""
        cl = binding()
        queue = cl.CommandQueue(self._context)
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        array, event = cl.enqueue_map_buffer(queue, handle, flags, 0, (handle.size,), "uint8")
        event.wait()
        block = HostBuffer(array.ctypes.data, handle.size, None, handle)
        weakref.finalize(block, _release, array.base, queue)
        return block

    def trim(self) -> int:
        """Gives waiting blocks back; how many bytes."""
        with self._lock:
            self._collect()
            return self._evict()

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, waiting, and the most that were ever live, in whole size classes."""
        with self._lock:
            self._collect()
            return MemoryStats(self._live, self._cached, self._peak)


def _release(mapped: Any, queue: Any) -> None:
    mapped.release(queue)
    queue.finish()
