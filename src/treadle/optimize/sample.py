"""A kernel as it is before any move, or a part of it that is quick to compute.

    out[i, j] for i, j in 2048  ->  out[i * 2047 // 127, j * 2047 // 127] for i, j in 128

The results that are left are computed as in the whole kernel, first and last of each loop among
them, so that they tell whether a schedule is right where the whole would take too long.
"""

from __future__ import annotations

import itertools
import math

from ..ir.loops import Split, closed_ranges, loop_size, replace_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from .cost import loops_around

__all__ = ["sampled"]

FEWEST = 4  # steps that are left of each loop


def sampled(ast: Node, steps: int) -> Node | None:
    """`ast` with so few results that it takes at most `steps` steps; None if there is no way."""
    nodes = ast.toposort()
    bodies = [{r, *outside} for r, outside in loops_around(ast).items()]
    kept = {r: loop_size(r) for n in nodes if n.op is Op.END for r in closed_ranges(n)}
    while sum(math.prod(kept.get(r, loop_size(r)) for r in loops) for loops in bodies) > steps:
        loop = max(kept, key=lambda r: kept[r], default=None)
        if loop is None or kept[loop] <= FEWEST:
            return None
        kept[loop] = max(FEWEST, kept[loop] // 2)
    numbers = [n.arg.number for n in nodes if n.op is Op.RANGE]
    following = itertools.count(max(numbers, default=-1) + 1)
    splits = {}
    for r, count in kept.items():
        if count < loop_size(r):
            new = Node.range(count, next(following))
            splits[r] = Split(simplify(new * (loop_size(r) - 1) // (count - 1)), (new,))
    return simplify(replace_ranges(ast, splits)) if splits else ast
