"""Memory of other libraries as tensors, without a copy.

    array = np.arange(6, dtype=np.float32)
    x = Tensor.from_blob(array.ctypes.data, (2, 3), owner=array)   # x reads what `array` holds
    y = Tensor.from_blob(cl_buffer, (2, 3), device="CL")           # a pyopencl buffer

    z = Tensor.from_dlpack(torch_tensor)    np.from_dlpack(z)    np.asarray(z)    # all in place

One surprise: values are read when the tensor is computed with, not when it is made. So the memory
has to stay valid, and has to hold what is meant, until then: give its `owner`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Self, SupportsIndex, cast

from ...array_namespace import array_namespace
from ...dtype import ImageDType, dtypes, to_dtype
from ...engine.devices import Device
from ...errors import (
    ArgumentError,
    DeviceError,
    ExchangeError,
    ShapeError,
    UnsafeBlobWarning,
    UserError,
)
from ...ir.node import Node
from ...runtime.dlpack import Import
from ..basis import Basis
from ..foreign import adopted, join_stream, whole, wrapped
from ..images import check_image
from ..inplace import over_memory
from ..shapes import reshape
from ..types import DTypeLike
from .array_interface import array_interface
from .cuda_arrays import CudaArray
from .cuda_memory import cuda_array_interface, stream_of_pytorch
from .shared_memory import device_of, exported, home_of, imported, in_place, placed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Interop"]


class Interop(Basis):
    """Tensors over memory that is not treadle's."""

    __slots__ = ()

    @classmethod
    def from_blob(
        cls, ptr: object, shape: tuple[int, ...], dtype: DTypeLike | None = None,
        device: str | None = None, *, nbytes: int | None = None,
        strides: Sequence[int] | None = None, owner: object = None,
        deleter: Callable[[], object] | None = None, readonly: bool = False,
        stream: int | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """A tensor of the memory at `ptr`, without a copy.

        `ptr` is an address that the device's kernels can use: on the CPU, and on CL devices that
        share the host's memory, a host address; on CUDA an address in the GPU's memory, such as
        PyTorch's `data_ptr()`; on every CL device also a pyopencl buffer of this device's context,
        and with `dtypes.imagef((height, width))` or `imageh` a pyopencl image of as many elements.
        On QCOM it is an address of the host's or of the GPU's, that of an OpenCL image too, whose
        lines are as far apart as Qualcomm's OpenCL has them; shape (height, width, 4) may come with
        `strides` that say how far. An integer is an address, never a handle: of a cl_mem,
        `pyopencl.Buffer.from_int_ptr` or `pyopencl.Image.from_int_ptr` makes what can be passed.
        `dtype` is `dtypes.default_float` by default. `nbytes` says how much memory there is, and is
        checked. `strides`, in elements, are checked too: memory is row-major, since any other order
        would have to be copied. `owner` is kept alive, and `deleter` called, for as long as, and
        once no more, any tensor needs the memory; without either one, a warning says once that
        nothing keeps it alive. A `readonly` tensor refuses to be assigned to. Kernels may still run
        on the memory when `realize` returns: `Device[...].synchronize()` waits for them.

        CUDA orders what treadle does with what other libraries do on the legacy default stream, and
        with what they do on `stream`, a CUstream as an integer that lives as long as the tensor. If
        none is given, that is the stream on which PyTorch, where it is in use, works just then.

        Raises DeviceError where the device cannot use such memory (WEBGPU, NULL, a null pointer, a
        misaligned one, a cl_mem as an integer, a buffer that was released), ShapeError for a shape
        that does not fit `nbytes` or all addresses, or other strides, UserError for a deleter that
        cannot be called.
        """
        name, kind = Device.canonicalize(device), to_dtype(dtype or dtypes.default_float)
        if isinstance(name, tuple):
            raise DeviceError(f"[from_blob] memory is on one device, not on {name}")
        sizes = _checked_sizes(shape)
        if strides is not None and len(strides) != len(sizes):
            raise ShapeError(f"[from_blob] strides {tuple(strides)} do not fit the shape {sizes}")
        pitch = None
        if isinstance(kind, ImageDType) and strides is not None:
            pitch, strides = _pitch_of(kind, sizes, strides), None
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
        if deleter is not None and not callable(deleter):
            raise UserError(
                f"[from_blob] deleter is called without arguments when the memory is no longer "
                f"needed; {deleter!r} is a {type(deleter).__name__}"
            )
        if owner is None and deleter is None:
            warnings.warn(_UNOWNED, UnsafeBlobWarning, stacklevel=2)
        buffer = wrapped(name, ptr, needed, kind.itemsize, image, pitch)
        if stream is None:
            stream = stream_of_pytorch(name)
        if stream is not None:
            join_stream(name, buffer, stream)
        node = adopted(buffer, kind, count, name, owner, deleter, readonly, image)
        tensor = over_memory(cls._new(reshape(node, sizes), name))
        return tensor if requires_grad is None else tensor.requires_grad_(requires_grad)

    # -- DLPack -------------------------------------------------------------------------------

    @classmethod
    def from_dlpack(cls, x: object, *, device: str | None = None, copy: bool | None = None) -> Self:
        """The memory of another library's array `x`, shared; a DLPack capsule will do for `x`, too.

        Shape, dtype and order of axes are those of `x`. `copy` True makes a copy, False refuses
        one, None copies where memory cannot be shared: on a `device` (the default device, if none
        is given) that does not see the host's memory, where there are gaps between the elements,
        or for an address that is no multiple of an element. Memory that its owner calls read-only
        cannot be assigned to. Each side sees what the other writes, when it computes. An order of
        axes that is not row-major makes a view, which `realize` and `numpy` give memory of its own.

        Raises ExchangeError (a BufferError), DeviceError for several devices, or what
        `x.__dlpack__` raises.
        """
        name = Device.canonicalize(home_of(x) if device is None else device)
        if isinstance(name, tuple):
            raise DeviceError(f"[from_dlpack] memory is on one device, not on {name}")

        def adopt_dense(found: Import, address: int, count: int) -> Node:
            kind = found.dtype
            buffer = wrapped(name, address, count * kind.itemsize, kind.itemsize, None)
            return adopted(buffer, kind, count, name, None, found.take(), found.read_only, None)

        return over_memory(cls._new(imported(adopt_dense, name, x, copy), name))

    @classmethod
    def from_cuda_array(
        cls, x: object, *, device: str | None = None, copy: bool | None = None
    ) -> Self:
        """The memory of an array `x` that has `__cuda_array_interface__`, shared, in its shape and
        dtype.

        That is version 3, of CuPy, Numba, PyTorch and others. What is computed here comes after the
        work on the stream that `x` names. `device` is the CUDA device where the memory is, or
        another one, which gets a copy; `copy` and what can be shared are as in `from_dlpack`.

        Raises ExchangeError (a BufferError) for what has no such interface, or where a copy would
        be needed and is refused; DeviceError for several devices.
        """
        found = CudaArray(x)
        there, name = Device.canonicalize(found.device), Device.canonicalize(device or found.device)
        if isinstance(name, tuple):
            raise DeviceError(f"[from_cuda_array] memory is on one device, not on {name}")
        if found.stream is not None:
            Device[there].runtime.take_over(found.stream)
        if name != there and copy is False:
            raise ExchangeError(
                f"[from_cuda_array] memory of {there} is not shared with {name}: allow a copy"
            )

        def adopt_dense(_: object, address: int, count: int) -> Node:
            kind = found.dtype
            buffer = wrapped(there, address, count * kind.itemsize, kind.itemsize, None)
            return adopted(buffer, kind, count, there, x, None, found.read_only, None)

        shared = over_memory(cls._new(placed(adopt_dense, there, found, True, copy), there))
        return shared if name == there else shared.to(name)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> object:  # fmt: skip
        """A DLPack capsule of this tensor's memory, for `from_dlpack` of other libraries.

        Versioned (1.x) from `max_version` (1, 0) on, else of the older kind. `copy` as in
        `from_dlpack`; flipped and expanded views are copied, and so is memory that the host does
        not see, for `dl_device` (1, 0). On CUDA, what the consumer puts on its `stream` comes after
        the work that was started here: None and 1 are the legacy default stream, -1 asks for no
        order. Raises ExchangeError (a BufferError): for tensors that require gradients or are
        spread over devices, and where a copy would be needed.
        """
        versioned = max_version is not None and max_version[0] >= 1
        return exported(self, stream=stream, versioned=versioned, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and number: (1, 0) where the host sees the memory."""
        return device_of(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Version 3: the memory of a tensor on a CUDA device, for CuPy, Numba and the like."""
        return cuda_array_interface(self)

    # -- the Array API standard -----------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The standard's functions: `treadle.array_api`. Raises UserError for other versions."""
        namespace = array_namespace()
        if api_version not in (None, *namespace.VERSIONS):
            raise UserError(
                f"[array_namespace] version {api_version!r} of the Array API is not there; "
                f"{', '.join(namespace.VERSIONS)} are"
            )
        return namespace

    # -- NumPy --------------------------------------------------------------------------------

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """The values as NumPy's functions take them: in place where the host sees the memory.

        Copied with `copy`, or where `dtype` is another, the device has memory of its own, or the
        tensor requires gradients. Raises ArgumentError if `copy` is False and one is needed.
        """
        import numpy as np

        array, copied = in_place(self)
        if self._requires_grad is True and not copied:
            array, copied = array.copy(), True
        if dtype is not None and np.dtype(dtype) != array.dtype:
            array, copied = array.astype(dtype), True
        if copied and copy is False:
            raise ArgumentError(
                f"[array] a {self.dtype.name} tensor on {self.device} cannot be an array"
                f"{'' if dtype is None else f' of {np.dtype(dtype)}'} without a copy"
            )
        return array.copy() if copy and not copied else array

    def __array_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: Sequence[object],
        kwargs: dict[str, object],
    ) -> object:
        """NumPy's functions see arrays: many would call methods of ours by NumPy's signatures."""
        named = {key: _as_arrays(item) for key, item in kwargs.items()}
        return function(*map(_as_arrays, args), **named)

    __array_priority__ = 1000  # NumPy arrays on the left leave the operation to us

    @property
    def __array_interface__(self) -> dict[str, object]:
        """NumPy's array interface, version 3: the values, computed, and where they are in memory.

        Strides included, and without a copy. The tensor keeps the memory as long as it lives, even
        if it is given other memory. Raises AttributeError where the host does not see the memory,
        for tensors that require gradients, for dtypes that have no type string (bfloat16, fp8), and
        where values cannot be read.
        """
        return array_interface(self)

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol, which Python asks for from 3.12 on: `memoryview(tensor)`.

        Raises ExchangeError (a BufferError) where the memory cannot be shared, or not as asked.
        """
        array, copied = in_place(self)
        if copied or self._requires_grad is True:
            raise ExchangeError(
                f"[buffer] a tensor on {self.device} that requires gradients, or is not in memory "
                "that the host sees, has no buffer: use .numpy()"
            )
        if flags & _WRITABLE and not array.flags.writeable:
            raise ExchangeError("[buffer] the tensor's memory is somebody else's and read-only")
        try:
            return memoryview(array)  # pyright: ignore[reportArgumentType]
        except ValueError as error:
            raise ExchangeError(
                f"[buffer] the buffer protocol has no name for {self.dtype.name}: use .numpy()"
            ) from error


def _as_arrays(value: object) -> object:
    """`value` with arrays for tensors, inside of lists, tuples and dicts, too."""
    if isinstance(value, Interop):
        return value.__array__()
    if type(value) is list:
        return list(map(_as_arrays, value))
    if type(value) is tuple:
        return tuple(map(_as_arrays, value))
    if type(value) is dict:
        return {key: _as_arrays(item) for key, item in value.items()}
    return value


_WRITABLE = 1  # PyBUF_WRITABLE


_UNOWNED = (
    "[from_blob] nothing keeps this memory alive: pass owner= (kept as long as it is needed) or "
    "deleter= (called once it is not)"
)


def _checked_sizes(shape: object) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        found = tuple(whole(cast("SupportsIndex", size)) for size in sizes)
    except TypeError:
        found = (-1,)
    if any(size < 0 for size in found):
        raise ShapeError(f"[from_blob] sizes must be whole numbers of 0 or more: {shape}")
    return found


def _pitch_of(image: ImageDType, sizes: tuple[int, ...], strides: Sequence[int]) -> int | None:
    """How many bytes the lines of an image are apart; None where strides do not say it.

    Raises ShapeError for strides that are of no lines of whole texels.
    """
    if _is_row_major(sizes, strides) and len(sizes) != 3:
        return None
    height, width = image.image_shape
    if sizes != (height, width, 4) or not _is_row_major(sizes[1:], strides[1:]):
        raise ShapeError(
            f"[from_blob] strides {tuple(strides)} of shape {sizes} are no lines of texels: "
            f"{image!r} has shape ({height}, {width}, 4) and strides (pitch, 4, 1) in elements"
        )
    return strides[0] * image.itemsize if height > 1 else None


def _is_row_major(sizes: tuple[int, ...], strides: Sequence[int]) -> bool:
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True
