"""Nodes of constants that several groups of methods need.

identity(2, 3, dtypes.float32)             [[1, 0, 0], [0, 1, 0]]
evenly_spaced(0.0, 1.0, 3, dtypes.float32) [0, 0.5, 1]
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from ..errors import DTypeError, ShapeError
from ..ir.node import Node
from ..ir.op import Op
from .shapes import expand, reshape

__all__ = ["evenly_spaced", "identity"]


def identity(rows: int, columns: int, dtype: DType, diagonal: int = 0) -> Node:
    """(rows, columns) with ones on a diagonal, counted upwards from the main one."""
    shape = (rows, columns)
    down = expand(reshape(Node(Op.IOTA, dtypes.int32, (), rows), (rows, 1)), shape)
    across = expand(Node(Op.IOTA, dtypes.int32, (), columns), shape)
    return down.eq(across if not diagonal else across - diagonal).cast(dtype)


def evenly_spaced(start: float, stop: float, steps: int, dtype: DType) -> Node:
    """`steps` numbers from `start` to `stop` inclusive, (steps,); integers are cut off.

    Raises ShapeError, and DTypeError for bools.
    """
    if not isinstance(steps, int) or steps < 0:
        raise ShapeError(f"[linspace] steps is a whole number of 0 or more, not {steps!r}")
    if dtype.is_bool:
        raise DTypeError("[linspace] gives numbers, not bool; compare them with a threshold")
    wide = dtype.real if dtype.is_inexact and dtype.real.bits >= 32 else dtypes.float32
    place = Node(Op.IOTA, dtypes.int32, (), steps)
    gap = (stop - start) / (steps - 1) if steps > 1 else 0.0
    # counted from the nearer end, so that both ends are exact
    up = place.cast(wide) * gap + float(start)
    down = (place - (steps - 1)).cast(wide) * gap + float(stop)
    return (place < (steps + 1) // 2).where(up, down).cast(dtype)
