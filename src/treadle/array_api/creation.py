"""New tensors, from values, from other arrays, and from memory of other libraries."""

from __future__ import annotations

from typing import Any, cast

from ..dtype import to_dtype
from ..errors import CopyError
from ..explained import explain_all
from ..tensor import Tensor
from ..tensor.operands import Operand, is_scalar
from ..tensor.types import DTypeLike
from .signatures import check_tensor

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def asarray(
    obj: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """`obj` as a tensor: a tensor, a scalar, nested lists of them, an array, bytes.

    In its shape and dtype, numbers as int32, float32 or complex64, unless `dtype` is given. `copy`
    True gives it memory of its own, None only where dtype, device or `obj` ask for that. Arrays of
    other libraries are copied, since a lazy result would see what becomes of them later:
    `copy=False` shares the memory of those that export DLPack. Raises CopyError, a ValueError,
    where that takes a copy.
    """
    if isinstance(obj, Tensor):
        found = _converted(obj, dtype, device)
        if copy is False and found is not obj:
            raise CopyError(
                f"[asarray] a {obj.dtype.name} tensor on {obj.device} cannot become "
                f"{found.dtype.name} on {found.device} without a copy"
            )
        return obj.clone() if copy and found is obj else found
    if is_scalar(obj) and hasattr(obj, "dtype"):
        obj = cast(
            "Any", obj
        ).__array__()  # NumPy's float64 is a Python float, and has a dtype nevertheless
    if copy is not False:
        return Tensor(obj, device=device, dtype=dtype)
    if not hasattr(obj, "__dlpack__"):
        raise CopyError(f"[asarray] a {type(obj).__name__} has no memory to share: allow a copy")
    return asarray(from_dlpack(obj, device=device, copy=False), dtype=dtype, copy=False)


def _converted(x: Tensor, dtype: DTypeLike | None, device: str | None) -> Tensor:
    moved = x if device is None else x.to(device)
    return moved if dtype is None or to_dtype(dtype) is moved.dtype else moved.cast(dtype)


def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """The memory of another library's array, shared where it can be, in its shape and dtype.

    Raises ExchangeError, a BufferError; see `Tensor.from_dlpack`.
    """
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    return Tensor.from_dlpack(x, device=device, copy=copy)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """A vector: start, start + step, ... before `stop`; with one number, 0, 1, ... before that one.

    int32, or float32 if any of them is a float, unless a dtype is given. Raises ShapeError for a
    step of 0, DTypeError for integers that do not fit.
    """
    return Tensor.arange(start, stop, step, device=device, dtype=dtype)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: DTypeLike | None = None,
    device: str | None = None, endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """`num` numbers evenly apart, (num,), from `start` to `stop`, which is left out without
    `endpoint`.

    float32 unless a dtype is given. Raises ShapeError.
    """
    if endpoint:
        return Tensor.linspace(start, stop, num, device=device, dtype=dtype)
    return Tensor.linspace(start, stop, num + 1, device=device, dtype=dtype)[:num]


def full(
    shape: int | tuple[int, ...],
    fill_value: Operand,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """`fill_value` everywhere in `shape`; in the default dtype of its kind, unless one is given.

    bool, int32, float32 or complex64. Raises ShapeError, DTypeError for an integer that does not
    fit.
    """
    return Tensor.full(shape, fill_value, device=device, dtype=dtype)


def zeros(
    shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """0 everywhere in `shape`, float32 unless a dtype is given. Raises ShapeError."""
    return Tensor.zeros(shape, dtype=dtype, device=device)


def ones(
    shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """1 everywhere in `shape`, float32 unless a dtype is given. Raises ShapeError."""
    return Tensor.ones(shape, dtype=dtype, device=device)


def empty(
    shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Values that are not defined, in `shape`, float32 unless another is given.

    Raises ShapeError.
    """
    return Tensor.empty(shape, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Operand, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """`fill_value` in the shape of `x`, and in its dtype and on its device unless given.

    Raises DTypeError for an integer that does not fit.
    """
    return check_tensor("full_like", x).full_like(fill_value, dtype=dtype, device=device)


def zeros_like(
    x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """0 in the shape of `x`, and in its dtype and on its device unless given."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """1 in the shape of `x`, and in its dtype and on its device unless given."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(
    x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Values that are not defined, in the shape and dtype of `x` and on its device unless given."""
    return full_like(x, 0, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """(n_rows, n_cols) with ones on the diagonal `k`, counted upwards from the main one.

    float32 unless a dtype is given. Raises ShapeError.
    """
    return Tensor.eye(n_rows, n_cols, diagonal=k, device=device, dtype=dtype)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The last two axes' lower triangle, up to the diagonal `k`; 0 elsewhere; shape and dtype stay.

    Raises ShapeError for less than two axes.
    """
    return check_tensor("tril", x).tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The last two axes' upper triangle, from the diagonal `k` on; 0 elsewhere; shape and dtype
    stay.

    Raises ShapeError for less than two axes.
    """
    return check_tensor("triu", x).triu(k)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Each vector along an axis of its own, all expanded to one grid, in their dtypes.

    "xy" swaps the first two axes. Raises ShapeError for another `indexing`.
    """
    if not arrays:
        return []
    first, *others = (check_tensor("meshgrid", x) for x in arrays)
    return list(first.meshgrid(*others, indexing=indexing))


explain_all(globals())
