"""Gathers written as sums: a sum over a one-hot mask becomes a load.

    sum over r of WHERE(k == r, x[r], 0)  ->  WHERE(0 <= k < size, x[k], 0)

A one-hot mask says so, as in the cross-entropy of a label: one element is read instead of a row. In
its gradient the sign comes last.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.loops import free_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce, operand, operands
from .moves import Move, Moves
from .records import Reduction

__all__ = ["OneHotGather", "gather_one_hot"]


def gather_one_hot(moves: Moves) -> None:
    """Replace each sum over a loop of which all steps but one are 0."""
    while (found := _picking(moves.root)) is not None:
        moves.make(OneHotGather(moves.name_of(found)))


@dataclass(frozen=True)
class OneHotGather(Move):
    """A sum of which all terms but one are 0 is a load."""

    word = "one_hot_gather"

    reduction: Reduction

    def apply(self, moves: Moves) -> None:
        reduce = moves.reduce_of(self.reduction)
        place = _place(reduce, free_ranges(reduce))
        if place is None:
            raise ValueError(f"{self} has more terms than one")
        total, (loop,), _ = Reduce.of(reduce)
        mask = _without_sign(total)
        _, picked, _ = mask.src
        value = picked if mask is total else -picked
        is_there = (place >= 0) & (place < loop_size(loop))
        position = is_there.where(place, 0).cast(dtypes.index)
        element = is_there.where(value.substitute({loop: position}), 0)
        moves.root = moves.root.substitute({reduce: element})


def _picking(root: Node) -> Node | None:
    """A sum of one element."""
    free = free_ranges(root)
    reduces = (n for n in root.toposort() if n.op is Op.REDUCE)
    return next((n for n in reduces if _place(n, free) is not None), None)


def _place(reduce: Node, free: dict[Node, frozenset[Node]]) -> Node | None:
    """The step whose term is all of a sum, if there is one."""
    total, loops, arg = Reduce.of(reduce)
    mask = _without_sign(total)
    if arg.op is not Op.ADD or len(loops) != 1 or mask.op is not Op.WHERE:
        return None
    (loop,), (condition, value, other) = loops, mask.src
    if condition.op is not Op.CMPEQ or other.value != 0:
        return None
    if not has_fixed_size(loop) or _is_reduced(value, loop, free):
        return None
    left, right = operands(condition)
    for place, step in ((left, right), (right, left)):
        if _is_step(step, loop) and loop not in free[place]:
            return place
    return None


def _without_sign(value: Node) -> Node:
    """A masked value, or that of which `value` is the negative: nothing is 0 in both."""
    return operand(value) if value.op is Op.NEG else value


def _is_step(node: Node, loop: Node) -> bool:
    """Whether `node` is the loop's position, as an integer that holds all of them."""
    if node.op is Op.CAST and node.dtype.kind in ("int", "uint"):
        return operand(node) is loop and loop_size(loop) - 1 <= node.dtype.max
    return node is loop


def _is_reduced(value: Node, loop: Node, free: dict[Node, frozenset[Node]]) -> bool:
    """Whether other loops run for each step: they are not moved."""
    return any(n.op in (Op.REDUCE, Op.STAGE) and loop in free[n] for n in value.toposort())
