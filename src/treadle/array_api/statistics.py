"""Many elements to one, running totals, differences.

Sums and products of integers narrower than `int32` are `int32`, of unsigned ones `uint32`.
"""

from __future__ import annotations

from typing import Any

from ..dtype import sum_acc_dtype
from ..explained import explain_all
from ..tensor import Tensor
from .signatures import check_tensor

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std",
    "sum", "var",
]  # fmt: skip

Axis = int | tuple[int, ...] | None


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over some axes, or all."""
    return check_tensor("sum", x).sum(axis, keepdims, dtype)


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over some axes, or all."""
    return check_tensor("prod", x).prod(axis, keepdims, _widened(x, dtype))


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element; NaN if there is one. Raises ShapeError on no elements."""
    return check_tensor("max", x).max(axis, keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN if there is one. Raises ShapeError on no elements."""
    return check_tensor("min", x).min(axis, keepdims)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The average."""
    return check_tensor("mean", x).mean(axis, keepdims)


def var(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance, divided by the number of elements less `correction`."""
    return check_tensor("var", x).var(axis, keepdims, correction)


def std(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The root of `var`."""
    return check_tensor("std", x).std(axis, keepdims, correction)


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether no element is 0."""
    return check_tensor("all", x).all(axis, keepdims)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether some element is not 0."""
    return check_tensor("any", x).any(axis, keepdims)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running sums along an axis, which a vector need not name; `include_initial` starts at 0."""
    return check_tensor("cumulative_sum", x).cumulative_sum(axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running products along an axis, as `cumulative_sum`; `include_initial` starts at 1."""
    x = check_tensor("cumulative_prod", x)
    return x.cumulative_prod(axis, _widened(x, dtype), include_initial)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Tensor:
    """Each element less the one before it, `n` times over."""
    return check_tensor("diff", x).diff(n, axis, prepend, append)


def _widened(x: Tensor, dtype: Any) -> Any:
    """The dtype of sums for products of integers, too, where none is given."""
    return dtype if dtype is not None or x.dtype.is_inexact else sum_acc_dtype(x.dtype)


explain_all(globals())
