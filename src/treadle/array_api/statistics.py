"""Many elements to one, running totals, differences.

Sums and products of integers narrower than `int32` are `int32`, of unsigned ones `uint32`.
"""

from __future__ import annotations

from ..dtype import sum_acc_dtype
from ..explained import explain_all
from ..tensor import Tensor
from ..tensor.types import DTypeLike
from .signatures import check_tensor

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std",
    "sum", "var",
]  # fmt: skip

Axis = int | tuple[int, ...] | None


def sum(
    x: Tensor, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The sum over some axes, or all; they vanish, or stay with size 1 for `keepdims`.

    Integers give at least int32 or uint32; `dtype` converts first. Raises IndexOutOfRange.
    """
    return check_tensor("sum", x).sum(axis, keepdims, dtype)


def prod(
    x: Tensor, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The product over some axes, or all; they vanish, or stay with size 1 for `keepdims`.

    Integers give at least int32 or uint32, unless a `dtype` is given. Raises IndexOutOfRange.
    """
    return check_tensor("prod", x).prod(axis, keepdims, _widened(x, dtype))


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over some axes, or all, in its dtype; NaN if there is one.

    The axes vanish, or stay with size 1 for `keepdims`. Raises ShapeError on no elements,
    IndexOutOfRange, and DTypeError for complex numbers.
    """
    return check_tensor("max", x).max(axis, keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over some axes, or all, in its dtype; NaN if there is one.

    The axes vanish, or stay with size 1 for `keepdims`. Raises ShapeError on no elements,
    IndexOutOfRange, and DTypeError for complex numbers.
    """
    return check_tensor("min", x).min(axis, keepdims)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The average over some axes, or all; they vanish, or stay with size 1 for `keepdims`.

    Integers give floats. Raises IndexOutOfRange.
    """
    return check_tensor("mean", x).mean(axis, keepdims)


def var(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance over some axes, or all, divided by the number of elements less `correction`.

    The axes vanish, or stay with size 1 for `keepdims`. Integers give floats, complex numbers real
    ones. Raises IndexOutOfRange.
    """
    return check_tensor("var", x).var(axis, keepdims, correction)


def std(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The root of `var`, over some axes, or all.

    The axes vanish, or stay with size 1 for `keepdims`. Integers give floats, complex numbers real
    ones. Raises IndexOutOfRange.
    """
    return check_tensor("std", x).std(axis, keepdims, correction)


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether no element is 0, over some axes, or all, as bool.

    The axes vanish, or stay with size 1 for `keepdims`. Raises IndexOutOfRange.
    """
    return check_tensor("all", x).all(axis, keepdims)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether some element is not 0, over some axes, or all, as bool.

    The axes vanish, or stay with size 1 for `keepdims`. Raises IndexOutOfRange.
    """
    return check_tensor("any", x).any(axis, keepdims)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Running sums along an axis, which a vector need not name, in this shape.

    `include_initial` starts at 0, with one element more. Integers give at least int32 or uint32,
    unless a `dtype` is given. Raises ShapeError, IndexOutOfRange.
    """
    return check_tensor("cumulative_sum", x).cumulative_sum(axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Running products along an axis, which a vector need not name, in this shape.

    `include_initial` starts at 1, with one element more. Integers give at least int32 or uint32,
    unless a `dtype` is given. Raises ShapeError, IndexOutOfRange.
    """
    x = check_tensor("cumulative_prod", x)
    return x.cumulative_prod(axis, _widened(x, dtype), include_initial)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Each element less the one before it on an axis, `n` times over: `n` elements less.

    The dtype stays. `prepend` and `append` are joined on first. Raises ShapeError, IndexOutOfRange.
    """
    return check_tensor("diff", x).diff(n, axis, prepend, append)


def _widened(x: Tensor, dtype: DTypeLike | None) -> DTypeLike | None:
    """The dtype of sums for products of integers, too, where none is given."""
    return dtype if dtype is not None or x.dtype.is_inexact else sum_acc_dtype(x.dtype)


explain_all(globals())
