"""Attention on matrix units: the weights of a tile of keys never leave registers.

    out[i, c] = sum over j of softmax(s[i, :])[j] * y[j, c]         (ir/attention.py)

A group computes a block of rows (attention_tiles.py) and goes through the keys once, a tile at a
time. For every row it carries the largest score so far, the sum of the weights, and the sums of
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
from ..ir.attention import EACH, Attention, is_kept, recognise_attention, unit_of
from ..ir.loops import steps_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import MatrixUnit, Target
from .attention_tiles import (
    BUFFERS,
    HOLE,
    Shape,
    Tiles,
    choose,
    lane_of,
    power_of_two,
    words_of_weights,
    zeros,
)
from .blocks import is_along_row
from .fragments import GROUPS_OF_LINES, Operand
from .moves import Moves
from .nest import Nest
from .tails import limits_of

__all__ = ["attend_in_tiles"]

SHAPES = (Shape(2, 64), Shape(2, 32), Shape(1, 64), Shape(1, 32))
HELD = 64  # columns of q whose words stay in registers; those of wider rows are read for each tile
_LOG2_E = 1 / math.log(2)


def attend_in_tiles(moves: Moves, target: Target) -> None:
    """Put every kernel of `moves` that is attention on matrix units."""
    for nest in moves.nests():
        found = recognise_attention(nest.node)
        unit = found and unit_of(found, target.matrix_units)
        if found is not None and unit is not None:
            _Attending(moves, nest, found, unit, target).make()


@dataclass(frozen=True)
class _Row:
    """What a loop over the keys carries for one row of an item, in registers."""

    most: Node
    total: Node


class _Attending:
    """One kernel in the making."""

    def __init__(
        self, moves: Moves, nest: Nest, found: Attention, unit: MatrixUnit, target: Target
    ) -> None:
        assert target.workgroup is not None
        self.moves, self.nest, self.found, self.unit = moves, nest, found, unit
        # Lines are as long as the next power of two: that is how they can be swizzled.
        self.long, self.wide = power_of_two(found.depth), power_of_two(found.column)
        results = steps_of(found.row) * steps_of(*found.batch)
        self.shape = choose(SHAPES, self._bytes, results, target.workgroup)
        self.tiles = Tiles(moves, unit, found.row, found.key, found.batch, self.shape)
        order = nest.node.toposort()
        fills = {n.src[2]: n.src[0] for n in order if is_kept(n)}
        limits = limits_of(filter(is_along_row, order), fills, steps_of(found.key))
        around = frozenset(nest.loops) - {found.column}
        self.tile, self.first_key = self.tiles.bounded(limits, around)
        self.scale, self.scores = _scaled(found)
        self.pair = moves.loop(2, "vector")  # neighbouring results are stored at once

    def _bytes(self, shape: Shape) -> int:
        both = BUFFERS * shape.keys * (self.long + self.wide)
        return (shape.rows * self.long + both) * self.unit.dtype.itemsize

    def make(self) -> None:
        """Replace the nest."""
        tiles, products = self.tiles, range(self.shape.products)
        query, keys, values = self._operands()
        blocks = steps_of(self.found.column) // GROUPS_OF_LINES
        rows = [[self._carried(), self._carried()] for _ in products]
        sums = [[tiles.register(zeros(self.unit)) for _ in range(blocks)] for _ in products]
        scores = self._scores(query, keys)
        weights, effects = [], []
        for number in products:
            weighed = [self._weigh(number, half, scores[number], rows[number][half])
                       for half in range(2)]  # fmt: skip
            weights.append([tiles.packed(values) for values, _, _ in weighed])
            effects += [effect for _, _, carried in weighed for effect in carried]
            shrunk = tuple(one for _, one, _ in weighed for _ in range(2))
            all_shrunk = Node(Op.STACK, sums[number][0].dtype, shrunk)
            sums[number] = [
                tiles.updated(total, all_shrunk, Op.MUL, self.tile) for total in sums[number]
            ]
        tiles.add_products(
            sums, self.shape.keys // EACH,
            lambda product, step: words_of_weights(weights[product], step),
            lambda block, step: tiles.words_of_y(values, block, step), self.tile,
        )  # fmt: skip
        effects += [total.src[1] for mine in sums for total in mine]
        done = Node(Op.END, dtypes.void, (*effects, self.tile), len(effects))
        stores = [
            store
            for number in products
            for half, row in enumerate(rows[number])
            for store in self._stores(number, half, row, sums[number], done)
        ]
        end = Node(Op.END, dtypes.void, (*stores, *tiles.loops, self.pair), len(stores))
        self.moves.root = simplify(self.moves.root.substitute({self.nest.node: end}))
        self.moves.log.append(
            f"{self.shape.rows} rows by tiles of {self.shape.keys} keys on matrix units, "
            "weights in registers"
        )

    def _operands(self) -> tuple[Operand, Operand, Operand]:
        """The rows of q; a tile of keys; y for a tile of keys."""
        found, tiles = self.found, self.tiles
        return (
            tiles.of_rows(found.query, found.depth),
            tiles.of_keys(found.of_key, found.depth, self.first_key),
            tiles.of_keys(found.value, found.column, self.first_key).swapped(),
        )

    def _carried(self) -> _Row:
        least, none = (Node.const(self.unit.sums, n) for n in (-math.inf, 0))
        return _Row(self.tiles.register(least), self.tiles.register(none))

    # -- a tile of keys -------------------------------------------------------------------------

    def _scores(self, query: Operand, keys: Operand) -> list[list[Node]]:
        """The sums of products of q and the tile's keys that an item has, by eight keys."""
        tiles = self.tiles
        again = (self.tile,) if self.shape.products > 1 and self.long > HELD else ()
        sums = [
            [tiles.register(zeros(self.unit), self.tile)
             for _ in range(self.shape.keys // GROUPS_OF_LINES)]
            for _ in range(self.shape.products)
        ]  # fmt: skip
        tiles.add_products(
            sums, steps_of(self.found.depth) // EACH,
            lambda product, step: tiles.words_of_x(query, product, step, *again),
            lambda block, step: tiles.words_of_y(keys, block, step), self.tile,
        )  # fmt: skip
        return sums

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
        most = before.maximum(_quad(_tree(scores, Op.MAX), Op.MAX))
        # Where nothing counts so far, all weights are 0.
        base = most.eq(-math.inf).where(0.0, most)
        base = base * self.scale
        shrunk, *weights = (_quick_exp2(n * self.scale - base) for n in (before, *scores))
        total = tiles.updated(row.total, shrunk, Op.MUL, self.tile)
        effects = [
            tiles.updated(row.most, most, Op.MAX, self.tile).src[1],
            tiles.updated(total, _tree(weights, Op.ADD), Op.ADD, self.tile).src[1],
        ]
        return weights, shrunk, effects

    def _score(self, product: int, half: int, block: int, side: int, total: Node) -> Node:
        """s of an item's row and one of its two keys of each eight."""
        key = self.first_key + self.tiles.lane.t * 2 + (block * GROUPS_OF_LINES + side)
        places = {self.found.row: self.tiles.row_of(product, half), self.found.key: key}
        score = self.tiles.at(self.scores, places).substitute({HOLE: total})
        guard = simplify(key < steps_of(self.found.key))
        return score if guard.value == 1 else guard.where(score, -math.inf)

    # -- results --------------------------------------------------------------------------------

    def _stores(
        self, product: int, half: int, row: _Row, sums: list[Node], done: Node
    ) -> list[Node]:
        """The STOREs of two neighbouring results each."""
        found = self.found
        total = _quad(Node(Op.AFTER, row.total.dtype, (row.total, done)), Op.ADD)
        if found.gives_zero:
            total = total.eq(0.0).where(1.0, total)
        share = Node.const(total.dtype, 1.0) / total
        store, stores = found.store.substitute({found.total: HOLE}), []
        for block, register in enumerate(sums):
            one = Node(Op.AFTER, register.dtype, (register.src[0], done))
            result = lane_of(one, simplify(self.pair + half * 2)) * share
            column = self.tiles.lane.t * 2 + self.pair + block * GROUPS_OF_LINES
            places = {found.row: self.tiles.row_of(product, half), found.column: column}
            stores.append(self.tiles.at(store, places).substitute({HOLE: result}))
        return stores


def _scaled(found: Attention) -> tuple[float, Node]:
    """`scores` over a HOLE for the product, and by what they are to be multiplied for exp2.

    A factor of the product is left to that where nothing but masks comes after it.
    """
    scores = found.scores.substitute({found.product: HOLE})
    factors = {
        n.src[1].arg for n in scores.toposort()
        if n.op is Op.MUL and n.src[0] is HOLE and n.src[1].op is Op.CONST
    }  # fmt: skip
    if len(factors) == 1:
        (factor,) = factors
        plain = _without(scores, HOLE * factor) if 0 < factor < math.inf else None
        if plain is not None:
            return factor * _LOG2_E, plain
    return _LOG2_E, scores


def _without(scores: Node, scaled: Node) -> Node | None:
    """`scores` with the HOLE in place of `scaled`, which has a factor; None if others care."""
    if scores is scaled:
        return HOLE
    if scores.op is Op.CONST:
        return scores if scores.arg == -math.inf else None
    if scores.op is Op.WHERE:
        parts = [_without(part, scaled) for part in scores.src[1:]]
        return None if None in parts else scores.src[0].where(*parts)
    if scores.op is Op.ADD:
        for one, mask in (scores.src, scores.src[::-1]):
            plain = _without(one, scaled)
            if plain is not None and _is_mask(mask):
                condition, yes, _ = mask.src
                least = Node.const(scores.dtype, -math.inf)
                return condition.where(*((plain, least) if yes.arg == 0 else (least, plain)))
    return None


def _is_mask(node: Node) -> bool:
    """Whether a node is 0 or -inf, as a condition says."""
    values = [s.arg for s in node.src[1:] if s.op is Op.CONST]
    return node.op is Op.WHERE and sorted(values) == [-math.inf, 0]


def _quad(value: Node, op: Op) -> Node:
    return Node(Op.QUAD, value.dtype, (value,), op)


def _quick_exp2(value: Node) -> Node:
    return Node(Op.QUICK_EXP2, value.dtype, (value,))


def _tree(values: list[Node], op: Op) -> Node:
    while len(values) > 1:
        pairs = (values[n : n + 2] for n in range(0, len(values), 2))
        values = [pair[0].alu(op, *pair[1:]) if pair[1:] else pair[0] for pair in pairs]
    return values[0]
