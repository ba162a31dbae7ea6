"""Masks of scores: what they hide becomes -inf, in tiles alone that have both hidden and shown.

    s = where(j <= i, q @ k.T, -inf)
      ->  for r in (1 if the tile's last key > the block's first row else 0):
              s = min(s, where(j <= i, inf, -inf))

Most tiles of causal attention are shown as a whole, and go without two instructions for each score.
A comparison of sums of loops is decided for a tile by one of its corners.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..ir.conditions import without_not
from ..ir.loops import TRUE, loop_size
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import After, End, Update
from .attention_tiles import Tiles
from .masked_bounds import as_index

__all__ = ["hide", "is_mask", "is_shown", "masked_by", "score_at", "shown_where"]


class _Corners(NamedTuple):
    """The first and the last place of a tile in some loops, and places in others."""

    ends: dict[Node, tuple[Node, Node]]
    others: dict[Node, Node]


def is_mask(node: Node) -> bool:
    """Whether a node is 0 or -inf, as a condition says."""
    if node.op is not Op.WHERE:
        return False
    _, yes, no = node.src
    return (yes.value, no.value) in ((0, -math.inf), (-math.inf, 0))


def masked_by(mask: Node, value: Node) -> Node:
    """A value where a mask is 0, or else -inf."""
    condition, yes, _ = mask.src
    least = Node.const(value.dtype, -math.inf)
    return condition.where(*((value, least) if yes.arg == 0 else (least, value)))


def shown_where(score: Node) -> tuple[Node, Node | None]:
    """A score without its mask, and where it counts; None if places alone do not say that."""
    if score.op is Op.WHERE:
        condition, yes, no = score.src
        is_hole = (n.op is Op.REGISTER for n in condition.toposort())  # which stands for the score
        if no.value == -math.inf and not any(is_hole):
            return yes, condition
    return score, None


def score_at(tiles: Tiles, value: Node, product: int, half: int, block: int, side: int) -> Node:
    """`value` for one of a work item's scores: one of its two keys of each eight."""
    key = tiles.first_key + tiles.column_of(block, Node.index(side))
    return tiles.at(value, {tiles.row: tiles.row_of(product, half), tiles.key: key})


def is_shown(
    tiles: Tiles, shown: Node | None, product: int, half: int, block: int, side: int
) -> Node:
    """Whether one of a work item's scores counts: there is such a key, and it is `shown`."""
    inside = tiles.is_inside(tiles.key, tiles.first_key + tiles.column_of(block, Node.index(side)))
    if shown is None:
        return inside
    return simplify(score_at(tiles, shown, product, half, block, side) & inside)


def hide(tiles: Tiles, scores: list[list[Node]], shown: Node | None) -> list[list[Node]] | None:
    """`scores` with -inf for those that do not count; None if tiles cannot tell whether all do."""
    cut = _is_cut(tiles, shown)
    if cut is None or cut.value == 0:
        return None if cut is None else scores
    once = tiles.moves.loop(cut)
    effects = []
    for product, mine in enumerate(scores):
        for block, one in enumerate(mine):
            mask = _mask(tiles, shown, product, block)
            effects.append(Update(one, mask, (tiles.tile, once), Op.MIN).node())
    done = End(tuple(effects), (once,)).node()
    return [[After(behind_after(one), (done,)).node() for one in mine] for mine in scores]


def _is_cut(tiles: Tiles, shown: Node | None) -> Node | None:
    """1 if some scores of a tile count and others may not, else 0; None if that is unknown."""
    first = tiles.block * tiles.size.rows
    rows = first, first + (tiles.size.rows - 1)
    keys = tiles.first_key, tiles.first_key + (tiles.size.columns - 1)
    corners = _Corners({tiles.row: rows, tiles.key: keys}, tiles.batch)
    more = [] if shown is None else _excess(shown, corners)
    if more is None:
        return None
    total = Node.index(0)
    if tiles.is_inside(tiles.key, keys[1]) is not TRUE:
        more = [*more, keys[1] - loop_size(tiles.key)]
    for one in more:
        total = total.maximum((one + 1).maximum(0).minimum(1))
    return simplify(total)


def _mask(tiles: Tiles, shown: Node | None, product: int, block: int) -> Node:
    """inf where a work item's scores of eight keys count, -inf where not."""
    yes, no = (Node.const(tiles.unit.sums, n) for n in (math.inf, -math.inf))
    lanes = (
        is_shown(tiles, shown, product, half, block, side).where(yes, no)
        for half in range(2)
        for side in range(2)
    )
    return Node(Op.STACK, tiles.unit.sums.vec(4), tuple(lanes))


def _excess(condition: Node, corners: _Corners, holds: bool = True) -> list[Node] | None:
    """Numbers below 0 if a condition holds (or does not) everywhere in a tile; None if unknown."""
    compared, is_not = without_not(condition)
    if is_not:
        return _excess(compared, corners, not holds)
    if condition.op is (Op.AND if holds else Op.OR):
        sides = [_excess(side, corners, holds) for side in condition.src]
        return None if None in sides else [n for side in sides if side for n in side]
    if condition.op is not Op.CMPLT:
        return None
    low, high = (as_index(s) for s in condition.src)
    if low is None or high is None:
        return None
    return _largest(simplify(low - high if holds else high - low - 1), corners)


def _largest(place: Node, corners: _Corners) -> list[Node] | None:
    """The largest that a sum of loops is in a tile."""
    terms, _ = linear_terms(place)
    known = corners.ends.keys() | corners.others.keys()
    if any(term not in known for term in terms):
        return None
    corner = {r: ends[terms.get(r, 0) > 0] for r, ends in corners.ends.items()}
    return [simplify(place.substitute(corner | corners.others))]
