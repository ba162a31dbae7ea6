"""Memory of an OpenCL device: host memory in place where it is shared, cl_mem objects elsewhere.

    allocator.alloc(1024).argument   ->  the pyopencl.Buffer that kernels take

A wrapped block stays wrapped while it waits for reuse, since wrapping costs more than a launch.
One surprise: a kernel may still run when its buffers are collected; the next user of a block is
another kernel behind it in the same queue, or a host write, which waits.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from treadle.errors import DeviceError, OutOfMemory
from treadle.forks import fork_safe
from treadle.runtime.base import MemoryStats
from treadle.runtime.buffer import HostAllocator, HostBuffer, host_view, size_class
from treadle.runtime.cl.failures import translated
from treadle.runtime.cl.handles import begins_with, table_of
from treadle.runtime.cl.platforms import binding

if TYPE_CHECKING:
    from treadle.dtype import ImageDType
    from treadle.runtime.cl.platforms import Facts

__all__ = ["CLAllocator", "CLBuffer"]

MAX_CACHED = 1 << 30


class CLBuffer:
    """`nbytes` of device memory. `argument` is the pyopencl.Buffer, or Image for `image`."""

    __slots__ = (
        "__weakref__", "_allocator", "_block", "_owner", "argument", "image", "is_read_only",
        "nbytes",
    )  # fmt: skip
    argument: Any
    image: ImageDType | None
    nbytes: int

    def __init__(
        self, argument: Any, nbytes: int, block: HostBuffer | None,
        allocator: CLAllocator | None, owner: object = None, image: ImageDType | None = None,
    ) -> None:  # fmt: skip
        self.argument, self.nbytes, self.image = argument, nbytes, image
        self._block, self._allocator, self._owner = block, allocator, owner
        self.is_read_only = False

    def view(self) -> memoryview:
        """The bytes themselves, which keep the buffer alive.

        DeviceError where the host cannot see them.
        """
        if self._block is None:
            raise DeviceError("the host has no access to memory of this OpenCL device: read it")
        return host_view(self._block.pointer, self.nbytes, self)

    def __del__(self) -> None:
        if self._allocator is not None:
            self._allocator._returned.append(id(self.argument))


class CLAllocator:
    """Makes CLBuffers of one context; freed ones wait, by size, for reuse."""

    def __init__(self, context: Any, facts: Facts) -> None:
        self._context, self._facts = context, facts
        self.largest: int = facts.max_alloc
        self._host = HostAllocator() if facts.shares_memory else None
        self._free: dict[int | ImageDType, list[tuple[Any, HostBuffer | None]]] = {}
        self._live = self._cached = self._peak = 0
        self._lock = fork_safe(threading.Lock())
        # A buffer that dies in a cycle is finalized together with all that only it holds: so what
        # it returns is held here, by the id of its argument, and not by it alone.
        self._held: dict[int, tuple[Any, HostBuffer | None, int | ImageDType]] = {}
        # Buffers die in the garbage collector, which may run while this thread holds the lock.
        self._returned: deque[int] = deque()

    def alloc(self, nbytes: int) -> CLBuffer:
        """Memory with undefined contents. Raises OutOfMemory."""
        size = size_class(nbytes)
        if size > self.largest:
            raise OutOfMemory(
                f"CL: {self._facts.name} gives at most {self.largest} bytes to one "
                f"buffer, not {nbytes}: split the tensor, or use a narrower dtype"
            )
        argument, block = self._take(size)
        return CLBuffer(argument, nbytes, block, self)

    def alloc_image(self, image: ImageDType) -> CLBuffer:
        """A texture with undefined contents. Raises OutOfMemory."""
        argument, _ = self._take(image)
        return CLBuffer(argument, _bytes_of(image), None, self, image=image)

    def _take(self, kind: int | ImageDType) -> tuple[Any, HostBuffer | None]:
        """A waiting block of so many bytes, or a waiting texture; a new one if there is none."""
        with self._lock:
            self._collect()
            waiting = self._free.get(kind)
            if waiting:
                found = waiting.pop()
                self._cached -= _bytes_of(kind)
            else:
                found = self._fresh(kind)
            self._held[id(found[0])] = *found, kind
            self._live += _bytes_of(kind)
            self._peak = max(self._peak, self._live)
            return found

    def _fresh(self, kind: int | ImageDType) -> tuple[Any, HostBuffer | None]:
        cl = binding()
        try:
            if not isinstance(kind, int):
                return self._texture(kind), None
            if self._host is None:
                return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, kind), None
            block = self._host.alloc(kind)
            return self._wrapped(block), block
        except (cl.MemoryError, OutOfMemory) as error:
            if self._evict():
                return self._fresh(kind)
            raise OutOfMemory(
                f"CL: no memory for {_bytes_of(kind)} bytes on {self._facts.name}; {self._live} "
                "bytes are live: delete tensors that are no longer needed, or use smaller batches"
            ) from error

    def _texture(self, image: ImageDType) -> Any:
        cl = binding()
        height, width = image.image_shape
        flags = cl.mem_flags.READ_WRITE
        return cl.create_image(self._context, flags, _format_of(image), shape=(width, height))

    def _wrapped(self, block: HostBuffer) -> Any:
        cl = binding()
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=block.view())

    def _collect(self) -> None:
        while self._returned:
            argument, block, kind = self._held.pop(self._returned.popleft())
            self._live -= _bytes_of(kind)
            self._cached += _bytes_of(kind)
            self._free.setdefault(kind, []).append((argument, block))
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
        if self._table is not None and begins_with(pointer) == self._table:
            raise DeviceError(
                f"CL: {pointer:#x} is a cl_mem or another object of OpenCL, not the address of "
                "memory: pass pyopencl.Buffer.from_int_ptr(cl_mem)"
            )
        block = HostBuffer(pointer, max(nbytes, 1), None, owner)
        return CLBuffer(self._wrapped(block), nbytes, block, None, owner)

    def from_handle(
        self, handle: Any, nbytes: int, owner: object = None, image: ImageDType | None = None
    ) -> CLBuffer:
        """A buffer, or image, of pyopencl's in this device's context, in place.

        Raises DeviceError for others, and for one that was released.
        """
        cl = binding()
        wanted = cl.Buffer if image is None else cl.Image
        if not isinstance(handle, wanted):
            raise DeviceError(f"CL takes a pyopencl.{wanted.__name__}, not {type(handle).__name__}")
        if self._table is not None and begins_with(handle.int_ptr) != self._table:
            raise DeviceError(
                f"CL: this pyopencl.{wanted.__name__} was released, so its memory is gone: make "
                "the tensor first; it keeps the memory for as long as it needs it"
            )
        handle = wanted.from_int_ptr(handle.int_ptr)  # which its user may release from now on
        if handle.context != self._context:
            raise DeviceError(
                "CL: the memory belongs to another OpenCL context; make it in "
                'Device["CL"].runtime.context'
            )
        _check_access(handle)
        block = None
        if image is not None:
            _check_texture(handle, image)
        elif handle.size < nbytes:
            raise DeviceError(f"CL: the buffer has {handle.size} bytes, but {nbytes} are needed")
        elif self._facts.shares_memory:
            block = self._mapped(handle)
        buffer = CLBuffer(handle, nbytes, block, None, (owner, handle), image)
        buffer.is_read_only = bool(handle.flags & cl.mem_flags.READ_ONLY)
        return buffer

    def _mapped(self, handle: Any) -> HostBuffer:
        """The host's view of a buffer that somebody else made."""
        cl = binding()
        queue = cl.CommandQueue(self._context)
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        with translated("map a buffer"):
            array, event = cl.enqueue_map_buffer(queue, handle, flags, 0, (handle.size,), "uint8")
            event.wait()
        block = HostBuffer(array.ctypes.data, handle.size, None, handle)
        weakref.finalize(block, _release, array.base, queue)
        return block

    @functools.cached_property
    def _table(self) -> int | None:
        return table_of(binding(), self._context)

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


def _bytes_of(kind: int | ImageDType) -> int:
    return kind if isinstance(kind, int) else kind.channels * kind.itemsize


def _format_of(image: ImageDType) -> Any:
    cl = binding()
    kinds = cl.channel_type
    return cl.ImageFormat(
        cl.channel_order.RGBA, kinds.HALF_FLOAT if image.bits == 16 else kinds.FLOAT
    )


def _check_access(handle: Any) -> None:
    """Raises DeviceError for memory that kernels cannot read, or the host cannot read and write."""
    flags = binding().mem_flags
    for name in ("WRITE_ONLY", "HOST_NO_ACCESS", "HOST_WRITE_ONLY", "HOST_READ_ONLY"):
        if handle.flags & getattr(flags, name):
            raise DeviceError(
                f"CL: the memory was made with mem_flags.{name}, and treadle reads and writes it: "
                "make it with READ_WRITE, or READ_ONLY for what is only read"
            )


def _check_texture(handle: Any, image: ImageDType) -> None:
    height, width = image.image_shape
    if (handle.height, handle.width) != (height, width):
        raise DeviceError(
            f"CL: the image has {handle.height} rows of {handle.width} texels, {image!r} has "
            f"{height} of {width}"
        )
    if handle.format != _format_of(image):
        raise DeviceError(f"CL: the image's format is {handle.format}, not that of {image!r}")


def _release(mapped: Any, queue: Any) -> None:
    mapped.release(queue)
    queue.finish()
