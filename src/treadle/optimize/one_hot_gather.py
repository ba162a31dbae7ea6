"""Reductions of a single step: one whose mask says that all others change nothing is a load.

    sum over r of WHERE(k == r, x[r], 0)  ->  WHERE(0 <= k < size, x[k], 0)

A one-hot mask says so, as in the cross-entropy of a label: one element is read instead of a row. In
its gradient the sign comes last.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.accumulators import is_tuple, where_inside
from ..ir.loops import free_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce, operand, operands
from .masked_bounds import needed, shown
from .moves import Move, Moves
from .records import Reduction

__all__ = ["OneHotGather", "gather_one_hot"]


def gather_one_hot(moves: Moves) -> None:
    """Replace each reduction over a loop of which all steps but one change nothing."""
    while (found := next(filter(_one_step, moves.root.toposort()), None)) is not None:
        moves.make(OneHotGather(moves.name_of(found)))


@dataclass(frozen=True)
class OneHotGather(Move):
    """A reduction of which all steps but one change nothing is a load."""

    word = "one_hot_gather"

    reduction: Reduction

    def apply(self, moves: Moves) -> None:
        reduce = moves.reduce_of(self.reduction)
        found = _one_step(reduce)
        if found is None:
            raise ValueError(f"{self} has more steps than one")
        place, condition = found
        value, (loop,), arg = Reduce.of(reduce)
        is_there = (place >= 0) & (place < loop_size(loop))
        position = is_there.where(place, 0).cast(dtypes.index)
        step = shown(value, (condition,)).substitute({loop: position})
        element = where_inside(is_there, step, arg.op)
        moves.root = moves.root.substitute({reduce: element})


def _one_step(reduce: Node) -> tuple[Node, Node] | None:
    """The only step of a reduction that changes anything, if there is one, and what says so."""
    if reduce.op is not Op.REDUCE:
        return None
    value, loops, arg = Reduce.of(reduce)
    if len(loops) != 1 or is_tuple(value) or not has_fixed_size(*loops):
        return None
    (loop,), free, below = loops, free_ranges(reduce), value.toposort()
    # Where other loops run for each step, they are not moved.
    if any(n.op in (Op.REDUCE, Op.STAGE) and loop in free[n] for n in below):
        return None
    if not any(n.op is Op.CMPEQ for n in below):
        return None
    for condition in needed(value, arg.op, others_are_finite=False):
        if condition.op is Op.CMPEQ:
            for place, step in (operands(condition), operands(condition)[::-1]):
                if _is_step(step, loop) and loop not in free[place]:
                    return place, condition
    return None


def _is_step(node: Node, loop: Node) -> bool:
    """Whether `node` is the loop's position, as an integer that holds all of them."""
    if node.op is Op.CAST and node.dtype.kind in ("int", "uint"):
        return operand(node) is loop and loop_size(loop) - 1 <= node.dtype.max
    return node is loop
