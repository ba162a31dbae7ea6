"""Loops in pieces: one step computes a place of each piece.

Where masks switch at multiples of a length:

    out[j] = j < n ? x[j] : y[j - n]   ->   out[j] = x[j]; out[n + j] = y[j]     for j < n

A mask is none any more where it is all of a piece: of parts that lie side by side, of padding as
long as what it is around. What several pieces are computed from is loaded once, as for the
gradients of a cell's gates. Pieces of a vector's loop are vectors of one step; those of a loop
around are rows of it. Masks of integers, as of `arange`, are not looked at: where halves of long
rows have other signs, pieces took 1.7 times as long as masks.

Where a reduction reads one stream of memory, it reads two at a time:

    sum over k of x[r, k]    ->   for r in pairs: rows r and r + 1 together
    sum over k of x[k]       ->   sum over k of x[k] + x[n/2 + k]

One stream leaves memory waiting (docs/design/reductions.md). Short rows, on the same pages as their
neighbours, gain nothing by that; nor do rows of bytes that are widened, by reading but once the
vector that they are multiplied by.
"""

from __future__ import annotations

import math

from ..dtype import dtypes
from ..ir.args import RangeKind
from ..ir.loops import TRUE, Split, closed_ranges, free_ranges, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import Load, Reduce, operands
from .moves import Moves
from .nest import Nest, stride

__all__ = ["halves_of_row", "in_pieces", "pair_of_rows"]

MOST = 8
FEW_ROWS = 8  # that workers share: of fewer, each piece would be on one of them
LONG_ROW = 16 << 10  # bytes
LONG_HALF = 64 << 10  # of a part of its own: half of a row
MANY_ROWS = 128  # of which pairs are still enough for all workers


def in_pieces(moves: Moves, nest: Nest, loop: Node, lanes: int = 0) -> Split | None:
    """A `loop` as pieces side by side, of vectors of so many `lanes` or of rows, if it has some."""
    borders = _borders(nest, loop)
    if not borders or nest.reduces:
        return None
    length = math.gcd(loop_size(loop), *borders)
    pieces = loop_size(loop) // length
    if not 1 < pieces <= MOST or (length % lanes if lanes else length < FEW_ROWS):
        return None
    return _pieces(moves, loop, pieces, (max(1, lanes), "vector"))


def _pieces(moves: Moves, loop: Node, count: int, *inner: tuple[int, RangeKind]) -> Split:
    """`loop` in equal pieces, each in tiles: one step of the loop outside has a tile of each."""
    piece = moves.loop(count, "unroll")
    place = moves.tiled(loop_size(loop) // count, *inner)
    outer = tuple(r for r in place.ranges if r.arg.kind == "loop")
    loops = (*outer, piece, *place.ranges[len(outer) :])
    return Split(simplify(piece * (loop_size(loop) // count) + place.expr), loops, TRUE)


def _borders(nest: Nest, loop: Node) -> set[int]:
    """The steps of `loop` at which masks switch; none where one depends on it in another way."""
    found: set[int] = set()
    free = free_ranges(nest.node)
    for node in nest.nodes:
        if node.op is not Op.CMPLT or loop not in free[node]:
            continue
        place, limit = operands(node)
        if place.dtype is not dtypes.index:
            continue
        terms, offset = linear_terms(place)
        if terms != {loop: 1} or limit.op is not Op.CONST:
            return set()
        found.add(limit.arg - offset)
    return found


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
    is_long = _bytes_of_row(reduce, loop, loop) >= 2 * LONG_HALF
    if not is_long or loop_size(loop) % (2 * copies * lanes):
        return None
    return _pieces(moves, loop, 2, (copies, "unroll"), (lanes, "vector"))


def _bytes_of_row(reduce: Node, loop: Node, rows: Node) -> int:
    """What `reduce` reads along `loop`, but for what all steps of `rows` read."""
    nodes = Reduce.of(reduce).value.toposort(lambda n: n.op is not Op.STAGE)
    loads = [Load.of(n) for n in nodes if n.op is Op.LOAD]
    return sum(
        load.dtype.itemsize * loop_size(loop)
        for load in loads
        if stride(load.index, loop) == 1 and stride(load.index, rows) != 0
    )
