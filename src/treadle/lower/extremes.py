"""The extreme of keys with their places, in two registers half as wide as both together.

    REDUCE(key << 32 | place, r; MAX)
      ->  UPDATE(place, WHERE(best < key, place', place)), then UPDATE(best, key; MAX)

Where places go on with the steps of the loop, the first of equal keys is the one that is there. In
other orders, and where a guard leaves out steps, equal keys are decided by their places.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.args import RegisterRef
from ..ir.loops import identity
from ..ir.node import Node, alu
from ..ir.op import Op

__all__ = ["updates_of_keyed"]


def updates_of_keyed(
    key: Node, place: Node, op: Op, outer: tuple[Node, ...], loops: tuple[Node, ...], number: int
) -> list[Node]:
    """The UPDATEs of a place and of a key, whose registers have the numbers behind `number`."""
    is_first_best = len(loops) == 1 and _goes_on(place, op, loops[0])
    # A key that is no better than none at all still has a place: the first one.
    first = place.substitute({loops[0]: loops[0].like(0)}) if is_first_best else None
    held = _register(identity(op, place.dtype) if first is None else first, outer, number + 1)
    best = _register(identity(op, key.dtype), outer, number + 2)
    old, old_place = (Node(Op.AFTER, r.dtype, (r, *loops)) for r in (best, held))
    is_better = _better(op, key, old)
    if first is None:
        is_equal = alu(Op.CMPEQ, key, old)
        is_better = is_better | (is_equal & _better(op, place, old_place))
    taken = alu(Op.WHERE, is_better, place, old_place)
    update = Node(Op.UPDATE, dtypes.void, (held, taken, *loops))
    then = Node(Op.AFTER, best.dtype, (best, update))
    return [update, Node(Op.UPDATE, dtypes.void, (then, key, *loops), op)]


def _register(first: Node, outer: tuple[Node, ...], number: int) -> Node:
    return Node(Op.REGISTER, first.dtype, (first, *outer), RegisterRef(number))


def _better(op: Op, one: Node, other: Node) -> Node:
    """Whether `one` is the only extreme of both."""
    return alu(Op.CMPLT, other, one) if op is Op.MAX else alu(Op.CMPLT, one, other)


def _goes_on(place: Node, op: Op, loop: Node) -> bool:
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
