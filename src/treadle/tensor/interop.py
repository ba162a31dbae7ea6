"""Memory of other libraries as tensors, without a copy.

    array = np.arange(6, dtype=np.float32)
    x = Tensor.from_blob(array.ctypes.data, (2, 3), owner=array)   # x reads what `array` holds
    y = Tensor.from_blob(cl_buffer, (2, 3), device="CL")           # a pyopencl buffer

One surprise: values are read when the tensor is computed with, not when it is made. So the memory
has to stay valid, and has to hold what is meant, until then: give its `owner`.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable
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
        nbytes: int | None = None, owner: object = None,
        deleter: Callable[[], object] | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """A tensor of row-major memory at `ptr`, without a copy.

        `ptr` is an address that the device's kernels can use: on the CPU, and on CL devices that
        share the host's memory, a host address; on every CL device also a pyopencl buffer of this
        device's context, and with `dtypes.imagef((height, width))` or `imageh` a pyopencl image, or
        its cl_mem, of as many elements. `dtype` is `dtypes.default_float` by default. `nbytes` says
        how much memory there is, and is checked. `owner` is kept alive, and `deleter` called, for
        as long as, and once no more, any tensor needs the memory; without either one, a warning
        says once that nothing keeps it alive.

        Raises DeviceError where the device cannot use such memory (WEBGPU, NULL, a null pointer, a
        misaligned one), ShapeError for a shape that does not fit `nbytes`.
        """
        name, kind = Device.canonicalize(device), to_dtype(dtype or dtypes.default_float)
        sizes = tuple(shape)
        if any(not isinstance(size, int) or size < 0 for size in sizes):
            raise ShapeError(f"[from_blob] sizes must be whole numbers of 0 or more: {sizes}")
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
        buffer = _wrap(name, ptr, needed, kind.itemsize, owner, image)
        if deleter is not None:
            weakref.finalize(buffer, deleter)
        node = reshape(adopt(Memory(buffer, kind, count, name, image=image)), sizes)
        return cls._new(node, name, requires_grad)


_UNOWNED = (
    "[from_blob] nothing keeps this memory alive: pass owner= (kept as long as it is needed) or "
    "deleter= (called once it is not)"
)


def _wrap(
    device: str, ptr: Any, nbytes: int, alignment: int, owner: object, image: ImageDType | None
) -> Any:
    allocator = Device[device].allocator
    if image is not None:
        return allocator.from_handle(ptr, nbytes, owner, image)
    if not isinstance(ptr, int):
        if not hasattr(allocator, "from_handle"):
            raise DeviceError(
                f"[from_blob] {device} takes an address, not {type(ptr).__name__}; pyopencl "
                "buffers go to a CL device"
            )
        return allocator.from_handle(ptr, nbytes, owner)
    if ptr == 0 and nbytes:
        raise DeviceError("[from_blob] the pointer is null")
    if ptr % alignment:
        raise DeviceError(
            f"[from_blob] address {ptr:#x} is not a multiple of the element's {alignment} bytes"
        )
    return allocator.from_pointer(ptr, nbytes, owner)
