"""Reductions that read two streams of memory at a time.

    sum over k of x[r, k]    ->   for r in pairs: rows r and r + 1 together
    sum over k of x[k]       ->   sum over k of x[k] + x[n/2 + k]

A processor fetches ahead along several lines of addresses, and not far along any: one alone leaves
memory waiting. Short rows lie on the same pages as their neighbours, and gain nothing by that; nor
do rows of bytes that are widened, by reading but once the vector that they are multiplied by.
"""

from __future__ import annotations

from ..ir.loops import TRUE, Split, closed_ranges, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Load, Reduce
from .moves import Moves
from .nest import Nest, stride

__all__ = ["halves_of_row", "pair_of_rows"]

LONG_ROW = 16 << 10  # bytes
LONG_HALF = 64 << 10  # of a part of its own: half of a row
MANY_ROWS = 128  # of which pairs are still enough for all workers


def pair_of_rows(nest: Nest, reduce: Node, loop: Node) -> Node | None:
    """The loop over the rows of which `reduce`, vectors along `loop`, best reads two at a time."""
    rows = nest.loops[-1] if nest.loops else None
    if rows is None or any(closed_ranges(n) != closed_ranges(reduce) for n in nest.reduces):
        return None
    if loop_size(rows) % 2 or loop_size(*nest.loops) < MANY_ROWS:
        return None
    return rows if _bytes_of_row(reduce, loop, rows) >= LONG_ROW else None


def halves_of_row(moves: Moves, reduce: Node, loop: Node, copies: int, lanes: int) -> Split | None:
    """`loop` with `copies` vectors of both halves in each step, where they are long enough."""
    half = loop_size(loop) // 2
    is_long = _bytes_of_row(reduce, loop, loop) >= 2 * LONG_HALF
    if not is_long or loop_size(loop) % (2 * copies * lanes):
        return None
    outer, place = moves.loop(half // (copies * lanes)), moves.loop(2, "unroll")
    copy, lane = moves.loop(copies, "unroll"), moves.loop(lanes, "vector")
    expr = place * half + (outer * copies + copy) * lanes + lane
    return Split(simplify(expr), (outer, place, copy, lane), TRUE)


def _bytes_of_row(reduce: Node, loop: Node, rows: Node) -> int:
    """What `reduce` reads along `loop`, but for what all steps of `rows` read."""
    nodes = Reduce.of(reduce).value.toposort(lambda n: n.op is not Op.STAGE)
    loads = [Load.of(n) for n in nodes if n.op is Op.LOAD]
    return sum(
        load.dtype.itemsize * loop_size(loop)
        for load in loads
        if stride(load.index, loop) == 1 and stride(load.index, rows) != 0
    )
