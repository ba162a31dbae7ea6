"""What becomes of indices and conditions when a loop becomes lanes.

base + lane               contiguous(index, vector)  ->  base
(p // 56) * 58 + p % 56   segments(...)              ->  a contiguous index for each of two rows
"""

from __future__ import annotations

from typing import NamedTuple

from ..dtype import dtypes
from ..ir.choices import take
from ..ir.loops import TRUE, free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.remembered import once
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import operand

__all__ = [
    "Segment",
    "broadcast",
    "contiguous",
    "lane_condition",
    "segments",
    "without_lane",
]

MOST_SEGMENTS = 3


def broadcast(node: Node, count: int) -> Node:
    if node.dtype.count == count:
        return node
    return Node(Op.BROADCAST, node.dtype.vec(count), (node,))


def contiguous(index: Node, vector: Node) -> Node | None:
    """`index` without its lane number, if it is that plus something; else None."""
    found = without_lane(index, vector)
    return found[0] if found is not None and found[1] == 1 else None


@once
def without_lane(index: Node, vector: Node) -> tuple[Node, int] | None:
    """(base, step) of an index that is `base` + `step` times the lane number; else None."""
    terms, rest = linear_terms(index)
    step = terms.pop(vector, 0)
    base = Node.index(rest)
    for term, coefficient in terms.items():
        if vector in ranges_of(term):
            return None
        base = base + (term if coefficient == 1 else term * coefficient)
    return simplify(base), step


@once
def lane_condition(condition: Node, vector: Node, first: int = 0, each: int = 1) -> Node:
    """A condition on the lane number as a vector of bools.

    Element n of it is for lane (`first` + n) // `each`. A comparison of the lane number, times
    something, with what is the same for all lanes is one with a scalar: no wide arithmetic.
    """
    count = loop_size(vector)
    if vector not in ranges_of(condition):
        return broadcast(condition, count)
    if count == 1:  # a vector of one lane is a number
        return simplify(condition.substitute({vector: Node.index(first // each)}))
    if condition.op in (Op.AND, Op.OR, Op.XOR):
        sides = tuple(lane_condition(s, vector, first, each) for s in condition.src)
        return Node(condition.op, dtypes.bool.vec(count), sides)
    if condition.op is Op.CMPLT and operand(condition).dtype is dtypes.index:
        left, right = condition.src
        found = without_lane(left - right, vector)
        if found is not None and found[1]:
            return _below(*found, count, first, each)
    lanes = []
    for number in range(count):
        lane = Node.index((first + number) // each)
        lanes.append(simplify(condition.substitute({vector: lane})))
    return Node(Op.STACK, dtypes.bool.vec(count), tuple(lanes))


def _below(base: Node, step: int, count: int, first: int, each: int) -> Node:
    """base + step * lane < 0, where step is not 0."""
    # The first lane where it no longer holds, or with a negative step the first where it does.
    limit = (step - 1 - base) // step if step > 0 else base // -step + 1
    room = (limit * each - first).minimum(count).maximum(0)
    lanes = Node(Op.LANES, dtypes.int32.vec(count))
    ends = broadcast(simplify(room).cast(dtypes.int32), count)
    below = Node(Op.CMPLT, dtypes.bool.vec(count), (lanes, ends))
    return below if step > 0 else below ^ broadcast(TRUE, count)


class Segment(NamedTuple):
    """Lanes from `first` to the next segment's: they read `base` + lane, where `gate` holds."""

    first: Node
    base: Node
    gate: Node


def segments(index: Node, gate: Node, vector: Node) -> list[Segment] | None:
    """`index` as a few contiguous pieces, where it counts through rows of fixed length; else None.

    The rows are those of `position // length` and `position % length`, with one `position`, that
    grows by one a lane, in all of `index` and `gate`.
    """
    rows = _rows(index, gate, vector)
    if rows is None:
        return None
    position, length = rows
    start = contiguous(position, vector)
    lanes, size = loop_size(vector), length.arg
    count = (lanes - 2 + size) // size + 1
    if start is None or count > MOST_SEGMENTS:
        return None
    found = []
    for number in range(count):
        row = simplify(start // length + number)
        inside = {
            Node(Op.IDIV, dtypes.index, (position, length)): row,
            Node(Op.MOD, dtypes.index, (position, length)): position - row * length,
        }
        base = contiguous(simplify(index.substitute(inside)), vector)
        if base is None:
            return None
        first = simplify(row * length - start)
        found.append(Segment(first, base, simplify(gate.substitute(inside))))
    take("row_segments")
    return found


def _rows(index: Node, gate: Node, vector: Node) -> tuple[Node, Node] | None:
    """The position and the length of the rows that `index` and `gate` count through."""
    free = free_ranges(Node.sink((index, gate)))
    divisions = [
        n
        for n in Node.sink((index, gate)).toposort()
        if n.op in (Op.IDIV, Op.MOD) and vector in free[n]
    ]
    found = {n.src for n in divisions}
    if len(found) != 1:
        return None
    ((position, length),) = found
    return (position, length) if length.op is Op.CONST else None
