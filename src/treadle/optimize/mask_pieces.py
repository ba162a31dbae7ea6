"""Loops whose masks switch at multiples of a length: one step computes a place of each piece.

    out[j] = j < n ? x[j] : y[j - n]   ->   out[j] = x[j]; out[n + j] = y[j]     for j < n

A mask is none any more where it is all of a piece: of parts that lie side by side, of padding as
long as what it is around. What several pieces are computed from is loaded once, as for the
gradients of a cell's gates. Pieces of a vector's loop are vectors of one step; those of a loop
around are rows of it.

Masks of integers, as of `arange`, are not looked at: where halves of long rows have other signs,
pieces took 1.7 times as long as masks.
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

__all__ = ["in_pieces"]

MOST = 8
FEW_ROWS = 8  # that workers share: of fewer, each piece would be on one of them


def in_pieces(moves: Moves, nest: Nest, loop: Node, lanes: int = 0) -> Split | None:
    """A `loop` as pieces side by side, of vectors of so many `lanes` or of rows, if it has some."""
    borders = _borders(nest, loop)
    if not borders or nest.reduces:
        return None
    length = math.gcd(loop_size(loop), *borders)
    pieces = loop_size(loop) // length
    if not 1 < pieces <= MOST or (length % lanes if lanes else length < FEW_ROWS):
        return None
    piece = moves.loop(pieces, "unroll")
    place = moves.tiled(length, (lanes, "vector")) if lanes else moves.tiled(length)
    *outer, inner = place.ranges
    loops = (*outer, piece, inner) if lanes else (inner, piece)
    return Split(simplify(piece * length + place.expr), loops, TRUE)


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
