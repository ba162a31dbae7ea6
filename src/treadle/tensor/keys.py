"""What decides the order of elements: keys that are sorted, and where extremes are found.

keys_of(node)                    float32 -> uint32: bits with the sign turned, -0 as 0,
                                 any NaN above all numbers
place_of_extreme(node, Op.MAX, 1)    (4, 9) -> (4, 1) int32
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from ..ir.args import ReduceArg
from ..ir.node import Node
from ..ir.op import Op
from .types import Extent

__all__ = ["keys_of", "place_dtype", "place_of_extreme"]

_UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
_INFINITY = {
    dtypes.float16: 0x7C00, dtypes.bfloat16: 0x7F80, dtypes.float32: 0xFF << 23,
    dtypes.float64: 0x7FF << 52,
}  # fmt: skip


def keys_of(node: Node) -> Node:
    """Unsigned integers in the order of the elements, which are real."""
    node = node.cast(dtypes.uint8) if node.dtype.is_bool else node
    if node.dtype.is_float and node.dtype.bits == 8:
        node = node.cast(dtypes.float16)
    dtype = node.dtype
    if dtype.is_unsigned:
        return node
    bits, sign = node.bitcast(_UNSIGNED[dtype.bits]), 1 << (dtype.bits - 1)
    if not dtype.is_float:
        return bits ^ sign
    magnitude = bits & (sign - 1)
    key = magnitude.eq(0).where(sign, (bits < sign).where(bits ^ sign, bits ^ bits.dtype.max))
    is_nan = bits.like(_INFINITY[dtype]) < magnitude
    return is_nan.where(bits.dtype.max, key)


def place_dtype(size: Extent) -> DType:
    """The type of the places along an axis: int32, or int64 on one that is longer."""
    return dtypes.int64 if isinstance(size, int) and size - 1 > dtypes.int32.max else dtypes.int32


def place_of_extreme(node: Node, op: Op, axis: int) -> Node:
    """The places of the first MAX or MIN along `axis`, a NaN before all; the axis is kept.

    Bools and narrow floats are compared as wider numbers, which are in the same order.
    """
    if node.dtype.is_bool:
        node = node.cast(dtypes.uint8)
    elif node.dtype.is_float and node.dtype.bits < 32:
        node = node.cast(dtypes.float32)
    kind = place_dtype(node.shape[axis])
    return Node(Op.REDUCE, kind, (node,), ReduceArg(op, (axis,), is_place=True))
