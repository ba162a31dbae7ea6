"""What becomes of a loss of each element: itself, its mean or its sum."""

from __future__ import annotations

from typing import TypeVar

from ...errors import ArgumentError, DTypeError
from ..basis import Basis

__all__ = ["reduced"]

T = TypeVar("T", bound=Basis)

REDUCTIONS = ("none", "mean", "sum")


def reduced(x: T, reduction: str) -> T:
    """A loss of each element as `reduction` says. Raises ArgumentError for an unknown one."""
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"[loss] reduction is one of {REDUCTIONS}, not {reduction!r}")
    if x.dtype.is_complex:
        raise DTypeError(f"[loss] a loss is a real number, not {x.dtype.name}: give the parts")
    return {"none": lambda: x, "mean": x.mean, "sum": x.sum}[reduction]()
