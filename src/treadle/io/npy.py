"""NumPy's own files: one array (.npy), or several by name (.npz). Pickled objects are refused.

npy_load("x.npy")          -> Tensor, mapped
npz_load("xs.npz")["x"]    -> Tensor
"""

from __future__ import annotations

import contextlib
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..config import settings
from ..dtype import _from_np_dtype
from ..errors import DTypeError, UserError
from ..explained import explained
from ..tensor import Tensor
from .mapped import Source, label_of, mapped, reader_of, tensor_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["npy_load", "npz_load"]

_BROKEN = (
    ValueError, TypeError, EOFError, OverflowError, SyntaxError, RecursionError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError,
)  # fmt: skip


@explained
def npy_load(fn: Source) -> Tensor:
    """The array of a .npy file (a path or a uint8 tensor), mapped; other byte orders are converted.

    Raises UserError for a broken file or one of pickled objects, DTypeError for elements that
    treadle does not have.
    """
    with _named("npy_load", fn):
        return _tensor(mapped(fn))


@explained
def npz_load(fn: Source) -> dict[str, Tensor]:
    """The arrays of a .npz file by name, in their shapes and dtypes, each copied, and decompressed
    where it is compressed: to at most UNPACK_LIMIT MiB in all.

    Raises as `npy_load`.
    """
    with _named("npz_load", fn):
        return _tensors(mapped(fn))


@contextlib.contextmanager
def _named(operation: str, fn: Source) -> Iterator[None]:
    """What is wrong with a file names the operation and the file."""
    try:
        yield
    except DTypeError as error:
        raise DTypeError(f"[{operation}] {label_of(fn)}: {error}") from None
    except (*_BROKEN, UserError) as error:
        raise UserError(f"[{operation}] {label_of(fn)} cannot be read: {error}") from None


def _tensors(data: np.ndarray) -> dict[str, Tensor]:
    import numpy as np

    found: dict[str, Tensor] = {}
    left = settings.UNPACK_LIMIT << 20
    with zipfile.ZipFile(reader_of(data)) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"the array {name} comes twice")
            if member.compress_type != zipfile.ZIP_STORED:
                left -= member.file_size  # which is as much as is ever read
            if left < 0:
                raise UserError(
                    f"its arrays unpack to more than {settings.UNPACK_LIMIT} MiB: if they are "
                    "meant to, set UNPACK_LIMIT to more"
                )
            # an array of its own, since tensors may be assigned to
            content = np.frombuffer(bytearray(archive.read(member)), np.uint8)
            found[name] = _tensor(content)
    return found


def _tensor(data: np.ndarray) -> Tensor:
    """The tensor of a .npy file's bytes."""
    import numpy as np

    file = reader_of(data)
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, stored = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, stored = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"its version is {version}; (1, 0) and (2, 0) are read")
    if stored.hasobject:
        raise ValueError("it holds pickled objects, which are never loaded")
    content, nbytes = data[file.tell() :], math.prod(shape) * stored.itemsize
    if any(size < 0 for size in shape) or len(content) != nbytes:
        raise ValueError(f"shape {shape} of {stored} cannot be {len(content)} bytes")
    try:
        dtype = _from_np_dtype(stored)
    except TypeError as error:
        raise DTypeError(str(error)) from None
    if not stored.isnative:
        content = content.view(stored).astype(stored.newbyteorder("=")).view(np.uint8)
    tensor = tensor_of(content, dtype, shape[::-1] if fortran else shape)
    return tensor.permute(tuple(range(len(shape)))[::-1]) if fortran else tensor
