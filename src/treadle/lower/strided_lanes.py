"""Strided lanes: up to four elements apart, or backwards, as masked whole vectors and shuffles.

x[base + 2 * lane], 8 lanes  ->  the even elements of x[base..base+7] and of x[base+8..base+15]
x[base - lane], 8 lanes      ->  x[base-7..base], turned around

The masks let through what the lanes are about and nothing between or behind, which others may be
writing or which may not exist.
"""

from __future__ import annotations

from typing import NamedTuple

from ..dtype import dtypes
from ..ir.choices import take
from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Load, Store
from .lanes import broadcast, lane_condition, without_lane

__all__ = ["Strided", "strided"]

MOST_STEP = 4


class Strided(NamedTuple):
    """Lane n of `vector` is at `base` + n * `step`; where lanes are `turned`, the last but n is."""

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
        dtype = filler.dtype
        value: Node | None = None
        for piece in range(self.step):
            mask = self._mask(piece, gate)
            part = Load(memory, self._start(piece), mask, filler, dtype).node()
            places = [divmod(n * self.step, self.lanes) for n in range(self.lanes)]
            mine = tuple(
                (self.lanes + at if value is not None else at) if number == piece else n
                for n, (number, at) in enumerate(places)
            )
            value = Node(Op.SHUFFLE, dtype, (part if value is None else value, part), mine)
        assert value is not None
        return self._turn(value)

    def store(self, memory: Node, value: Node, gate: Node) -> list[Node]:
        """The STOREs of the lanes of `value` where `gate` holds."""
        take("strided_lanes")
        wide = self._turn(broadcast(value, self.lanes))
        stores = []
        for piece in range(self.step):
            spread = tuple((piece * self.lanes + n) // self.step for n in range(self.lanes))
            part = Node(Op.SHUFFLE, wide.dtype, (wide, wide), spread)
            mask = self._mask(piece, gate)
            stores.append(Store(memory, self._start(piece), part, mask).node())
        return stores

    def _turn(self, value: Node) -> Node:
        """Lanes in the order of memory, or in their own again."""
        if not self.turned:
            return value
        return Node(Op.SHUFFLE, value.dtype, (value, value), tuple(range(self.lanes))[::-1])

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
