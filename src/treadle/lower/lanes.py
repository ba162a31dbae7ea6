"""What becomes of indices and conditions when a loop becomes lanes.

base + lane               contiguous(index, vector)  ->  base
(p // 56) * 58 + p % 56   segments(...)              ->  a contiguous index for each of two rows
base + 2 * lane           strided(index, vector)     ->  whole vectors under masks, and shuffles
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..dtype import dtypes
from ..ir.choices import take
from ..ir.loops import TRUE, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.remembered import once
from ..ir.rules.index import linear_terms, simplify, sum_terms
from ..ir.views import Load, Store, operand

__all__ = [
    "Segment", "broadcast", "contiguous", "lane_condition", "segments", "shuffled", "strided",
    "without_lane",
]  # fmt: skip

MOST_SEGMENTS = 3
MOST_STEP = 4


def broadcast(node: Node, count: int) -> Node:
    if node.dtype.count == count:
        return node
    return Node(Op.BROADCAST, node.dtype.vec(count), (node,))


def shuffled(first: Node, second: Node, places: Iterable[int]) -> Node:
    """The lanes at `places` of two vectors, those of `first` before those of `second`."""
    order = tuple(places)
    return Node(Op.SHUFFLE, first.dtype.scalar.vec(len(order)), (first, second), order)


def contiguous(index: Node, vector: Node) -> Node | None:
    """`index` without its lane number, if it is that plus something; else None."""
    found = without_lane(index, vector)
    return found[0] if found is not None and found[1] == 1 else None


@once
def without_lane(index: Node, vector: Node) -> tuple[Node, int] | None:
    """(base, step) of an index that is `base` + `step` times the lane number; else None."""
    terms, rest = linear_terms(index)
    step = terms.pop(vector, 0)
    if any(vector in ranges_of(term) for term in terms):
        return None
    return simplify(sum_terms(terms, rest)), step


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
    numbers = (Node.index((first + n) // each) for n in range(count))
    lanes = [simplify(condition.substitute({vector: number})) for number in numbers]
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
    nodes = Node.sink((index, gate)).toposort()
    found = {n.src for n in nodes if n.op in (Op.IDIV, Op.MOD) and vector in ranges_of(n)}
    if len(found) != 1:
        return None
    ((position, length),) = found
    return (position, length) if length.op is Op.CONST else None


class Strided(NamedTuple):
    """Lane n of `vector` is at `base` + n * `step`; where lanes are `turned`, the last but n is.

    x[base + 2 * lane], 8 lanes  ->  the even elements of x[base..base+7] and of x[base+8..base+15]
    x[base - lane], 8 lanes      ->  x[base-7..base], turned around

    The masks let through what the lanes are about and nothing between or behind, which others may
    be writing or which may not exist.
    """

    vector: Node
    base: Node
    step: int
    turned: bool

    @property
    def lanes(self) -> int:
        return loop_size(self.vector)

    def load(self, memory: Node, gate: Node, other: Node) -> Node:
        """The lanes where `gate` holds, `other` elsewhere."""
        take("strided_lanes")
        filler = broadcast(other, self.lanes)
        value: Node | None = None
        for piece in range(self.step):
            mask = self._mask(piece, gate)
            part = Load(memory, self._start(piece), mask, filler, filler.dtype).node()
            places = [divmod(n * self.step, self.lanes) for n in range(self.lanes)]
            mine = (
                (self.lanes + at if value is not None else at) if number == piece else n
                for n, (number, at) in enumerate(places)
            )
            value = shuffled(part if value is None else value, part, mine)
        assert value is not None
        return self._turn(value)

    def store(self, memory: Node, value: Node, gate: Node) -> list[Node]:
        """The STOREs of the lanes of `value` where `gate` holds."""
        take("strided_lanes")
        wide = self._turn(broadcast(value, self.lanes))
        stores = []
        for piece in range(self.step):
            spread = ((piece * self.lanes + n) // self.step for n in range(self.lanes))
            part, mask = shuffled(wide, wide, spread), self._mask(piece, gate)
            stores.append(Store(memory, self._start(piece), part, mask).node())
        return stores

    def _turn(self, value: Node) -> Node:
        """Lanes in the order of memory, or in their own again."""
        return shuffled(value, value, range(self.lanes)[::-1]) if self.turned else value

    def _start(self, piece: int) -> Node:
        return self.base + piece * self.lanes

    def _mask(self, piece: int, gate: Node) -> Node:
        """Which elements of a piece are a lane's, where that lane's `gate` holds."""
        if self.turned:
            last = self.lanes - 1
            gate = simplify(gate.substitute({self.vector: last - self.vector}))
        if self.step == 1:
            return gate if gate.op is Op.CONST else lane_condition(gate, self.vector)
        first = piece * self.lanes
        elements = range(first, first + self.lanes)
        own = tuple(Node.const(dtypes.bool, e % self.step == 0) for e in elements)
        mask = Node(Op.STACK, dtypes.bool.vec(self.lanes), own)
        if gate.op is Op.CONST and gate.arg:
            return mask
        return mask & lane_condition(gate, self.vector, first, self.step)


def strided(index: Node, vector: Node) -> Strided | None:
    """How the lanes of `vector` lie, if they are a few elements apart and worth it; else None."""
    found = without_lane(index, vector)
    if found is None:
        return None
    base, step = found
    turned, step = step < 0, abs(step)
    if step == 0 or (step == 1 and not turned) or step > MOST_STEP or 2 * step > loop_size(vector):
        return None
    first = simplify(base - step * (loop_size(vector) - 1)) if turned else base
    return Strided(vector, first, step, turned)
