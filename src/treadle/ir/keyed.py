"""A key and a place in one unsigned integer, so that one reduction finds both.

    joined(key, place)   (cast(key) << 32) | cast(place), uint64
    split(node)          (key, place) again, None for what is no such number

The larger key has the larger number; equal keys are decided by their places. Where such numbers are
compared, nobody needs more than the two halves: see lower/registers.py.
"""

from __future__ import annotations

from ..dtype import dtypes
from .node import Node, alu
from .op import Op

__all__ = ["joined", "split", "wide_parts"]

HALF = 32  # bits


def joined(key: Node, place: Node) -> Node:
    """`key` above `place`, unsigned integers of at most HALF bits, or vectors of as many lanes."""
    wide = dtypes.uint64.vec(key.dtype.count)
    return (key.cast(wide) << HALF) | place.cast(wide)


def split(node: Node) -> tuple[Node, Node] | None:
    """The key and the place of a number, or of many in a vector, as uint32."""
    if node.op is Op.WHERE:
        condition, inside, outside = node.src
        halves, constant = split(inside), _constant(outside)
        if halves is None or constant is None:
            return None
        others = (constant >> HALF, constant & ((1 << HALF) - 1))
        key, place = (
            alu(Op.WHERE, condition, half, half.like(other))
            for half, other in zip(halves, others, strict=True)
        )
        return key, place
    if node.op is not Op.OR or node.dtype.scalar is not dtypes.uint64:
        return None
    shifted, low = node.src
    if shifted.op is not Op.SHL or _constant(shifted.src[1]) != HALF:
        return None
    key, place = _narrow(shifted.src[0]), _narrow(low)
    return None if key is None or place is None else (key, place)


def wide_parts(value: Node) -> list[Node]:
    """What is wider than the halves of such a number in the graph of it."""
    if split(value) is None:
        return []
    if value.op is Op.WHERE:
        return [value, value.src[2], *wide_parts(value.src[1])]
    shifted, low = value.src
    return [value, shifted, *shifted.src, low]


def _narrow(node: Node) -> Node | None:
    """What a half was before it became wide, as uint32."""
    if node.op not in (Op.BROADCAST, Op.CAST):
        return None
    (source,) = node.src
    if node.op is Op.BROADCAST:
        one = _narrow(source)
        wide = dtypes.uint32.vec(node.dtype.count)
        return None if one is None else Node(Op.BROADCAST, wide, (one,))
    if not source.dtype.scalar.is_unsigned or source.dtype.bits > HALF:
        return None
    return source.cast(dtypes.uint32.vec(source.dtype.count))


def _constant(node: Node) -> int | None:
    while node.op is Op.BROADCAST:
        (node,) = node.src
    return node.arg if node.op is Op.CONST else None
