"""Attention on matrix units: the weights of a tile of keys never leave registers.

    out[i, c] = sum over j of softmax(s[i, :])[j] * y[j, c]         (ir/attention.py)

A workgroup computes a block of rows (attention_tiles.py) and goes through the keys once, a tile at
a time. For every row it carries the largest score so far, the sum of the weights, and the sums of
weights times y, all as if that score were the largest of all:

    for each tile of keys:
        s = products of q and the tile's keys                           MMAs
        most' = max(most, max of s);  shrunk = exp(most - most')
        w = exp(s - most')
        sum = sum * shrunk + sum of w
        out = out * shrunk + w @ y                                      MMAs
        most = most'
    out / sum

Tiles of keys and of y arrive by asynchronous copies in two buffers. What a mask cuts off of all
rows of a block is not gone through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.attention import Attention, recognise_attention, unit_of
from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import After, End, operands
from ..target import MatrixUnit, Target
from .attention_masks import hide, is_mask, is_shown, masked_by, score_at, shown_where
from .attention_tiles import (
    HOLE,
    LOG2_E,
    Tiles,
    blocks,
    choose_block,
    lane_of,
    power_of_two,
    quad,
    quick_exp2,
    tree,
)
from .choose_tile import Tile
from .fragments import FragmentOperand
from .moves import Move, Moves

__all__ = ["AttendInTiles", "Attending", "attend_in_tiles"]

SIZES = (2, 64), (2, 32), (1, 64), (1, 32)  # products of a subgroup, and keys; the best first


def attend_in_tiles(moves: Moves, target: Target) -> None:
    """Put every kernel of `moves` that is attention on matrix units."""
    for nest in moves.nests():
        found = recognise_attention(nest.node)
        unit = found and unit_of(found, target.matrix_units)
        if found is not None and unit is not None and moves.has_nest(nest):
            moves.make(AttendInTiles(moves.number_of(nest), _tile(found, unit, target)))


def _tile(found: Attention, unit: MatrixUnit, target: Target) -> Tile:
    assert target.workgroup is not None
    # Lines are as long as the next power of two: that is how they can be swizzled.
    long, wide = power_of_two(found.depth), power_of_two(found.column)

    def nbytes(tile: Tile) -> int:
        keys = tile.buffers * tile.columns * (long + wide)
        return (tile.rows * long + keys) * unit.dtype.itemsize

    results = loop_size(found.row) * loop_size(*found.batch)
    return choose_block(blocks(unit, *SIZES), nbytes, results, target.workgroup)


@dataclass(frozen=True)
class AttendInTiles(Move):
    """A nest that is attention runs on matrix units, in tiles of keys; weights stay in registers.

    Then it is scheduled.
    """

    word = "tiled_attention"

    nest: int
    tile: Tile

    def apply(self, moves: Moves) -> None:
        nest = moves.nest_of(self.nest)
        found = recognise_attention(nest.node)
        unit = found and unit_of(found, moves.target.matrix_units)
        if found is None or unit is None:
            raise ValueError(f"{self}: the nest is no attention that matrix units compute")
        tiles = Tiles(moves, unit, found.row, found.key, found.batch, self.tile)
        tiles.limit(nest, found.column)
        attending = Attending(tiles, found, tiles.of_rows(found.query, found.depth))
        attending.make()
        pair = moves.loop(2, "vector")  # neighbouring results are stored at once
        stores = attending.stores(pair)
        end = Node(Op.END, dtypes.void, (*stores, *tiles.loops, pair), len(stores))
        moves.root = simplify(moves.root.substitute({nest.node: end}))


@dataclass(frozen=True)
class _Row:
    """What a loop over the keys carries for one row of a work item, in registers."""

    most: Node
    total: Node


class Attending:
    """One pass of a block over its keys."""

    def __init__(self, tiles: Tiles, found: Attention, query: FragmentOperand) -> None:
        self.tiles, self.found, self.query, self.unit = tiles, found, query, tiles.unit
        self.scale, score = _scaled(found)
        self.score, self.shown = shown_where(score)
        self.tile = tiles.over_keys()
        products = range(tiles.size.each[0])
        self.rows = [[self._carried(), self._carried()] for _ in products]
        self.sums = [tiles.sums(loop_size(found.column)) for _ in products]
        self.is_masked = False  # whether scores are, before they are weighed
        self.done = self.tile  # the END of the pass, once it is made

    def make(self) -> None:
        """Go through the keys."""
        tiles, found, sums = self.tiles, self.found, [list(mine) for mine in self.sums]
        keys = tiles.of_keys(found.of_key, found.depth)
        values = tiles.of_keys(found.value, found.column)
        scores = tiles.scores(self.query, keys, found.depth)
        hidden = hide(tiles, scores, self.shown)
        self.is_masked, scores = hidden is not None, hidden or scores
        weights, effects = [], []
        for number, rows in enumerate(self.rows):
            weighed = [self._weigh(number, half, scores[number], row)
                       for half, row in enumerate(rows)]  # fmt: skip
            weights.append([mine for mine, _, _ in weighed])
            effects += [effect for _, _, carried in weighed for effect in carried]
            shrunk = tuple(one for _, one, _ in weighed for _ in range(2))
            all_shrunk = Node(Op.STACK, sums[number][0].dtype, shrunk)
            sums[number] = [tiles.updated(total, all_shrunk, Op.MUL) for total in sums[number]]
        effects += tiles.add_weighed(sums, weights, values)
        self.done = End(tuple(effects), (self.tile,)).node()

    def _carried(self) -> _Row:
        least, none = (Node.const(self.unit.sums, n) for n in (-math.inf, 0))
        return _Row(self.tiles.register(least), self.tiles.register(none))

    # -- a tile of keys -------------------------------------------------------------------------

    def _weigh(
        self, product: int, half: int, sums: list[Node], row: _Row
    ) -> tuple[list[Node], Node, list[Node]]:
        """The weights of one row, by what those before them shrink, and effects."""
        tiles = self.tiles
        scores = [
            self._score(product, half, block, side, lane_of(one, Node.index(half * 2 + side)))
            for block, one in enumerate(sums)
            for side in range(2)
        ]
        before = Node(Op.AFTER, row.most.dtype, (row.most, self.tile))
        most = before.maximum(quad(tree(scores, Op.MAX), Op.MAX))
        # Where nothing counts so far, all weights are 0.
        base = most.eq(-math.inf).where(0.0, most)
        base = base * self.scale
        shrunk, *weights = (quick_exp2(n * self.scale - base) for n in (before, *scores))
        total = tiles.updated(row.total, shrunk, Op.MUL)
        largest = tiles.updated(row.most, most, Op.MAX)
        total = tiles.updated(total, tree(weights, Op.ADD), Op.ADD)
        return weights, shrunk, [*After.of(largest).effects, *After.of(total).effects]

    def _score(self, product: int, half: int, block: int, side: int, total: Node) -> Node:
        """s of a work item's row and one of its two keys of each eight."""
        place = (product, half, block, side)
        score = score_at(self.tiles, self.score, *place).substitute({HOLE: total})
        shown = None if self.is_masked else is_shown(self.tiles, self.shown, *place)
        return score if shown is None or shown.value == 1 else shown.where(score, -math.inf)

    # -- results --------------------------------------------------------------------------------

    def most(self, product: int, half: int) -> Node:
        """The largest score of a work item's row."""
        most = self._after(self.rows[product][half].most)
        return most * (self.scale / LOG2_E)

    def total(self, product: int, half: int) -> Node:
        """The sum of exponentials of a work item's row."""
        return quad(self._after(self.rows[product][half].total), Op.ADD)

    def share(self, product: int, half: int) -> Node:
        """What sums of a row are to be multiplied by."""
        total = self.total(product, half)
        if self.found.gives_zero:
            total = total.eq(0.0).where(1.0, total)
        return Node.const(total.dtype, 1.0) / total

    def result(self, product: int, half: int, block: int, side: Node) -> Node:
        """A sum of a work item's row, before it is multiplied; `side` says which of two columns."""
        return lane_of(self._after(self.sums[product][block]), simplify(side + half * 2))

    def _after(self, register: Node) -> Node:
        return Node(Op.AFTER, register.dtype, (register, self.done))

    def stores(self, pair: Node) -> list[Node]:
        """The STOREs of neighbouring results, which the loop `pair` goes through."""
        share = {half: self.share(*half) for half in self.tiles.halves()}
        result = lambda product, half, block: (
            self.result(product, half, block, pair) * share[product, half]
        )
        found = self.found
        return self.tiles.stores(found.store, found.total, found.column, pair, result)


def _scaled(found: Attention) -> tuple[float, Node]:
    """`scores` over a HOLE for the product, and by what they are to be multiplied for exp2.

    A factor of the product is left to that where nothing but masks comes after it.
    """
    scores = found.scores.substitute({found.product: HOLE})
    products = [operands(n) for n in scores.toposort() if n.op is Op.MUL]
    factors = {by.arg for one, by in products if one is HOLE and by.op is Op.CONST}
    if len(factors) == 1:
        (factor,) = factors
        plain = _without(scores, HOLE * factor) if 0 < factor < math.inf else None
        if plain is not None:
            return factor * LOG2_E, plain
    return LOG2_E, scores


def _without(scores: Node, scaled: Node) -> Node | None:
    """`scores` with the HOLE in place of `scaled`, which has a factor; None if others care."""
    if scores is scaled:
        return HOLE
    if scores.op is Op.CONST:
        return scores if scores.arg == -math.inf else None
    if scores.op is Op.WHERE:
        condition, yes, no = scores.src
        kept, other = (_without(part, scaled) for part in (yes, no))
        return None if kept is None or other is None else condition.where(kept, other)
    if scores.op is Op.ADD:
        left, right = scores.src
        for one, mask in ((left, right), (right, left)):
            plain = _without(one, scaled)
            if plain is not None and is_mask(mask):
                return masked_by(mask, plain)
    return None
