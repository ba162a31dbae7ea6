"""Bytes of files as tensors, in place.

    data = mapped("net.bin")                                # uint8 array: nothing is read yet
    tensor_of(data[64:128], dtypes.float32, (4, 4))         # reads the file when computed with

Files are mapped copy-on-write: tensors may be assigned to, and the file never changes. The file
must not be cut off while its tensors are in use, as with every mapping.
"""

from __future__ import annotations

import io
import math
import os
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from ..dtype import DType, dtypes
from ..errors import DTypeError, ShapeError, UserError
from ..explained import explained
from ..kinds import SOURCE
from ..tensor import Tensor
from ..tensor.files import mapped_file

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Source", "TensorIO", "check_shape", "label_of", "mapped", "reader_of", "tensor_of"]

Source: TypeAlias = Annotated["str | bytes | os.PathLike[str] | Tensor", SOURCE]

_MOST_AXES = 64  # as in NumPy


def mapped(source: Source) -> np.ndarray:
    """The bytes of a path (mapped) or of a uint8 tensor, as a 1-D uint8 array."""
    import numpy as np

    if isinstance(source, Tensor):
        return source.numpy().reshape(-1).view(np.uint8)
    return mapped_file(source)


def label_of(source: Source) -> str:
    """What messages call the source."""
    return "the tensor" if isinstance(source, Tensor) else os.fsdecode(source)


def tensor_of(data: np.ndarray, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """The bytes `data`, exactly as many as needed, as a tensor on the default device.

    On the CPU it is the memory of `data` itself, unless that is not aligned to its elements; other
    devices get a copy when it is computed. Raises UserError for a bool that is neither 0 nor 1, and
    for a shape that `check_shape` refuses.
    """
    check_shape(shape, dtype)
    if math.prod(shape) == 0:
        return Tensor.zeros(*shape, dtype=dtype)
    if dtype.is_bool and (data > 1).any():
        raise UserError("[io] a tensor of bools holds bytes that are neither 0 nor 1")
    address = data.ctypes.data
    if address % dtype.itemsize:
        data = data.copy()
        address = data.ctypes.data
    blob = Tensor.from_blob(address, shape, dtype, "CPU", nbytes=data.nbytes, owner=data)
    return blob.to(None)


def check_shape(shape: tuple[int, ...], dtype: DType) -> None:
    """Raises UserError for more axes or elements than any tensor can have.

    A size of 0 makes such a tensor fit any file: the other sizes have to be of this world, too.
    """
    if len(shape) > _MOST_AXES:
        raise UserError(f"[io] a tensor has {len(shape)} axes, and {_MOST_AXES} are the most")
    if math.prod(max(size, 1) for size in shape) * dtype.itemsize >= 1 << 63:
        raise UserError(
            f"[io] a tensor has the shape {shape} of {dtype.name}, more than memory can have"
        )


def reader_of(data: np.ndarray) -> io.BufferedReader:
    """Bytes as a file to read from, without a copy of the whole."""
    return io.BufferedReader(_BytesReader(data))


@explained
class TensorIO(io.BufferedReader):
    """The bytes of a uint8 vector as a file to read from: `read`, `readline`, `seek` and others.

    The tensor is computed now. Raises DTypeError for another dtype, ShapeError for another shape,
    ArgumentError for what is no tensor.
    """

    def __init__(self, t: Tensor) -> None:
        if t.dtype is not dtypes.uint8:
            raise DTypeError(f"[TensorIO] reads bytes, not {t.dtype.name}; bitcast to uint8")
        if t.ndim != 1:
            raise ShapeError(f"[TensorIO] reads a vector, not shape {t.shape}; use .flatten()")
        super().__init__(_BytesReader(t.numpy()))


class _BytesReader(io.RawIOBase):
    def __init__(self, data: np.ndarray) -> None:
        self._data, self._at = data.data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._data[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at
