"""Places and order: searching, sorting, sets, and reading by index. Places and counts are int32."""

from __future__ import annotations

from typing import Literal

from ..errors import ShapeError
from ..explained import explain_all
from ..tensor import Tensor
from ..tensor.operands import Operand
from ..tensor.selection.counting import UniqueAll, UniqueCounts, UniqueInverse
from .signatures import check_tensor

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "take",
    "take_along_axis", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest element is along an axis, the first of equals, as int32.

    In the flat tensor if `axis` is None; else the axis vanishes, or stays with size 1 for
    `keepdims`. Raises IndexOutOfRange, and DTypeError for complex numbers.
    """
    return check_tensor("argmax", x).argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest element is along an axis, the first of equals, as int32.

    In the flat tensor if `axis` is None; else the axis vanishes, or stays with size 1 for
    `keepdims`. Raises IndexOutOfRange, and DTypeError for complex numbers.
    """
    return check_tensor("argmin", x).argmin(axis, keepdims)


def count_nonzero(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """How many elements are not 0, over some axes, or all, as int32.

    The axes vanish, or stay with size 1 for `keepdims`. Raises IndexOutOfRange.
    """
    return check_tensor("count_nonzero", x).count_nonzero(axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Where elements are not 0, in row-major order: an int32 vector for each axis, computed now.

    Raises ShapeError for a scalar.
    """
    if not check_tensor("nonzero", x).ndim:
        raise ShapeError("[nonzero] a tensor of shape () has no axes to have places on")
    return x.nonzero(as_tuple=True)


def searchsorted(
    x1: Tensor,
    x2: Operand,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Where the elements of `x2` would be inserted into the ascending vector `x1`: int32 in its
    shape.

    "left" is before equal elements, "right" behind them. Raises ShapeError, and DTypeError for
    complex numbers.
    """
    return check_tensor("searchsorted", x1).searchsorted(x2, side=side, sorter=sorter)


def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """`x1` where the condition holds, else `x2`; either may be a Python scalar.

    All three broadcast, the dtypes of the two promote. Raises ShapeError.
    """
    return check_tensor("where", condition).where(x1, x2)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis; equal ones in theirs, whatever `stable` says.

    Shape and dtype stay. Raises IndexOutOfRange, and DTypeError for complex numbers.
    """
    return check_tensor("sort", x).sort(axis, descending)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The places of the elements in order along an axis, as int32 in this shape; see `sort`.

    Raises IndexOutOfRange, and DTypeError for complex numbers.
    """
    return check_tensor("argsort", x).argsort(axis, descending)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The places `indices` (n,) of an axis, which gets size n and which a vector need not name.

    The dtype stays. Raises ShapeError, IndexOutOfRange, DTypeError for what are no integers.
    """
    if axis is None and check_tensor("take", x).ndim != 1:
        raise ShapeError(f"[take] shape {x.shape} needs an axis")
    return check_tensor("take", x).take(indices, 0 if axis is None else axis)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """For each line along an axis, the elements at the places in a line of `indices`.

    The other axes broadcast; the result has their shape, with the axis of `indices`, in this dtype.
    Raises ShapeError, IndexOutOfRange, DTypeError for what are no integers.
    """
    return check_tensor("take_along_axis", x).take_along_dim(indices, axis)


def unique_all(x: Tensor, /) -> UniqueAll[Tensor]:
    """The distinct elements, their first places, where each element went, and their counts.

    (count,), ascending, in this dtype; (count,), this shape and (count,), all int32. Raises
    DTypeError for complex numbers.
    """
    return check_tensor("unique_all", x).unique_all()


def unique_counts(x: Tensor, /) -> UniqueCounts[Tensor]:
    """The distinct elements (count,), ascending, in their dtype, and how often there is each,
    int32.

    Raises DTypeError for complex numbers.
    """
    return check_tensor("unique_counts", x).unique_counts()


def unique_inverse(x: Tensor, /) -> UniqueInverse[Tensor]:
    """The distinct elements (count,), ascending, in their dtype, and where each element went: int32
    in this shape.

    Raises DTypeError for complex numbers.
    """
    return check_tensor("unique_inverse", x).unique_inverse()


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements of all axes, (count,), ascending, in their dtype.

    Raises DTypeError for complex numbers.
    """
    return check_tensor("unique_values", x).unique_values()


explain_all(globals())
