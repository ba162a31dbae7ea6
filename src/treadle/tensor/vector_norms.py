"""Norms of lines, and distances between them.

vector_norm(x, 2, -1)          (.., n) -> (..)
pairwise_distance(x, y)
"""

from __future__ import annotations

import math
from typing import TypeVar

from ..dtype import to_dtype
from ..errors import DTypeError, ShapeError
from .basis import Basis
from .operands import Operand
from .shapes import resolve_axes
from .types import Axes, DTypeLike

__all__ = ["inexact", "pairwise_distance", "vector_norm"]

T = TypeVar("T", bound=Basis)


def vector_norm(
    given: T, ord: float = 2, dim: Axes = None, keepdim: bool = False,
    dtype: DTypeLike | None = None,
) -> T:  # fmt: skip
    """(sum of |x| ** ord) ** (1 / ord) over axes, over all if `dim` is None.

    Raises DTypeError, IndexOutOfRange, ShapeError for an `ord` that is no number.
    """
    x = inexact("vector_norm", given, dtype)
    axes = resolve_axes("vector_norm", dim, given.ndim)
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise ShapeError(f"[vector_norm] ord is a number, not {ord!r}")
    size = x.abs() if x.dtype.is_complex else x
    # powers of halves soon overflow
    return _of_order(size._wide(), ord, axes, keepdim).cast(size.dtype)


def pairwise_distance(
    x: T, other: Operand, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> T:
    """The p-norm along the last axis of the difference plus `eps`: (.., n) to (..).

    Raises ShapeError, and DTypeError for bools.
    """
    return vector_norm(x.sub(other).add(eps), p, -1, keepdim)


def inexact(name: str, given: T, dtype: DTypeLike | None) -> T:
    """A tensor, or what it is as `dtype`. Raises DTypeError for what a norm does not take."""
    x = given if dtype is None else given.cast(to_dtype(dtype))
    if not x.dtype.is_inexact:
        raise DTypeError(
            f"[{name}] takes floats or complex numbers, not {x.dtype.name}; cast first, or "
            "give dtype"
        )
    return x


def _of_order(x: T, ord: float, axes: tuple[int, ...], keepdim: bool) -> T:
    if ord in (math.inf, -math.inf):
        size = x.abs()
        return size.max(axes, keepdim) if ord > 0 else size.min(axes, keepdim)
    if ord == 0:
        return x.ne(0).cast(x.dtype).sum(axes, keepdim)
    if ord == 1:
        return x.abs().sum(axes, keepdim)
    if ord == 2:
        return _root(x.square().sum(axes, keepdim))
    return _of_power(x, ord, axes, keepdim)


def _root(total: T) -> T:
    """The square root, with the gradient 0 at 0."""
    positive = total.ne(0)
    return positive.where(positive.where(total, 1).sqrt(), 0)


def _of_power(x: T, ord: float, axes: tuple[int, ...], keepdim: bool) -> T:
    """Of an order that has no formula of its own; with the gradient 0 at elements of 0.

    There the powers have infinite slopes, which must not reach a product with 0.
    """
    there = x.ne(0)
    powers = there.where(x, 1).abs().pow(ord)
    total = there.where(powers, 0 if ord > 0 else math.inf).sum(axes, keepdim)
    if ord < 0:
        return total.pow(1.0 / ord)
    positive = total.ne(0)
    return positive.where(positive.where(total, 1).pow(1.0 / ord), 0)
