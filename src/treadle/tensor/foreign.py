"""Memory that is not treadle's, as buffers of a device.

wrapped("CPU", address, 24, 4, None)    a buffer over 24 bytes there
adopted(buffer, dtypes.float32, 6, ..)  the node that reads it
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable
from typing import SupportsIndex, cast

from ..dtype import DType, ImageDType
from ..engine.devices import Device
from ..engine.memory import Memory, adopt
from ..errors import DeviceError, ShapeError
from ..ir.node import Node
from ..runtime.base import Buffer

__all__ = ["adopted", "join_stream", "whole", "wrapped"]


def whole(value: SupportsIndex) -> int:
    """An integer of any library. Raises TypeError for others, and for a bool."""
    if isinstance(value, bool):
        raise TypeError("a bool is no number here")
    return operator.index(value)


def wrapped(
    device: str, ptr: object, nbytes: int, alignment: int, image: ImageDType | None,
    pitch: int | None = None,
) -> Buffer:  # fmt: skip
    """The buffer of a device at an address, or of an object that it knows.

    `pitch` is how many bytes the lines of an image are apart, if that is known.

    Raises DeviceError for what the device cannot use, ShapeError for more bytes than there are.
    """
    allocator = Device[device].allocator
    try:
        address = whole(cast("SupportsIndex", ptr))
    except TypeError:  # no address, but an object that a device may know
        if not hasattr(allocator, "from_handle"):
            raise DeviceError(
                f"[from_blob] {device} cannot use an object of type {type(ptr).__name__}: pass an "
                "address where the device has such; pyopencl buffers go to a CL device"
            ) from None
        return allocator.from_handle(ptr, nbytes, None, image)
    if image is not None and not hasattr(allocator, "image_from_pointer"):
        raise DeviceError(
            f"[from_blob] {address:#x} is an integer, and so an address, which images have not: "
            "pass the pyopencl.Image, which pyopencl.Image.from_int_ptr makes of a cl_mem"
        )
    if (address <= 0 and nbytes) or address >> 64:
        said = "no address of 64 bits" if address > 0 else "negative" if address else "null"
        raise DeviceError(f"[from_blob] the pointer is {said}: {address:#x}")
    if (address + nbytes) >> 64:
        raise ShapeError(
            f"[from_blob] {nbytes} bytes from address {address:#x} on are more than there are "
            "addresses: give the sizes in elements, as many as the memory has"
        )
    if image is not None:
        return allocator.image_from_pointer(address, image, pitch)
    if address % alignment:
        raise DeviceError(
            f"[from_blob] address {address:#x} is not a multiple of the element's {alignment} bytes"
        )
    if not nbytes:
        return allocator.alloc(1)  # nothing is there to share
    return allocator.from_pointer(address, nbytes)


def join_stream(device: str, buffer: Buffer, stream: int) -> None:
    """Order what a device does with `buffer` with a stream. Raises DeviceError if it has none."""
    runtime = Device[device].runtime
    if not hasattr(runtime, "join"):
        raise DeviceError(f"[from_blob] {device} has no streams: leave stream={stream} out")
    runtime.join(buffer, operator.index(stream))


def adopted(
    buffer: Buffer, kind: DType, count: int, device: str, owner: object,
    deleter: Callable[[], object] | None, readonly: bool, image: ImageDType | None,
) -> Node:  # fmt: skip
    """A BUFFER over somebody else's memory, which is let go of when the last tensor is gone."""
    weakref.finalize(buffer, _let_go, device, owner, deleter)
    readonly = readonly or getattr(buffer, "is_read_only", False)
    return adopt(
        Memory(buffer, kind, count, device, read_only=readonly, image=image, is_exposed=True)
    )


def _let_go(device: str, owner: object, deleter: Callable[[], object] | None) -> None:
    """The last tensor is gone, but a kernel may still run on the memory.

    That is waited for, unless the owner does so before it gives the memory back.
    """
    if getattr(owner, "waits_for_readers", False):
        return
    with contextlib.suppress(DeviceError):  # a lost device, or a forked child
        Device[device].synchronize()
    if deleter is not None:
        deleter()
    del owner
