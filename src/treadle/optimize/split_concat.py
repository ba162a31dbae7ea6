"""Concatenations, split: one step computes a vector of each part.

    out[j] = j < n ? x[j] : y[j - n]   ->   out[j] = x[j]; out[n + j] = y[j]     for j < n

A mask that switches at a multiple of the pieces' length is then no mask any more, and what several
pieces are computed from is loaded once: the gradients of a cell's gates, which lie side by side.
Whole rows that are put one after the other are pieces of the loop around likewise: a step of
it computes a row of each.
"""

from __future__ import annotations

import math

from ..dtype import dtypes
from ..ir.loops import TRUE, Split, free_ranges, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import operands
from .moves import Moves
from .nest import Nest

__all__ = ["split_concat", "split_concat_rows"]

MOST = 8
FEW_ROWS = 8  # that workers share: of fewer, each piece would be on one of them


def split_concat(moves: Moves, nest: Nest, vector: Node, lanes: int) -> Split | None:
    """The loop `vector` as pieces side by side, where masks say that its rows are made of some."""
    pieces = _pieces(nest, vector)
    length = loop_size(vector) // pieces
    if pieces == 1 or length % lanes:
        return None
    piece = moves.loop(pieces, "unroll")
    column = moves.tiled(length, (lanes, "vector"))
    *outer, lane = column.ranges
    return Split(simplify(piece * length + column.expr), (*outer, piece, lane), TRUE)


def split_concat_rows(moves: Moves, nest: Nest, loop: Node) -> Split | None:
    """A `loop` around the vectors likewise: a step computes a row of each piece."""
    pieces = _pieces(nest, loop)
    length = loop_size(loop) // pieces
    if pieces == 1 or length < FEW_ROWS:
        return None
    row, piece = moves.loop(length), moves.loop(pieces, "unroll")
    return Split(simplify(piece * length + row), (row, piece), TRUE)


def _pieces(nest: Nest, loop: Node) -> int:
    """Of how many pieces, all of one length, `loop` is put together; 1 if that is not so."""
    size, borders = loop_size(loop), _borders(nest, loop)
    if not borders or nest.reduces():
        return 1
    pieces = size // math.gcd(size, *borders)
    return pieces if pieces <= MOST else 1


def _borders(nest: Nest, loop: Node) -> set[int]:
    """The steps of `loop` at which masks switch; none where one depends on it in another way."""
    found: set[int] = set()
    free = free_ranges(nest.node)
    for node in nest.nodes():
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
