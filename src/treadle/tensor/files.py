"""Files as memory of tensors: `Tensor(pathlib.Path("net.bin"))` and `device="disk:/tmp/x"`.

    Tensor(Path("net.bin"))                                 -> uint8, read as it is computed with
    Tensor.empty(4, device="disk:/tmp/x")                   -> what the file holds; made if absent
    x.to("disk:/tmp/x")                                     -> x, written there at once

A file is mapped into the host's memory, so its tensors are on the CPU, where kernels read and write
it in place. What is assigned to a tensor of "disk:" is written to the file when it is realized; a
tensor of a path never changes it.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import TYPE_CHECKING, TypeVar

from ..dtype import DType, ImageDType, dtypes
from ..errors import DeviceError, ShapeError, UserError
from ..ir.node import Node
from .basis.state import State
from .foreign import adopted, wrapped
from .images import check_image
from .inplace import over_memory
from .shapes import expand, reshape

if TYPE_CHECKING:
    import numpy as np

__all__ = ["disk_path", "mapped_file", "of_disk", "of_path"]

_PREFIX = "disk:"

T = TypeVar("T", bound=State)


def disk_path(device: object) -> str | None:
    """The path that a device such as "disk:/tmp/x" names, or None for another device."""
    if not isinstance(device, str) or not device.lower().startswith(_PREFIX):
        return None
    path = device[len(_PREFIX) :]
    if not path:
        raise DeviceError('[device] "disk:" needs a path, as in "disk:/tmp/x"')
    return path


def mapped_file(path: str | bytes | os.PathLike[str]) -> np.ndarray:
    """The bytes of a file as a uint8 vector, mapped copy-on-write. Raises OSError."""
    import numpy as np

    with open(os.fspath(path), "rb") as file:  # no number: open would take it for a descriptor
        if os.fstat(file.fileno()).st_size == 0:  # an empty file cannot be mapped
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


def of_path(kind: type[T], path: os.PathLike[str], dtype: DType | None) -> T:
    """A tensor of the class `kind` over a file's bytes, or over elements of `dtype`.

    Raises UserError for a file that cannot be read, ShapeError where its size does not fit.
    """
    try:
        data = mapped_file(path)
    except OSError as error:
        raise UserError(f"[Tensor] {os.fspath(path)} cannot be read: {error.strerror}") from error
    element = dtype or dtypes.uint8
    if data.size % element.itemsize:
        raise ShapeError(
            f"[Tensor] {os.fspath(path)} has {data.size} bytes, no multiple of the "
            f"{element.itemsize} of {element.name}"
        )
    return _over(kind, data, (data.size // element.itemsize,), element)


def of_disk(
    kind: type[T], path: str, shape: tuple[int, ...], dtype: DType, values: np.ndarray | None = None
) -> T:
    """A tensor over a file, which is made or grows where it is too small; `values`, an array, are
    written to it.

    Raises UserError for a file that cannot be written.
    """
    import numpy as np

    nbytes = math.prod(shape) * dtype.itemsize
    try:
        with open(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)), "r+b") as f:
            if os.fstat(f.fileno()).st_size < nbytes:
                f.truncate(nbytes)
            memory = mmap.mmap(f.fileno(), nbytes) if nbytes else b""
    except OSError as error:
        raise UserError(f"[disk] {path} cannot be written: {error.strerror}") from error
    data = np.frombuffer(memory, np.uint8)
    if values is not None and nbytes:
        data[:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return _over(kind, data, shape, dtype)


def _over(kind: type[T], data: np.ndarray, shape: tuple[int, ...], dtype: DType) -> T:
    if not data.size:
        return kind._of(expand(Node.const(dtype, 0), shape), "CPU")
    count = math.prod(shape)
    if isinstance(dtype, ImageDType):
        check_image("from_blob", dtype, "CPU", count)
    buffer = wrapped("CPU", data.ctypes.data, count * dtype.itemsize, dtype.itemsize, None)
    node = adopted(buffer, dtype, count, "CPU", data, None, False, None)
    return over_memory(kind._of(reshape(node, shape), "CPU"))
