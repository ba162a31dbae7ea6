"""Rows on matrix units: what is between products never leaves registers.

A workgroup has a block of rows (row_tiles.py), and goes through the keys a tile at a time, once for
each pass of what it computes of them (ir/carried.py). With a carried sum of exponentials that is:

    for each tile of keys:
        s = products of q and the tile's keys                           MMAs
        m' = max(m, max of s);  shrunk = exp(m - m')
        w = exp(s - m')
        l = l * shrunk + sum of w
        out = out * shrunk + w @ y                                      MMAs
        m = m'
    out / l

How tiles arrive, and which are left out, is on the page docs/design/attention.md. Weights are
rounded to the 16 bits of the factors, and exponentials are the target's quick ones.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.accumulators import all_combined, combined, identity
from ..ir.args import RegisterRef, StageArg
from ..ir.carried import Dot, Reduction, Rows, reads, rows_of, unrounded, without_guard
from ..ir.carried_units import block_bytes, of_keys_alone, products_of, units_of
from ..ir.conditions import all_of
from ..ir.loops import TRUE, free_ranges, loop_size
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import After, End, Stage, Store, operands
from ..target import MatrixUnit, Target, chain_of
from .choose_tile import Tile, first_fitting
from .masked_bounds import common, needed, shown, value_where
from .moves import Move, Moves
from .row_tiles import FEWER, OwnRow, Tiles, blocks

__all__ = ["CarryRows", "carry_rows"]

# Rows of a workgroup, and keys, the best first: for a product at a time, and for several, of which
# up to so many columns are narrow.
SIZES = (128, 64), (128, 32), (64, 64), (64, 32)
SIZES_OF_SEVERAL = (64, 64), (64, 32)
NARROW = 64
LOG2_E = 1 / math.log(2)

# What a pass makes of rows: by row, or sums of products by product and block of columns.
Registers = dict[tuple[int, int], Node]


def carry_rows(moves: Moves, target: Target) -> None:
    """Put every kernel of `moves` that is reductions of products of rows on matrix units."""
    for nest in moves.nests():
        found = rows_of(nest.node)
        unit = found and next(units_of(found, target), None)
        if found is not None and unit is not None and moves.has_nest(nest):
            moves.make(CarryRows(moves.number_of(nest), _tile(found, unit, target)))


@dataclass(frozen=True)
class CarryRows(Move):
    """A nest of reductions of products runs on matrix units, in tiles of keys.

    What is between its products stays in registers. Then it is scheduled.
    """

    word = "carried_rows"

    nest: int
    tile: Tile

    def apply(self, moves: Moves) -> None:
        nest = moves.nest_of(self.nest)
        found = rows_of(nest.node)
        units = units_of(found, moves.target) if found is not None else ()
        shapes = {c.sums.shape: unit for unit in units if (c := chain_of(unit)) is not None}
        unit = shapes.get(self.tile.unit)
        if found is None or unit is None:
            raise ValueError(f"{self}: the nest has no rows that such matrix units compute")
        end = _Kernel(moves, found, unit, self.tile).end()
        moves.root = simplify(moves.root.substitute({nest.node: end}))


def _tile(found: Rows, unit: MatrixUnit, target: Target) -> Tile:
    """The tile of which two workgroups fit, if there is one, or else one."""
    assert target.workgroup is not None
    assert unit.tiling is not None
    widths = [p.depth for p in found.products] + ([] if found.column is None else [found.column])
    several = any(len(products_of(found, reductions)) > 1 for reductions in found.passes)
    sizes = SIZES_OF_SEVERAL[max(map(loop_size, widths)) > NARROW :] if several else SIZES

    return first_fitting(
        blocks(unit, sizes), blocks(unit, FEWER), loop_size(found.row) * loop_size(*found.batch),
        lambda tile: block_bytes(found, unit, tile.rows, tile.columns, tile.buffers),
        target.workgroup, unit.tiling.reserved,
    )  # fmt: skip


class _Kernel:
    """One kernel in the making."""

    def __init__(self, moves: Moves, found: Rows, unit: MatrixUnit, tile: Tile) -> None:
        self.moves, self.found = moves, found
        self.tiles = Tiles(moves, unit, found.row, found.key, found.batch, tile)
        self.tiles.held *= len({p.of_row for p in found.products})
        reductions = [r for reductions in found.passes for r in reductions]
        self.totals = [*(r.total for r in reductions), *(d.total for d in found.dots)]
        self.tiles.limit(r.total for r in reductions)
        # What stands for values while the loops around them are replaced.
        first, numbers = Node.const(dtypes.float32, 0), itertools.count(1)
        self.number = lambda: Node(Op.REGISTER, first.dtype, (first,), RegisterRef(-next(numbers)))
        self.hole = {n: self.number() for n in (*self.totals, *(p.sums for p in found.products))}
        # The totals of a work item's rows, and sums of products, as far as they are known.
        self.known: dict[OwnRow, dict[Node, Node]] = {row: {} for row in self.tiles.own_rows()}
        self.sums: dict[Reduction, Registers] = {}

    def end(self) -> Node:
        """All of the kernel."""
        for reductions in self.found.passes:
            self._learn(reductions, _Pass(self, reductions).make())
        # Neighbouring results are stored at once.
        side = self.moves.loop(self.tiles.out.neighbours, "vector")
        stores, loops = [], self.tiles.loops
        for store in self.found.stores:
            is_wide = self.found.column in free_ranges(store)[store]
            stores += self._stored(store, side) if is_wide else self._stored_once(store)
            loops = (*self.tiles.loops, side) if is_wide else loops
        return End(tuple(stores), loops).node()

    # -- results of a pass ------------------------------------------------------------------------

    def _learn(self, reductions: tuple[Reduction, ...], made: dict[Node, Registers]) -> None:
        """Note what is known of rows after a pass."""
        for one in reductions:
            if one.value is not None:
                self.sums[one] = made[one.total]
                continue
            for row, total in made[one.total].items():
                total = self.tiles.combined(total, Op.ADD) if one.op is Op.ADD else total
                self._note(one, row, total)
        for dot in self.found.dots:
            if dot.by in reductions:
                for row in self.tiles.own_rows():
                    self._note(dot, row, self._dot(dot, row))

    def _note(self, one: Reduction | Dot, row: OwnRow, value: Node) -> None:
        self.known[row][one.total] = _times(value, self.of_row(one.factor, row))

    def _dot(self, dot: Dot, row: OwnRow) -> Node:
        """The sum over a row's columns of another row and its sums of products."""
        parts = []
        for block in range(loop_size(dot.depth) // self.tiles.size.unit[1]):
            for element in map(Node.index, self.tiles.elements[row[1]]):
                places = {self.found.row: self.tiles.row_of(*row),
                          dot.depth: self.tiles.column_of(block, element)}  # fmt: skip
                value = self._lane(dot.by, row, block, element)
                parts.append(value * self.tiles.at(dot.of_row, places))
        return self.tiles.combined(all_combined(Op.ADD, parts), Op.ADD)

    def _lane(self, one: Reduction, row: OwnRow, block: int, element: Node) -> Node:
        """A sum of products of a work item's row, before its factor."""
        mine = [n for (product, _), n in self.sums[one].items() if product == row[0]]
        return self.tiles.lane_of(mine, block, element)

    def of_row(self, value: Node, row: OwnRow) -> Node:
        """An expression in what is known for a work item's row."""
        known = self.known[row]
        holed = value.substitute({n: self.hole[n] for n in known})
        here = self.tiles.at(holed, {self.found.row: self.tiles.row_of(*row)})
        return here.substitute({self.hole[n]: one for n, one in known.items()})

    # -- stores -----------------------------------------------------------------------------------

    def _stored(self, store: Node, side: Node) -> list[Node]:
        """The STOREs of neighbouring results, which the loop `side` goes through."""
        found, tiles, stores = self.found, self.tiles, []
        assert found.column is not None
        holed = store.substitute(self.hole)
        blocks = range(loop_size(found.column) // tiles.size.unit[1])
        for row, known in self.known.items():
            shares = {one: self.of_row(one.factor, row) for one in self.sums}
            firsts = tiles.elements[row[1]][:: tiles.out.neighbours]
            for block, first in itertools.product(blocks, firsts):
                element = simplify(side + first)
                column = tiles.column_of(block, element)
                values = {self.hole[n]: value for n, value in known.items()}
                for one, share in shares.items():
                    value = self._lane(one, row, block, element)
                    values[self.hole[one.total]] = _times(value, share)
                here = tiles.at(holed, {found.row: tiles.row_of(*row), found.column: column})
                stores.append(here.substitute(values))
        return stores

    def _stored_once(self, store: Node) -> list[Node]:
        """The STOREs of statistics, each by one of the work items that have the row."""
        stores = [Store.of(self.of_row(store, row)) for row in self.tiles.own_rows()]
        first = self.tiles.is_first()
        return [one._replace(gate=all_of((first, one.gate))).node() for one in stores]


class _Pass:
    """One pass of a block over its keys."""

    def __init__(self, kernel: _Kernel, reductions: tuple[Reduction, ...]) -> None:
        self.kernel, self.reductions = kernel, reductions
        self.found, self.tiles, self.hole = kernel.found, kernel.tiles, kernel.hole
        self.tile = self.tiles.over_keys()
        tiles, self.scores = self.tiles, dict[Node, list[list[Node]]]()
        for p in products_of(self.found, reductions):
            rows, keys = tiles.of_rows(p.of_row, p.depth), tiles.of_keys(p.of_key, p.depth)
            self.scores[p.sums] = tiles.scores(rows, keys, p.depth)
        self.hidden: dict[Node, float] = {}  # what scores are that masks of products hide
        self.staged: dict[Node, Node] = {}
        self.bases: dict[Node, Node] = {}  # what stands for the base of exponents
        self.terms = {r.total: self._over_holes(r) for r in reductions}
        # By base: what it is after this tile, and by what sums before it shrink.
        self.grown: dict[Node, dict[OwnRow, tuple[Node, Node]]] = {}

    def make(self) -> dict[Node, Registers]:
        """Go through the keys: the registers of all totals after that."""
        self._hide()
        self._make_quick()
        made: dict[Node, Registers] = {}
        largest: dict[Node, dict[OwnRow, tuple[Node, Node]]] = {}  # before and after this tile
        for one in self.reductions:
            if one.op is not Op.ADD:
                made[one.total] = {row: self._register(one) for row in self.tiles.own_rows()}
                largest[one.total] = {
                    row: self._extreme(one, row, register)
                    for row, register in made[one.total].items()
                }
        for one in self.reductions:
            if one.base is not None and one.most is not None and one.base not in self.grown:
                self.grown[one.base] = {
                    row: self._grown(one.base, one.most, row, *values)
                    for row, values in largest[one.most].items()
                }
        effects: list[Node] = []
        for one in sorted(self.reductions, key=lambda one: one.op is not Op.ADD):
            made[one.total] = self._summed(one) if one.op is Op.ADD else {
                row: self.tiles.updated(made[one.total][row], after, one.op)
                for row, (_, after) in largest[one.total].items()
            }  # fmt: skip
            effects += (e for n in made[one.total].values() for e in After.of(n).effects)
        done = (End(tuple(effects), (self.tile,)).node(),)
        return {n: {place: After(behind_after(r), done).node() for place, r in each.items()}
                for n, each in made.items()}  # fmt: skip

    def _register(self, one: Reduction) -> Node:
        return self.tiles.register(identity(one.op, one.total.dtype))

    def _extreme(self, one: Reduction, row: OwnRow, register: Node) -> tuple[Node, Node]:
        """The extreme of a row before this tile, and after it."""
        before = After(register, (self.tile,)).node()
        of_tile = self.tiles.combined(all_combined(one.op, self._row(one, row)), one.op)
        return before, combined(one.op, before, of_tile)

    def _grown(self, base: Node, most: Node, row: OwnRow, *largest: Node) -> tuple[Node, Node]:
        """The base of exponents after this tile, and by what sums before it shrink."""
        holed = without_guard(base, most).substitute({most: self.hole[most]})
        factor = next(r.factor for r in self.reductions if r.total is most)
        here = self.kernel.of_row(holed, row)
        before, after = (
            here.substitute({self.hole[most]: _times(value, factor)}) for value in largest
        )
        # Where nothing counts so far, all weights are 0.
        after = after.eq(-math.inf).where(0.0, after)
        return after, _quick_exp(before - after)

    def _summed(self, one: Reduction) -> Registers:
        """What a sum is after this tile."""
        tiles, weights, each = self.tiles, dict[OwnRow, list[Node]](), Registers()
        grown = {} if one.base is None else self.grown[one.base]
        shrunk = {row: by for row, (_, by) in grown.items()}
        for row in tiles.own_rows():
            weights[row] = self._row(one, row)
            if one.value is None:
                each[row] = self._register(one)
                if shrunk:
                    each[row] = tiles.updated(each[row], shrunk[row], Op.MUL)
                each[row] = tiles.updated(each[row], all_combined(Op.ADD, weights[row]), Op.ADD)
        if one.value is None:
            return each
        assert self.found.column is not None
        sums = [tiles.sums(loop_size(self.found.column)) for _ in range(tiles.size.each[0])]
        for product, mine in enumerate(sums):
            if shrunk:
                by = [shrunk[product, tiles.first[n]] for n in range(tiles.out.count)]
                all_by = tiles.stacked(by * (mine[0].dtype.count // len(by)))
                mine[:] = [tiles.updated(total, all_by, Op.MUL) for total in mine]
        values = tiles.of_keys(one.value, self.found.column, are_steps=True)
        tiles.add_weighed(sums, weights, values)
        return {(row, block): n for row, mine in enumerate(sums) for block, n in enumerate(mine)}

    # -- terms ------------------------------------------------------------------------------------

    def _over_holes(self, one: Reduction) -> Node:
        """The term with holes for what a row's reductions have given."""
        holes = {n: self.hole[n] for n in self.kernel.totals}
        if one.base is not None:
            holes[one.base] = self.bases.setdefault(one.base, self.kernel.number())
        return one.term.substitute(holes)

    def _hide(self) -> None:
        """Take masks off the terms of products that hide their scores, and note what those are.

        Scores are hidden where nothing is left of any term that is computed from them.
        """
        for sums in self.scores:
            hole, least = self.hole[sums], {sums: -math.inf}
            uses = [r for r in self.reductions if reads(self.terms[r.total], {sums})]
            holed = [self.terms[r.total].substitute({sums: hole}) for r in uses]
            masks = common(*(needed(n, r.op) for n, r in zip(holed, uses, strict=True)))
            plain = {r.total: shown(self.terms[r.total], masks) for r in uses}
            if any(hole in condition.toposort() for condition in masks):
                continue
            if not all(_is_identity(plain[r.total], r, least) for r in uses):
                continue
            scores = self.tiles.hide(self.scores[sums], all_of(masks))
            if scores is not None:
                self.scores[sums] = scores
                self.terms |= plain
                self.hidden |= least

    def _make_quick(self) -> None:
        """Make terms quick ones over holes, with STAGEs for what keys alone decide."""
        row, key = self.found.row, self.found.key
        quick = {total: _quick(term, row, key) for total, term in self.terms.items()}
        holes = {sums: self.hole[sums] for sums in self.scores}
        for part in of_keys_alone(quick.values(), row, key):
            holes[part] = self.kernel.number()
            self.staged[holes[part]] = self._staged(part)
        self.terms = {total: term.substitute(holes) for total, term in quick.items()}

    def _staged(self, part: Node) -> Node:
        """Something of each of the tile's keys, computed by one work item each."""
        work_items, keys = self.tiles.work_items, self.tiles.size.columns
        work_item = self.tiles.moves.loop(work_items, "local")
        value = self.tiles.at(part, {self.found.key: self.tiles.first_key + work_item % keys})
        gate = TRUE if keys == work_items else simplify(work_item < keys)
        arg = StageArg("shared", (keys,), self.tiles.size.buffers)
        read = (Node.index(0),)
        return Stage(value, gate, (work_item,), read, (work_item,), arg, part.dtype).node()

    def _row(self, one: Reduction, row: OwnRow) -> list[Node]:
        """The term of a reduction for each of the keys of a tile that a work item has of a row."""
        tiles, hole, term = self.tiles, self.hole, self.terms[one.total]
        known = {hole[n]: value for n, value in self.kernel.known[row].items()}
        if one.base is not None:
            known[self.bases[one.base]], _ = self.grown[one.base][row]
        # Where there is no such key, what was stored of it reads as 0, which nothing divides by.
        hidden = {hole[n]: value for n, value in self.hidden.items()}
        is_nothing = bool(hidden) and _is_identity(term, one, hidden, False)
        elements, values = map(Node.index, tiles.elements[row[1]]), []
        for block, number in itertools.product(range(tiles.size.each[1]), elements):
            place = tiles.column_of(block, number)
            key = tiles.first_key + place
            for sums, scores in self.scores.items():
                known[hole[sums]] = tiles.lane_of(scores[row[0]], block, number)
            for staged, stage in self.staged.items():
                known[staged] = Stage.of(stage)._replace(read=(simplify(place),)).node()
            here = tiles.at(term, {self.found.row: tiles.row_of(*row), self.found.key: key})
            inside = TRUE if is_nothing else tiles.is_inside(self.found.key, key)
            none = identity(one.op, one.total.dtype)
            values.append(inside.where(here.substitute(known), none))
        return values


def _times(value: Node, factor: Node) -> Node:
    return value if factor.value == 1 else value * factor


def _is_identity(
    term: Node, of: Reduction, known: dict[Node, float], others_are_finite: bool = True
) -> bool:
    """Whether a term changes nothing where the nodes `known` are such numbers."""
    return value_where(term, known, others_are_finite) == identity(of.op, of.total.dtype).value


def _quick_exp(value: Node) -> Node:
    """The target's quick power of e."""
    return Node(Op.QUICK_EXP2, value.dtype, (_scaled(value, LOG2_E),))


def _quick(root: Node, row: Node, key: Node) -> Node:
    """A term with what is quicker for sums of it that are rounded to 16 bits.

    Exponentials are powers of two, what is divided is multiplied by the inverse if that is of a row
    or a key alone, and nothing is rounded on the way.
    """
    free, new = free_ranges(root), {}
    for node in root.toposort(lambda n: n.op is not Op.REDUCE):
        if node.op is Op.REDUCE:
            new[node] = node
            continue
        src = tuple(new[s] for s in node.src)
        changed = node if src == node.src else node.replace(src=src)
        if node.op is Op.CAST and node.dtype.is_float:
            changed = unrounded(changed)
        elif node.op is Op.EXP:
            changed = _quick_exp(src[0])
        new[node] = changed
        if node.op is Op.FDIV:
            (_, divisor), (number, by) = operands(node), src
            if not {row, key} <= free[divisor]:
                new[node] = number * (Node.const(node.dtype, 1.0) / by)
    return new[root]


def _scaled(node: Node, factor: float) -> Node:
    """`node` times a factor, which is brought to where a constant is."""
    if node.op is Op.CONST:
        return Node.const(node.dtype, node.arg * factor)
    if node.op is Op.WHERE:
        condition, yes, no = node.src
        return condition.where(_scaled(yes, factor), _scaled(no, factor))
    if node.op not in (Op.ADD, Op.SUB, Op.MUL):
        return node * factor
    one, other = operands(node)
    if node.op in (Op.ADD, Op.SUB):
        return _scaled(one, factor).alu(node.op, _scaled(other, factor))
    return one * (other.arg * factor) if other.op is Op.CONST else node * factor
