"""Gradients of attention on matrix units: scores are computed anew, tile by tile.

    dq[i, c] = sum over j of ds[i, j] * k[j, c]         (ir/attention_gradients.py)

A workgroup has a block of rows i (attention_tiles.py). If statistics of rows are its own to
compute, it goes through the keys as attention does (attention.py), which gives the largest score
and the sum of exponentials of each row, and the shift as the product of two rows, the result's and
its gradient's. Then it goes through the keys for the sums:

    for each tile of keys:
        s = q @ k.T;  dp = g @ v.T                                      MMAs
        ds = dp and exp(s), and statistics of rows, element by element
        dq = dq + ds @ k                                                MMAs

The kernel of dk and dv is the same thing: its rows are keys and values, and its "keys" the rows of
q and g. What depends on its keys alone, statistics of theirs, is staged beside their tiles.

Weights are rounded to the 16 bits of the factors. Nothing is larger than what comes in.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.args import StageArg
from ..ir.attention_gradients import (
    Gradients,
    Statistics,
    WeighedSum,
    recognise_gradients,
    unit_for,
    without_rounding,
)
from ..ir.conditions import all_of
from ..ir.loops import TRUE, free_ranges, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import After, End, Stage, Store, Where, operand, operands
from ..target import MatrixUnit, Target
from .attention import Attending
from .attention_masks import hide, is_mask, masked_by
from .attention_tiles import (
    BUFFERS,
    LOG2_E,
    SUBGROUPS,
    Tiles,
    blocks,
    choose_block,
    lane_of,
    placeholder,
    power_of_two,
    quad,
    quick_exp2,
    tree,
)
from .choose_tile import Tile
from .moves import Move, Moves
from .nest import Nest

__all__ = ["DifferentiateInTiles", "differentiate_in_tiles"]

SIZES = (1, 64), (1, 32)  # products of a subgroup, and keys; the best first
NARROW = 64  # columns up to which sums leave registers for tiles of 64 keys


def differentiate_in_tiles(moves: Moves, target: Target) -> None:
    """Put every kernel of `moves` that computes gradients of attention on matrix units."""
    for nest in moves.nests():
        found = recognise_gradients(nest.node)
        unit = found and unit_for(found, target.matrix_units)
        if found is not None and unit is not None and moves.has_nest(nest):
            tile = _tile(found, unit, target)
            moves.make(DifferentiateInTiles(moves.number_of(nest), tile))


@dataclass(frozen=True)
class DifferentiateInTiles(Move):
    """A nest of gradients of attention runs on matrix units and computes scores anew.

    Then it is scheduled.
    """

    word = "tiled_attention_gradients"

    nest: int
    tile: Tile

    def apply(self, moves: Moves) -> None:
        nest = moves.nest_of(self.nest)
        found = recognise_gradients(nest.node)
        unit = found and unit_for(found, moves.target.matrix_units)
        if found is None or unit is None:
            raise ValueError(f"{self}: the nest has no gradients that matrix units compute")
        _Kernel(moves, nest, found, unit, self.tile).make()


def _tile(found: Gradients, unit: MatrixUnit, target: Target) -> Tile:
    """The tile of which two workgroups fit, if there is one, or else one."""
    assert target.workgroup is not None
    rows = _rows(found)
    widths = map(power_of_two, (found.column, *rows.values()))
    tiles = blocks(unit, *(SIZES if max(widths) <= NARROW else SIZES[1:]))
    results = loop_size(found.row) * loop_size(*found.batch)
    nbytes = lambda tile: _elements(found, rows, tile) * unit.dtype.itemsize
    return choose_block(tiles, nbytes, results, target.workgroup)


def _rows(found: Gradients) -> dict[Node, Node]:
    """The factors of rows, and what each goes along."""
    rows = {p.of_row: p.depth for p in found.products}
    if found.statistics is not None:
        attention = found.statistics.attention
        rows[attention.query] = attention.depth
    return rows


def _elements(found: Gradients, rows: dict[Node, Node], tile: Tile) -> int:
    """The elements in shared memory of a workgroup: its rows, and tiles of keys in both passes."""
    tiles = {_memory_of(p.of_key): power_of_two(p.depth) for p in found.products}
    tiles |= {_memory_of(one.value): power_of_two(found.column) for one in found.sums}
    wide = sum(tiles.values())
    if found.statistics is not None:
        wide += power_of_two(found.statistics.attention.depth) + power_of_two(found.column)
    keys = tile.buffers * tile.columns * wide
    return tile.rows * sum(map(power_of_two, rows.values())) + keys


class _Kernel:
    """One kernel in the making."""

    def __init__(
        self, moves: Moves, nest: Nest, found: Gradients, unit: MatrixUnit, tile: Tile
    ) -> None:
        self.moves, self.nest, self.found, self.unit = moves, nest, found, unit
        reduces = found.statistics.reduces if found.statistics else ()
        numbers = itertools.count(1)
        self.products = {p.sums: placeholder(next(numbers)) for p in found.products}
        self.statistics = {n: placeholder(next(numbers)) for n in reduces}
        self.known: dict[tuple[int, int], dict[Node, Node]] = {}  # statistics of a work item's rows
        self.scores: dict[Node, list[list[Node]]] = {}
        self.staged: dict[Node, Node] = {}
        self.tiles = Tiles(moves, unit, found.row, found.key, found.batch, tile)
        self.tiles.held = len(_rows(found))
        self.tiles.limit(nest, found.column)

    def make(self) -> None:
        """Replace the nest."""
        pair = self.moves.loop(2, "vector")  # neighbouring results are stored at once
        given = self.found.statistics
        stores = [] if given is None else self._attended(given, pair)
        stores += self._sums(pair) if self.found.sums else []
        end = End(tuple(stores), (*self.tiles.loops, pair)).node()
        self.moves.root = simplify(self.moves.root.substitute({self.nest.node: end}))

    # -- statistics of rows -----------------------------------------------------------------------

    def _attended(self, given: Statistics, pair: Node) -> list[Node]:
        """STOREs of statistics and results."""
        attention, tiles = given.attention, self.tiles
        attending = Attending(tiles, attention, tiles.of_rows(attention.query, attention.depth))
        attending.make()
        stores = attending.stores(pair) if given.is_wanted else []
        for half in tiles.halves():
            values = {given.most: attending.most(*half), given.total: attending.total(*half)}
            if given.shift is not None:
                values[given.shift] = self._shift(given, attending, half, values)
            self.known[half] = values
            stores += [self._stored_once(store, half, values) for store in given.stores]
        return stores

    def _shift(
        self, given: Statistics, attending: Attending, half: tuple[int, int],
        values: dict[Node, Node],
    ) -> Node:  # fmt: skip
        """The product of a row's result and of its gradient, times the factor."""
        gradient, depth, factor = given.gradient, given.depth, given.factor
        assert gradient is not None
        assert depth is not None
        assert factor is not None
        parts = []
        for block in range(loop_size(depth) // self.unit.columns):
            for side in map(Node.index, range(2)):
                places = {self.found.row: self.tiles.row_of(*half),
                          depth: self.tiles.column_of(block, side)}  # fmt: skip
                other = self.tiles.at(gradient, places)
                parts.append(attending.result(*half, block, side) * other)
        total = quad(tree(parts, Op.ADD), Op.ADD) * attending.share(*half)
        return self._of_row(factor, half, values) * total

    def _of_row(self, value: Node, half: tuple[int, int], known: dict[Node, Node]) -> Node:
        """An expression in statistics for a work item's row."""
        holes = value.substitute({n: self.statistics[n] for n in known})
        here = self.tiles.at(holes, {self.found.row: self.tiles.row_of(*half)})
        return here.substitute({self.statistics[n]: one for n, one in known.items()})

    def _stored_once(self, store: Node, half: tuple[int, int], known: dict[Node, Node]) -> Node:
        """The STORE of a statistic, by one of the work items that have the row."""
        here = Store.of(self._of_row(store, half, known))
        gate = all_of((simplify(self.tiles.lane[0] < 1), here.gate))
        return here._replace(gate=gate).node()

    # -- sums over the keys -----------------------------------------------------------------------

    def _sums(self, pair: Node) -> list[Node]:
        """STOREs of the sums."""
        tiles, found = self.tiles, self.found
        tile = tiles.over_keys()
        for p in found.products:
            rows, keys = tiles.of_rows(p.of_row, p.depth), tiles.of_keys(p.of_key, p.depth)
            self.scores[p.sums] = tiles.scores(rows, keys, p.depth)
        elements = self._hidden(self._elements())
        results, effects = [], []
        for one, element in zip(found.sums, elements, strict=True):
            results.append(tiles.sums(loop_size(found.column)))
            weights = [
                [self._element(element, half, block, side)
                 for block in range(tiles.size.columns // self.unit.columns) for side in range(2)]
                for half in tiles.halves()
            ]  # fmt: skip
            values = tiles.of_keys(one.value, found.column)
            effects += tiles.add_weighed([[*results[-1]]], [weights], values)
        done = End(tuple(effects), (tile,)).node()
        return [
            store
            for one, sums in zip(found.sums, results, strict=True)
            for store in self._stores(one, sums, done, pair)
        ]

    def _elements(self) -> list[Node]:
        """The weights over holes, with STAGEs for those that stand for what keys alone decide."""
        found = self.found
        elements = [_quick(one.weight, found.row, found.key) for one in found.sums]
        holes = self.products | self.statistics
        for part in _of_keys_alone(elements, found.row, found.key):
            holes[part] = placeholder(len(holes) + 1)
            self.staged[holes[part]] = self._staged(part)
        return [element.substitute(holes) for element in elements]

    def _hidden(self, elements: list[Node]) -> list[Node]:
        """Weights without the mask of a product, which its scores have instead from here on."""
        wheres = {n: Where.of(n) for n in Node.sink(elements).toposort() if n.op is Op.WHERE}
        masked = {n: where for n, where in wheres.items() if where.no.value == -math.inf}
        for sums, hole in self.products.items():
            mine = {n: where for n, where in masked.items() if _is_multiple(where.yes, hole)}
            conditions = {where.condition for where in mine.values()}
            if len(conditions) != 1:
                continue
            hidden = hide(self.tiles, self.scores[sums], conditions.pop())
            if hidden is not None:
                self.scores[sums] = hidden
                shown = {n: where.yes for n, where in mine.items()}
                elements = [element.substitute(shown) for element in elements]
        return elements

    def _staged(self, part: Node) -> Node:
        """Something of each of the tile's keys, computed by one work item each."""
        work_items = SUBGROUPS * self.tiles.out.width
        work_item, keys = self.moves.loop(work_items, "local"), self.tiles.size.columns
        value = self.tiles.at(part, {self.found.key: self.tiles.first_key + work_item % keys})
        gate = TRUE if keys == work_items else simplify(work_item < keys)
        arg = StageArg("shared", (keys,), BUFFERS)
        return Stage(
            value, gate, (work_item,), (Node.index(0),), (work_item,), arg, part.dtype
        ).node()

    def _element(self, element: Node, half: tuple[int, int], block: int, side: int) -> Node:
        """A weight of a work item's row and one of its two keys of each eight."""
        found, tiles = self.found, self.tiles
        place = tiles.column_of(block, Node.index(side))
        key = tiles.first_key + place
        here = tiles.at(element, {found.row: tiles.row_of(*half), found.key: key})
        number = Node.index(half[1] * 2 + side)
        values = {
            hole: lane_of(self.scores[sums][half[0]][block], number)
            for sums, hole in self.products.items()
        }
        values |= {self.statistics[n]: one for n, one in self.known.get(half, {}).items()}
        for hole, stage in self.staged.items():
            values[hole] = Stage.of(stage)._replace(read=(simplify(place),)).node()
        inside = tiles.is_inside(found.key, key)
        weight = here.substitute(values)
        return weight if inside is TRUE else inside.where(weight, 0.0)

    def _stores(self, one: WeighedSum, sums: list[Node], done: Node, pair: Node) -> list[Node]:
        """The STOREs of neighbouring results, which the loop `pair` goes through."""

        def result(product: int, half: int, block: int) -> Node:
            assert product == 0  # SIZES have one
            return lane_of(After(sums[block], (done,)).node(), simplify(pair + half * 2))

        return self.tiles.stores(one.store, one.total, self.found.column, pair, result)


def _memory_of(factor: Node) -> Node:
    """What a factor is read from, before it is widened: those of one memory share their tiles."""
    return operand(operand(factor))


# -- weights --------------------------------------------------------------------------------------


def _quick(root: Node, row: Node, key: Node) -> Node:
    """A weight that is rounded to 16 bits, with what is quicker for that.

    Exponentials are powers of two, what is divided is multiplied by the inverse if that is of a row
    or a key alone, and nothing is rounded on the way.
    """
    free, new = free_ranges(root), {}
    for node in root.toposort(lambda n: n.op is not Op.REDUCE):
        if node.op is Op.REDUCE:
            new[node] = node
            continue
        src = tuple(new[s] for s in node.src)
        if node.op is Op.CAST and node.dtype.is_float:
            new[node] = without_rounding(src[0])
        elif node.op is Op.EXP:
            new[node] = quick_exp2(_scaled(src[0], LOG2_E))
        else:
            new[node] = node if src == node.src else node.replace(src=src)
        if node.op is Op.FDIV:
            (_, divisor), (number, by) = operands(node), src
            if not {row, key} <= free[divisor]:
                new[node] = number * (Node.const(node.dtype, 1.0) / by)
    return new[root]


def _scaled(node: Node, factor: float) -> Node:
    """`node` times a factor, which is brought to where a constant is."""
    if node.op is Op.CONST:
        return Node.const(node.dtype, node.arg * factor)
    if node.op not in (Op.ADD, Op.SUB, Op.MUL):
        return node * factor
    one, other = operands(node)
    if node.op is Op.ADD and (is_mask(one) or is_mask(other)):
        one, mask = (one, other) if is_mask(other) else (other, one)
        return masked_by(mask, _scaled(one, factor))
    if node.op in (Op.ADD, Op.SUB):
        return _scaled(one, factor).alu(node.op, _scaled(other, factor))
    return one * (other.arg * factor) if other.op is Op.CONST else node * factor


def _is_multiple(node: Node, hole: Node) -> bool:
    """Whether a node is `hole` times a number above 0."""
    if node.op is not Op.MUL:
        return node is hole
    one, factor = operands(node)
    return one is hole and factor.op is Op.CONST and 0 < factor.arg < math.inf


def _of_keys_alone(roots: list[Node], row: Node, key: Node) -> list[Node]:
    """The largest parts that are read from memory for a key, whatever the row."""
    root = Node.sink(roots)
    free = free_ranges(root)

    def is_one(node: Node) -> bool:
        if node.dtype is not dtypes.float32 or key not in free[node] or row in free[node]:
            return False
        return any(n.op is Op.LOAD for n in node.toposort())

    order = root.toposort(lambda n: n.op is not Op.REDUCE and not is_one(n))
    return [n for n in order if n.op is not Op.SINK and is_one(n)]
