"""Masks of scores: what they hide becomes -inf, in tiles alone that have both hidden and shown.

    s = where(j <= i, q @ k.T, -inf)
      ->  for r in (1 if the tile's last key > the block's first row else 0):
              s = min(s, where(j <= i, inf, -inf))

Most tiles of causal attention are shown as a whole, and go without two instructions for each score.
A comparison of sums of loops is decided for a tile by one of its corners.
"""

from __future__ import annotations

import math

from ..ir.conditions import constraints, parts
from ..ir.loops import TRUE, loop_size
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import After, End, Update
from .masked_bounds import extreme
from .row_tiles import Tiles

__all__ = ["hide"]


def _is_shown(tiles: Tiles, shown: Node, product: int, block: int, element: int) -> Node:
    """Whether one of a work item's scores counts: there is such a key, and it is `shown`."""
    key = tiles.first_key + tiles.column_of(block, Node.index(element))
    here = tiles.at(shown, {tiles.row: tiles.row_of(product, element), tiles.key: key})
    return simplify(here & tiles.is_inside(tiles.key, key))


def hide(tiles: Tiles, scores: list[list[Node]], shown: Node) -> list[list[Node]] | None:
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


def _is_cut(tiles: Tiles, shown: Node) -> Node | None:
    """1 if some scores of a tile count and others may not, else 0; None if that is unknown."""
    first = tiles.block * tiles.size.rows
    last_key = tiles.first_key + (tiles.size.columns - 1)
    box = {
        tiles.row: (first, first + (tiles.size.rows - 1)),
        tiles.key: (tiles.first_key, last_key),
    }
    sums = [constraints(part) for part in parts(shown)]
    if None in sums:
        return None
    least = [extreme(one, box, False) for each in sums if each for one in each]
    if tiles.is_inside(tiles.key, last_key) is not TRUE:
        least.append(loop_size(tiles.key) - 1 - last_key)
    total = Node.index(0)
    for one in least:
        if one is None:
            return None
        total = total.maximum((-one.substitute(tiles.batch)).maximum(0).minimum(1))
    return simplify(total)


def _mask(tiles: Tiles, shown: Node, product: int, block: int) -> Node:
    """inf where a work item's scores of a block of keys count, -inf where not."""
    yes, no = (Node.const(tiles.unit.sums, n) for n in (math.inf, -math.inf))
    lanes = (
        _is_shown(tiles, shown, product, block, element).where(yes, no)
        for element in range(tiles.out.count)
    )
    return Node(Op.STACK, tiles.unit.sums.vec(tiles.out.count), tuple(lanes))
