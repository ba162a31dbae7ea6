"""A kernel as it is before any move, or a part of it that is quick to compute.

    out[i, j] for i, j in 2048  ->  out[i * 2047 // 127, j * 2047 // 127] for i, j in 128

The results that are left are computed as in the whole kernel, first and last of each loop among
them, so that they tell whether a schedule is right where the whole would take too long.
"""

from __future__ import annotations

import math

from ..ir.loops import Split, closed_ranges, replace_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from .moves import Moves

__all__ = ["sampled"]

FEWEST = 4  # steps that are left of each loop


def sampled(ast: Node, steps: int) -> Node | None:
    """`ast` with so few results that it takes at most `steps` steps; None if there is no way."""
    total = _steps_of(ast)
    ends = [n for n in ast.toposort() if n.op is Op.END]
    kept = {r: _size(r) for end in ends for r in closed_ranges(end)}
    while total > steps:
        loop = max(kept, key=lambda r: kept[r], default=None)
        if loop is None or kept[loop] <= FEWEST:
            return None
        fewer = max(FEWEST, kept[loop] // 2)
        total = total * fewer // kept[loop]
        kept[loop] = fewer
    moves = Moves(ast)
    splits = {}
    for r, count in kept.items():
        if count < _size(r):
            new = moves.loop(count)
            splits[r] = Split(simplify(new * (_size(r) - 1) // (count - 1)), (new,))
    return simplify(replace_ranges(ast, splits)) if splits else ast


def _steps_of(ast: Node) -> int:
    """The steps of all loops of a kernel whose sizes are fixed, each nested in all around it."""
    steps: dict[Node, int] = {}
    for node in ast.toposort():
        if node is ast or closed_ranges(node):
            below = node.toposort(lambda n, top=node: n is top or not closed_ranges(n))
            inner = sum(steps[n] for n in below if n in steps)
            steps[node] = math.prod(map(_size, closed_ranges(node))) * (inner + 1)
    return steps[ast]


def _size(loop: Node) -> int:
    return loop.src[0].arg
