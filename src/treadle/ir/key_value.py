"""A key and an index in one unsigned integer, so that one reduction finds both.

    joined(key, place)   (cast(key) << 32) | cast(place), uint64
    split(node)          (key, place) again, None for what is no such number
    is_better(MAX, (key, place), (best, held), False)
                         best < key or (best == key and held < place)

The larger key has the larger number; equal keys are decided by their places. Where such numbers are
compared, nobody needs more than the two halves: see lower/argmax_registers.py and
optimize/column_reduction.py. Where places go on with the steps of a loop, the first of equal keys
is the one that is there.
"""

from __future__ import annotations

from ..dtype import dtypes
from .node import Node, alu
from .op import Op

__all__ = ["goes_on", "is_better", "joined", "key_of", "place_of", "split", "wide_parts"]

HALF = 32  # bits


def joined(key: Node, place: Node) -> Node:
    """`key` above `place`, unsigned integers of at most HALF bits, or vectors of as many lanes."""
    wide = dtypes.uint64.vec(key.dtype.count)
    return (key.cast(wide) << HALF) | place.cast(wide)


def key_of(number: Node) -> Node:
    """The key in a number that was computed, as uint32."""
    return (number >> HALF).cast(dtypes.uint32)


def place_of(number: Node) -> Node:
    """The place in a number that was computed, as uint32."""
    return number.cast(dtypes.uint32)


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


def is_better(op: Op, one: tuple[Node, Node], held: tuple[Node, Node], in_order: bool) -> Node:
    """Whether a key and its place replace those that are `held`.

    `in_order`: they come later, and later places are worse.
    """
    (key, place), (best, best_place) = one, held
    better = _is_only_extreme(op, key, best)
    if in_order:
        return better
    is_equal = alu(Op.CMPEQ, key, best)
    return better | (is_equal & _is_only_extreme(op, place, best_place))


def _is_only_extreme(op: Op, one: Node, other: Node) -> Node:
    return alu(Op.CMPLT, other, one) if op is Op.MAX else alu(Op.CMPLT, one, other)


def goes_on(place: Node, op: Op, loop: Node) -> bool:
    """Whether later steps of `loop` have worse places: smaller for MAX, larger for MIN."""
    while place.op is Op.BROADCAST:
        (place,) = place.src
    if op is Op.MAX:
        return place.op is Op.SUB and not _uses(place.src[0], loop) and _grows(place.src[1], loop)
    return _grows(place, loop)


def _grows(node: Node, loop: Node) -> bool:
    """Whether a number depends on `loop` and gets larger with each step; it never overflows."""
    if node is loop:
        return True
    used = [s for s in node.src if _uses(s, loop)]
    if node.op in (Op.CAST, Op.BROADCAST):
        return all(_grows(s, loop) for s in node.src)
    if node.op is Op.ADD:
        return bool(used) and all(_grows(s, loop) for s in used)
    if node.op is Op.MUL:
        factor = node.src[1].src[0] if node.src[1].op is Op.BROADCAST else node.src[1]
        return factor.op is Op.CONST and factor.arg > 0 and _grows(node.src[0], loop)
    return False


def _uses(node: Node, loop: Node) -> bool:
    return loop in node.toposort()


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
