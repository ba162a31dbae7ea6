"""Fusion with a producer: a product that one kernel reads is computed where it is read.

    s = x @ w + h @ u over (32, 1024)
    i, f, g, o = the four blocks of 256 columns of s
    c = f * c + i * g over (32, 256)    ->  one kernel over (32, 256), with eight sums

A cell's gates never are in memory so, and no worker waits until others have computed theirs. Only
products of two plain matrices move: their tiles can be computed side by side.
"""

from __future__ import annotations

from itertools import pairwise

from ..ir.loops import closed_ranges, free_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms
from ..ir.views import Access, Load, Reduce, memory_of, operand
from .kernel import Kernel

__all__ = ["is_of_products", "reads_once"]

MOST_BLOCKS = 4  # sums of one place that a tile keeps in registers
MIN_ROWS, MIN_COLUMNS, MIN_STEPS = 4, 16, 16


def is_of_products(kernel: Kernel) -> bool:
    """Whether all reductions of a kernel, if any, are sums of products of its rows and columns."""
    if len(kernel.ast.src) != 1:
        return False
    end = kernel.nest
    *rows, column = closed_ranges(end) or (None,)
    ordered = (Op.STAGE, Op.UPDATE, Op.AFTER)  # a scan or scatter is no product of its own loops
    if not rows or column is None or any(n.op in ordered for n in end.toposort()):
        return False
    if loop_size(*rows) < MIN_ROWS or loop_size(column) < MIN_COLUMNS:
        return False
    reduces = [n for n in end.toposort() if n.op is Op.REDUCE]
    return all(_is_product(reduce, frozenset(rows), column) for reduce in reduces)


def _is_product(reduce: Node, rows: frozenset[Node], column: Node) -> bool:
    product, loops, arg = Reduce.of(reduce)
    if arg.op is not Op.ADD or product.op is not Op.MUL or len(loops) != 1:
        return False
    (step,), free = loops, free_ranges(reduce)
    if not has_fixed_size(step) or loop_size(step) < MIN_STEPS:
        return False
    used = {free[factor] for factor in product.src}
    return used == {rows | {step}, frozenset((column, step))} and all(map(_is_read, product.src))


def _is_read(factor: Node) -> bool:
    """Whether a factor is memory, read everywhere, perhaps in another type."""
    if factor.op is Op.CAST:
        factor = operand(factor)
    return factor.op is Op.LOAD and not Load.of(factor).is_gated


def reads_once(kernel: Kernel, root: Node) -> bool:
    """Whether a kernel reads each element that is stored for `root` in one place, once, or never.

    In blocks of neighbours: the same loops run through each, and some columns lie between.
    """
    end = kernel.nest
    loops = [r for r in closed_ranges(end) if loop_size(r) > 1]
    slot = kernel.buffers.index(root)
    reads = [n for n in end.toposort() if n.op is Op.LOAD and memory_of(n).arg.slot == slot]
    if not reads or len(reads) > MOST_BLOCKS or any(Load.of(read).is_gated for read in reads):
        return False
    places = [linear_terms(Access.of(read).index) for read in reads]
    terms, _ = places[0]
    if set(terms) != set(loops) or any(other != terms for other, _ in places):
        return False
    *outer, block = sorted(loops, key=lambda r: -terms[r])
    if not outer or block is not closed_ranges(end)[-1] or terms[block] != 1:
        return False
    width, line = loop_size(block), terms[outer[-1]]
    apart = all(terms[r] >= terms[s] * loop_size(s) for r, s in pairwise((*outer, block)))
    starts = {start for _, start in places}
    inside = all(start % width == 0 and start + width <= line for start in starts)
    return apart and inside and line % width == 0 and len(starts) == len(reads)
