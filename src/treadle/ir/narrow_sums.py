"""Sums of small integers that begin in a narrower type than they end in.

    int32(a) + int32(b) + int32(c) + int32(d)     of bytes
      ->  int32(int16(a) + int16(b) + int16(c) + int16(d))

Nothing overflows, so both are equal, in any order. A vector has twice as many numbers of the
narrower type, and to widen one number takes as long as to add it.
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from .node import Node
from .op import Op
from .views import Reduce, operand
from .widths import widest_itemsize

__all__ = ["added_in_part", "type_of_parts"]

_PART = dtypes.int16
_MOST = _PART.max // 255  # bytes of one sign, or of both


def added_in_part(reduce: Node) -> Node | None:
    """The bytes that a REDUCE adds as wider integers; None for any other."""
    if reduce.op is not Op.REDUCE or reduce.arg.op is not Op.ADD:
        return None
    value = Reduce.of(reduce).value
    is_wide = value.op is Op.CAST and value.dtype.is_int and value.dtype.itemsize > _PART.itemsize
    if not is_wide or not _is_byte(operand(value).dtype):
        return None
    is_narrow = widest_itemsize(operand(value).toposort()) <= _PART.itemsize
    return operand(value) if is_narrow else None


def type_of_parts(reduce: Node, count: int) -> DType | None:
    """What `count` numbers that a REDUCE adds are summed in first; None if as they are."""
    return _PART if 1 < count <= _MOST and added_in_part(reduce) is not None else None


def _is_byte(dtype: DType) -> bool:
    return dtype.itemsize == 1 and (dtype.is_int or dtype is dtypes.bool)
