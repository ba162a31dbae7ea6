"""Memory of other libraries as tensors, without a copy.

    array = np.arange(6, dtype=np.float32)
    x = Tensor.from_blob(array.ctypes.data, (2, 3), owner=array)   # x reads what `array` holds
    y = Tensor.from_blob(cl_buffer, (2, 3), device="CL")           # a pyopencl buffer

One surprise: values are read when the tensor is computed with, not when it is made. So the memory
has to stay valid, and has to hold what is meant, until then: give its `owner`.
"""

from __future__ import annotations

import contextlib
import math
import operator
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

from ..dtype import ImageDType, dtypes, to_dtype
from ..engine.backends import Device
from ..engine.memory import Memory, adopt
from ..errors import DeviceError, ShapeError, UnsafeBlobWarning
from .creation import Creation
from .images import check_image
from .shapes import reshape

__all__ = ["Interop"]


class Interop(Creation):
    """Tensors over memory that is not treadle's."""

    __slots__ = ()

    @classmethod
    def from_blob(
        cls, ptr: Any, shape: tuple[int, ...], dtype: Any = None, device: str | None = None, *,
        nbytes: int | None = None, strides: Sequence[int] | None = None, owner: object = None,
        deleter: Callable[[], object] | None = None, readonly: bool = False,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """A tensor of the memory at `ptr`, without a copy.

        `ptr` is an address that the device's kernels can use: on the CPU, and on CL devices that
        share the host's memory, a host address; on every CL device also a pyopencl buffer of this
        device's context (`pyopencl.Buffer.from_int_ptr` makes one of a cl_mem), and with
        `dtypes.imagef((height, width))` or `imageh` a pyopencl image, or its cl_mem, of as many
        elements. `dtype` is `dtypes.default_float` by default. `nbytes` says how much memory there
        is, and is checked. `strides`, in elements, are checked too: memory is row-major, since any
        other order would have to be copied. `owner` is kept alive, and `deleter` called, for as
        long as, and once no more, any tensor needs the memory; without either one, a warning says
        once that nothing keeps it alive. A `readonly` tensor refuses to be assigned to. Kernels may
        still run on the memory when `realize` returns: `Device[...].synchronize()` waits for them.

        Raises DeviceError where the device cannot use such memory (WEBGPU, NULL, a null pointer, a
        misaligned one), ShapeError for a shape that does not fit `nbytes`, or other strides.
        """
        name, kind = Device.canonicalize(device), to_dtype(dtype or dtypes.default_float)
        if isinstance(name, tuple):
            raise DeviceError(f"[from_blob] memory is on one device, not on {name}")
        sizes = _checked_sizes(shape)
        if strides is not None and len(strides) != len(sizes):
            raise ShapeError(f"[from_blob] strides {tuple(strides)} do not fit the shape {sizes}")
        if strides is not None and 0 not in sizes and not _is_row_major(sizes, strides):
            raise ShapeError(
                f"[from_blob] strides {tuple(strides)} of shape {sizes} are not row-major: take "
                "all of the memory in its own order, then view it with .permute, .flip or .shrink"
            )
        count = math.prod(sizes)
        image = None
        if isinstance(kind, ImageDType):
            check_image("from_blob", kind, name, count)
            image, kind = kind, dtypes.float32
        needed = count * (image or kind).itemsize
        if nbytes is not None and nbytes < needed:
            raise ShapeError(
                f"[from_blob] shape {sizes} of {kind.name} takes {needed} bytes, but there are "
                f"only {nbytes}"
            )
        if owner is None and deleter is None:
            warnings.warn(_UNOWNED, UnsafeBlobWarning, stacklevel=2)
        buffer = _wrap(name, ptr, needed, kind.itemsize, image)
        weakref.finalize(buffer, _let_go, name, owner, deleter)
        node = adopt(Memory(buffer, kind, count, name, read_only=readonly, image=image))
        return cls._new(reshape(node, sizes), name, requires_grad)


_UNOWNED = (
    "[from_blob] nothing keeps this memory alive: pass owner= (kept as long as it is needed) or "
    "deleter= (called once it is not)"
)


def _checked_sizes(shape: Any) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    if any(not isinstance(size, int) or size < 0 for size in sizes):
        raise ShapeError(f"[from_blob] sizes must be whole numbers of 0 or more: {shape}")
    return tuple(sizes)


def _wrap(device: str, ptr: Any, nbytes: int, alignment: int, image: ImageDType | None) -> Any:
    allocator = Device[device].allocator
    if image is not None:
        return allocator.from_handle(ptr, nbytes, None, image)
    try:
        address = operator.index(ptr)
    except TypeError:  # no address, but an object that a device may know
        if not hasattr(allocator, "from_handle"):
            raise DeviceError(
                f"[from_blob] {device} cannot use an object of type {type(ptr).__name__}: pass an "
                "address where the device has such; pyopencl buffers go to a CL device"
            ) from None
        return allocator.from_handle(ptr, nbytes)
    if address <= 0 and nbytes:
        raise DeviceError(f"[from_blob] the pointer is {'negative' if address else 'null'}")
    if address % alignment:
        raise DeviceError(
            f"[from_blob] address {address:#x} is not a multiple of the element's {alignment} bytes"
        )
    if not nbytes:
        return allocator.alloc(1)  # nothing is there to share
    return allocator.from_pointer(address, nbytes)


def _let_go(device: str, owner: object, deleter: Callable[[], object] | None) -> None:
    """The last tensor is gone, but a kernel may still run on the memory."""
    with contextlib.suppress(DeviceError):  # a lost device, or a forked child
        Device[device].synchronize()
    if deleter is not None:
        deleter()
    del owner


def _is_row_major(sizes: tuple[int, ...], strides: Sequence[int]) -> bool:
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True
