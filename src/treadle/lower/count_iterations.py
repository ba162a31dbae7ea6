"""The number of loop iterations that one work item takes in a phase, at most.

    for i in 300: for j in 300: ...   ->  300 * (300 + 1 + 1) + 1

Some drivers end all loops of a work item after a number of steps, so this counts as they do: the
last look at a loop's condition is a step as well.
"""

from __future__ import annotations

from ..ir.op import Op
from ..ir.views import bound_of
from .linearize import Phase
from .overflow_analysis import integer_bounds

__all__ = ["most_iterations"]

# A 64-bit division is a loop over its bits where the language has 32-bit integers only.
WIDE_DIVISION = 65


def most_iterations(phase: Phase) -> int:
    """The steps of all loops of one work item, sizes known at launch at their largest."""
    around: list[tuple[int, int]] = []  # (size of a loop that is open, steps before it)
    total = 0
    bounds = integer_bounds(phase.program)
    for node in phase.program.src:
        if node.op is Op.RANGE and node not in phase.grid:
            _, most = bounds[bound_of(node)]
            around.append((int(most), total))
            total = 0
        elif node.op is Op.END and around:
            size, before = around.pop()
            total = before + size * (total + 1) + 1
        elif node.op in (Op.IDIV, Op.MOD) and node.dtype.scalar.itemsize == 8:
            total += WIDE_DIVISION * node.dtype.count
    return total
