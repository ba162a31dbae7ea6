"""Numbers as unsigned integers of the same order: what is sorted, and where extremes are found.

keys_of(node)                    float32 -> uint32: bits with the sign turned, -0 as 0,
                                 any NaN above all numbers
place_of_extreme(node, Op.MAX, 1)    (4, 9) -> (4, 1) int32
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from ..ir.args import ReduceArg
from ..ir.key_value import joined
from ..ir.node import Node
from ..ir.op import Op
from ..transforms.shapes import constant, iota_along
from .types import Extent

__all__ = ["MOST_BITS", "MOST_PLACES", "keys_of", "place_dtype", "place_of_extreme"]

MOST_BITS = 32  # of numbers whose key and place are one integer together
MOST_PLACES = 1 << 32
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

    For numbers of at most MOST_BITS: one reduction, of keys with their places below them. Equal
    keys are decided by the places, counted from the end for MAX.
    """
    keys, size = keys_of(node), node.shape[axis]
    places = iota_along(node.shape, axis, dtypes.uint32)
    if op is Op.MAX:
        places = constant(dtypes.uint32, size - 1, node.shape) - places
    elif node.dtype.is_float:  # NaN is above all numbers
        keys = keys.eq(keys.dtype.max).where(0, keys)
    both = joined(keys, places)
    found = Node(Op.REDUCE, both.dtype, (both,), ReduceArg(op, (axis,))).cast(dtypes.uint32)
    place = found.cast(place_dtype(size))
    return size - 1 - place if op is Op.MAX else place
