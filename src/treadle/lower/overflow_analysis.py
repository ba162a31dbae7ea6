"""Analysis of integers in a linear program: exact results, bounds, multiples, counts of steps.

Exact are the sums, differences and products that cannot leave their dtype.

    v = r * 4 + 3, r a RANGE of 8  ->  both are exact

User integers wrap, which some languages leave undefined for signed types: there a wrapping
operation must be spelled another way. Index arithmetic never wraps, and compilers make better code
if they know. After lowering nothing but its bounds tells one from the other.
"""

from __future__ import annotations

from ..ir.interval import Bounds, arithmetic, bounds_of_leaf
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import bound_of, operand
from .linearize import Phase

__all__ = ["bounds_and_exact", "is_multiple", "most_iterations"]

# A 64-bit division is a loop over its bits where the language has 32-bit integers only.
WIDE_DIVISION = 65
_MAY_WRAP = frozenset((Op.ADD, Op.SUB, Op.MUL))
_FOLLOWED = _MAY_WRAP | {Op.MAX, Op.MIN, Op.WHERE, Op.CAST, Op.XOR}
_TRUNCATING = frozenset((Op.IDIV, Op.MOD))


def bounds_and_exact(program: Node) -> tuple[dict[Node, Bounds], frozenset[Node]]:
    """Inclusive bounds of every scalar integer and bool, and which results are exact.

    Those are scalar integer ADD, SUB and MUL that give what they do over the unbounded integers.
    """
    known: dict[Node, Bounds] = {}
    exact: set[Node] = set()
    for node in program.toposort():
        if not (node.dtype.is_int or node.dtype.is_bool) or node.dtype.count > 1:
            continue
        whole = 0, 1
        if node.dtype.is_int:
            whole = node.dtype.min, node.dtype.max
        low, high = _bounds(node, known, whole)
        fits = whole[0] <= low and high <= whole[1]
        known[node] = (low, high) if fits else whole
        if fits and node.op in _MAY_WRAP and node.dtype.is_int:
            exact.add(node)
    return known, frozenset(exact)


def _bounds(node: Node, known: dict[Node, Bounds], default: Bounds) -> Bounds:
    """Bounds over the unbounded integers, which may go beyond the dtype's."""
    leaf = bounds_of_leaf(node, known.__getitem__)
    if leaf is not None:
        return leaf
    if not node.src or any(s not in known for s in node.src):
        return default
    sources = [known[s] for s in node.src]
    is_natural = sources[0][0] >= 0 and sources[-1][0] > 0  # there truncating is flooring
    if node.op in _FOLLOWED or (node.op in _TRUNCATING and is_natural):
        return arithmetic(node.op, sources, default)
    return default


def is_multiple(index: Node, count: int) -> bool:
    """Whether an index is known to be a multiple of `count`."""
    if index.op is Op.CONST:
        return index.arg % count == 0
    if index.op is Op.CAST:
        return is_multiple(operand(index), count)
    if index.op is Op.MUL:
        return any(is_multiple(s, count) for s in index.src)
    if index.op is Op.SHL:
        _, amount = index.src
        return amount.op is Op.CONST and (1 << amount.arg) % count == 0
    if index.op in (Op.ADD, Op.SUB):
        return all(is_multiple(s, count) for s in index.src)
    return False


def most_iterations(phase: Phase) -> int:
    """The loop iterations that one work item takes, sizes known at launch at their largest.

        for i in 300: for j in 300: ...   ->  300 * (300 + 1 + 1) + 1

    Some drivers end all loops of a work item after a number of steps, so this counts as they do:
    the last look at a loop's condition is a step as well.
    """
    around: list[tuple[int, int]] = []  # (size of a loop that is open, steps before it)
    total = 0
    bounds, _ = bounds_and_exact(phase.program)
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
