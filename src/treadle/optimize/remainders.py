"""Long reductions without a mask in every step: what fills no vectors is a reduction of its own.

    sum over 50257 of x[r]  ->  (sum over 50240 of x[r]) + (sum over 17 of x[50240 + r])

A mask is a few instructions for each vector, as many as a maximum takes itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.accumulators import combined, is_in_order
from ..ir.loops import free_ranges, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce
from .moves import Move, Moves
from .nest import reads_of, stride
from .records import Loop

__all__ = ["CutOffRemainders"]


@dataclass(frozen=True)
class CutOffRemainders(Move):
    """Each long contiguous reduction of a nest is cut behind its last whole block of steps.

    Or those of one `loop` alone.
    """

    word = "remainder_loop"

    nest: int
    block: int
    loop: Loop | None = None

    def apply(self, moves: Moves) -> dict[Node, tuple[Node, Node]]:
        """Returns what each loop that was cut became: whole blocks, and the rest."""
        nest, block = moves.nest_of(self.nest), self.block
        only = None if self.loop is None else moves.range_of(self.loop)
        free = free_ranges(nest.node)
        made: dict[Node, tuple[Node, Node]] = {}  # reductions that share a loop go on sharing
        cut: dict[Node, Node] = {}
        for reduce in nest.reduces():
            total, (loop, *others), arg = Reduce.of(reduce)
            size = loop_size(loop)
            if only not in (None, loop):
                continue
            if others or size % block == 0 or size < block:
                continue
            if loop.arg.kind != "loop" or not _is_row(reduce, loop):
                continue
            if _is_nested(reduce, loop, free):
                continue
            rest = size % block
            if loop not in made:
                made[loop] = moves.loop(size - rest), moves.loop(rest)
            whole, last = made[loop]
            value = total.substitute(cut)  # what it uses comes before it
            parts = (
                Reduce(value.substitute({loop: step}), (inner,), arg).node()
                for step, inner in ((whole, whole), (last + (size - rest), last))
            )
            in_order = is_in_order(arg.op, total, (loop,))
            cut[reduce] = combined(arg.op, *parts, in_order=in_order)
        moves.root = moves.root.substitute(cut)
        return made


def _is_row(reduce: Node, loop: Node) -> bool:
    """Whether all that is read lies along the loop, or does not depend on it."""
    steps = [stride(index, loop) for index in reads_of(Reduce.of(reduce).value)]
    return 1 in steps and all(step in (0, 1) for step in steps)


def _is_nested(reduce: Node, loop: Node, free: dict[Node, frozenset[Node]]) -> bool:
    """Whether other loops run for each step: those would be two with one name."""
    below = Reduce.of(reduce).value.toposort()
    return any(n.op in (Op.REDUCE, Op.STAGE) and loop in free.get(n, ()) for n in below)
