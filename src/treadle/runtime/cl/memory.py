"""Memory of an OpenCL device: host memory in place where it is shared, cl_mem objects elsewhere.

    allocator.alloc(1024).argument   ->  the pyopencl.Buffer that kernels take

A wrapped block stays wrapped while it waits for reuse, since wrapping costs more than a launch.
One surprise: a kernel may still run when its buffers are collected; the next user of a block is
another kernel behind it in the same queue, or a host write, which waits. OpenCL knows nothing of
host memory that is given back to the system: all kernels are waited for before.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.errors import DeviceError, OutOfMemory
from treadle.forks import fork_safe
from treadle.runtime.block_cache import BlockCache
from treadle.runtime.buffer import HostAllocator, HostBuffer, host_view, size_class
from treadle.runtime.cl.failures import translated
from treadle.runtime.cl.handles import begins_with, table_of
from treadle.runtime.cl.platforms import binding

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import pyopencl as cl

    from treadle.dtype import ImageDType
    from treadle.runtime.base import MemoryStats
    from treadle.runtime.cl.platforms import Facts
    from treadle.runtime.presence import Presence

__all__ = ["CLAllocator", "CLBuffer"]


class _Block(NamedTuple):
    """What kernels take, and the host memory behind it where that is shared."""

    argument: cl.Buffer | cl.Image
    host: HostBuffer | None


class CLBuffer:
    """`nbytes` of device memory. `argument` is the pyopencl.Buffer, or Image for `image`."""

    __slots__ = (
        "__weakref__", "_block", "_owner", "_waiting", "argument", "image", "is_read_only",
        "nbytes",
    )  # fmt: skip
    argument: cl.Buffer | cl.Image
    image: ImageDType | None
    nbytes: int

    def __init__(
        self, block: _Block, nbytes: int, waiting: BlockCache[int | ImageDType, _Block] | None,
        owner: object = None, image: ImageDType | None = None,
    ) -> None:  # fmt: skip
        self.argument, self.nbytes, self.image = block.argument, nbytes, image
        self._block, self._waiting, self._owner = block, waiting, owner
        self.is_read_only = False

    def view(self) -> memoryview:
        """The bytes themselves, which keep the buffer alive.

        DeviceError where the host cannot see them.
        """
        if self._block.host is None:
            raise DeviceError("the host has no access to memory of this OpenCL device: read it")
        return host_view(self._block.host.pointer, self.nbytes, self)

    def __del__(self) -> None:
        if self._waiting is not None:
            self._waiting.give_back(id(self._block))


class CLAllocator:
    """Makes CLBuffers of one context; freed ones wait, by size, for reuse.

    `synchronize` returns once no kernel uses memory that is free.
    """

    def __init__(
        self, presence: Presence, driver: ModuleType, context: cl.Context, facts: Facts,
        synchronize: Callable[[], None],
    ) -> None:  # fmt: skip
        self._presence, self.driver = presence, driver
        self._context, self._facts = context, facts
        self.largest: int = facts.max_alloc
        # What waits for reuse waits here, wrapped, and not there once more.
        self._host = HostAllocator(0, presence.name) if facts.shares_memory else None
        self._blocks: BlockCache[int | ImageDType, _Block] = BlockCache(
            self._fresh, _bytes_of, fork_safe(threading.RLock()), synchronize
        )

    def alloc(self, nbytes: int) -> CLBuffer:
        """Memory with undefined contents. Raises OutOfMemory, and DeviceError for a lost device."""
        self._presence.check()
        size = size_class(nbytes)
        if size > self.largest:
            raise OutOfMemory(
                f"{self._presence.name}: {self._facts.name} gives at most {self.largest} bytes to "
                f"one buffer, not {nbytes}: split the tensor, or use a narrower dtype"
            )
        return CLBuffer(self._blocks.take(size), nbytes, self._blocks)

    def alloc_image(self, image: ImageDType) -> CLBuffer:
        """A texture with undefined contents. Raises OutOfMemory."""
        self._presence.check()
        return CLBuffer(self._blocks.take(image), _bytes_of(image), self._blocks, image=image)

    def _fresh(self, kind: int | ImageDType) -> _Block:
        cl = self.driver
        try:
            with translated("allocate memory", self._presence):
                if not isinstance(kind, int):
                    return _Block(self._texture(kind), None)
                if self._host is None:
                    return _Block(cl.Buffer(self._context, cl.mem_flags.READ_WRITE, kind), None)
                block = self._host.alloc(kind)
                return _Block(self._wrapped(block), block)
        except OutOfMemory as error:
            raise OutOfMemory(
                f"{self._presence.name}: no memory for {_bytes_of(kind)} bytes on "
                f"{self._facts.name}"
            ) from error

    def _texture(self, image: ImageDType) -> cl.Image:
        cl = self.driver
        height, width = image.image_shape
        flags = cl.mem_flags.READ_WRITE
        return cl.create_image(self._context, flags, _format_of(image), shape=(width, height))

    def _wrapped(self, block: HostBuffer) -> cl.Buffer:
        cl = self.driver
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=block.view())

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
        with translated("use the host's memory", self._presence):
            return CLBuffer(_Block(self._wrapped(block), block), nbytes, None, owner)

    def from_handle(
        self, handle: Any, nbytes: int, owner: object = None, image: ImageDType | None = None
    ) -> CLBuffer:
        """A buffer, or image, of pyopencl's in this device's context, in place.

        Raises DeviceError for others, and for one that was released.
        """
        cl = self.driver
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
        buffer = CLBuffer(_Block(handle, block), nbytes, None, (owner, handle), image)
        buffer.is_read_only = bool(handle.flags & cl.mem_flags.READ_ONLY)
        return buffer

    def _mapped(self, handle: cl.Buffer) -> HostBuffer:
        """The host's view of a buffer that somebody else made."""
        cl = self.driver
        queue = cl.CommandQueue(self._context)
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        with translated("map a buffer", self._presence):
            array, event = cl.enqueue_map_buffer(queue, handle, flags, 0, (handle.size,), "uint8")
            event.wait()
        block = HostBuffer(array.ctypes.data, handle.size, None, handle)
        weakref.finalize(block, _release, array.base, queue)
        return block

    @functools.cached_property
    def _table(self) -> int | None:
        return table_of(self.driver, self._context)

    def trim(self) -> int:
        """Gives waiting blocks back; how many bytes."""
        return self._blocks.trim()

    @property
    def stats(self) -> MemoryStats:
        """Bytes live, waiting, and the most that were ever live, in whole size classes."""
        return self._blocks.stats


def _bytes_of(kind: int | ImageDType) -> int:
    return kind if isinstance(kind, int) else kind.channels * kind.itemsize


def _format_of(image: ImageDType) -> cl.ImageFormat:
    cl = binding()
    kinds = cl.channel_type
    return cl.ImageFormat(
        cl.channel_order.RGBA, kinds.HALF_FLOAT if image.bits == 16 else kinds.FLOAT
    )


def _check_access(handle: cl.MemoryObject) -> None:
    """Raises DeviceError for memory that kernels cannot read, or the host cannot read and write."""
    flags = binding().mem_flags
    for name in ("WRITE_ONLY", "HOST_NO_ACCESS", "HOST_WRITE_ONLY", "HOST_READ_ONLY"):
        if handle.flags & getattr(flags, name):
            raise DeviceError(
                f"CL: the memory was made with mem_flags.{name}, and treadle reads and writes it: "
                "make it with READ_WRITE, or READ_ONLY for what is only read"
            )


def _check_texture(handle: cl.Image, image: ImageDType) -> None:
    height, width = image.image_shape
    if (handle.height, handle.width) != (height, width):
        raise DeviceError(
            f"CL: the image has {handle.height} rows of {handle.width} texels, {image!r} has "
            f"{height} of {width}"
        )
    if handle.format != _format_of(image):
        raise DeviceError(f"CL: the image's format is {handle.format}, not that of {image!r}")


def _release(mapped: cl.MemoryMap, queue: cl.CommandQueue) -> None:
    mapped.release(queue)
    queue.finish()
