"""Attention on matrix units: the weights of a tile of keys never leave registers.

    out[i, c] = sum over j of softmax(s[i, :])[j] * y[j, c]         (ir/attention.py)

A group computes a block of rows, each of its subgroups some of them, and goes through the keys
once, a tile at a time. For every row it carries the largest score so far, the sum of the weights,
and the sums of weights times y, all as if that score were the largest of all:

    for each tile of keys:
        s = products of q and the tile's keys                           MMAs
        most' = max(most, max of s);  shrunk = exp(most - most')
        w = exp(s - most')
        sum = sum * shrunk + sum of w
        out = out * shrunk + w @ y                                      MMAs
        most = most'
    out / sum

What an item has of the sums of one product (see matrix_units.py) is what it needs as words of x for
the next: rows g and g + 8, columns 2t and 2t + 1 of two neighbouring products are k of one. So
weights go from one product to the other as they are, and a row is in four neighbouring items.

Tiles of keys and of y arrive by asynchronous copies in two buffers. What a mask cuts off of all
rows of a block is not gone through.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.args import RegisterRef
from ..ir.attention import EACH, Attention, is_kept, narrow_factor, recognise_attention, unit_of
from ..ir.loops import TRUE, Split, replace_ranges, steps_of
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import MatrixUnit, Target
from .blocks import is_along_row
from .fragments import GROUPS_OF_LINES, WORDS, Lane, Operand, staged
from .moves import Moves
from .nest import Nest
from .tails import Span, limits_of

__all__ = ["attend_in_tiles"]

SUBGROUPS = 4
KEYS = 64  # of a tile
MANY_COLUMNS = 64  # with more of them, a subgroup has the rows of one product
BUFFERS = 2


def attend_in_tiles(moves: Moves, target: Target) -> None:
    """Put every kernel of `moves` that is attention on matrix units."""
    for nest in moves.nests():
        found = recognise_attention(nest.node)
        unit = found and unit_of(found, target.matrix_units)
        if found is not None and unit is not None:
            _Tiles(moves, nest, found, unit, target).make()


@dataclass(frozen=True)
class _Row:
    """What a loop over the keys carries for one row of an item, in registers."""

    most: Node
    total: Node


class _Tiles:
    """One kernel in the making."""

    def __init__(
        self, moves: Moves, nest: Nest, found: Attention, unit: MatrixUnit, target: Target
    ) -> None:
        self.moves, self.nest, self.found, self.unit, self.target = moves, nest, found, unit, target
        self.products = self._products_of_a_subgroup()
        self.rows = EACH * self.products * SUBGROUPS
        blocks = -(-steps_of(found.row) // self.rows)
        self.block = moves.loop(blocks, "grid") if blocks > 1 else Node.index(0)
        self.batch = {r: moves.loop(steps_of(r), "grid") for r in found.batch}
        self.grid = (*self.batch.values(), *((self.block,) if blocks > 1 else ()))
        self.subgroup = moves.loop(SUBGROUPS, "local")
        self.lane = Lane(moves.loop(GROUPS_OF_LINES, "local"), moves.loop(WORDS, "local"))
        self.pair = moves.loop(2, "vector")  # neighbouring results are stored at once
        self.tile, self.first_key = self._tiles_of_keys()
        self.registers = 0

    def _products_of_a_subgroup(self) -> int:
        """One above the other, so that each reads words of keys and y for more rows."""
        found, group = self.found, self.target.workgroup
        assert group is not None
        results = steps_of(found.row) * steps_of(*found.batch)
        is_many = results >= 2 * EACH * SUBGROUPS * group.busy
        wide = max(steps_of(found.column), steps_of(found.depth))
        return 2 if is_many and wide <= MANY_COLUMNS else 1

    def _tiles_of_keys(self) -> tuple[Node, Node]:
        """The loop over tiles, and the first key of each."""
        tiles = -(-steps_of(self.found.key) // KEYS)
        whole, span = self.moves.loop(tiles), self._span()
        if span is None:
            return whole, whole * KEYS
        split = span.substitute(self.batch).loop(whole, KEYS)
        return split.ranges[0], simplify(split.expr * KEYS)

    def _span(self) -> Span | None:
        """The keys that count for the rows of a block, if a mask says that it is not all."""
        order = self.nest.node.toposort()
        fills = {n.src[2]: n.src[0] for n in order if is_kept(n)}
        limits = limits_of(filter(is_along_row, order), fills, steps_of(self.found.key))
        around = frozenset(self.nest.loops) - {self.found.column}
        first = self.block * self.rows
        return limits and limits.of_rows(self.found.row, first, self.rows, around)

    def make(self) -> None:
        """Replace the nest."""
        products = range(self.products)
        query, keys, values = self._operands()
        blocks = range(steps_of(self.found.column) // GROUPS_OF_LINES)
        rows = [[self._carried(), self._carried()] for _ in products]
        sums = [[self._register(_zeros(self.unit)) for _ in blocks] for _ in products]
        effects: list[Node] = []
        for number in products:
            scores = self._scores(number, query, keys)
            weighed = [self._weigh(number, half, scores, rows[number][half]) for half in range(2)]
            weights = [weights for weights, _, _ in weighed]
            effects += [effect for _, _, carried in weighed for effect in carried]
            shrunk = [one for _, one, _ in weighed for _ in range(2)]
            all_shrunk = Node(Op.STACK, sums[number][0].dtype, tuple(shrunk))
            effects += self._add(sums[number], all_shrunk, weights, values)
        done = Node(Op.END, dtypes.void, (*effects, self.tile), len(effects))
        stores = [
            self._store(number, half, block, row, register, done)
            for number in products
            for half, row in enumerate(rows[number])
            for block, register in enumerate(sums[number])
        ]
        loops = (*self.grid, self.subgroup, *self.lane, self.pair)
        end = Node(Op.END, dtypes.void, (*stores, *loops), len(stores))
        self.moves.root = simplify(self.moves.root.substitute({self.nest.node: end}))
        self.moves.log.append(
            f"{self.rows} rows by tiles of {KEYS} keys on matrix units, weights in registers"
        )

    # -- places ---------------------------------------------------------------------------------

    def _at(self, node: Node, places: dict[Node, Node]) -> Node:
        """`node` at places of this group's in some loops; nothing is read outside of them."""
        splits = {r: Split(new, (new,)) for r, new in self.batch.items()}
        for loop, place in places.items():
            guard = simplify(place < steps_of(loop))
            splits[loop] = Split(simplify(place), (), TRUE if guard.value == 1 else guard)
        return replace_ranges(node, splits)

    def _row(self, product: int, half: int) -> Node:
        """The row of an item that is in the upper or lower half of a product."""
        number = (self.subgroup * self.products + product) * 2 + half
        return self.block * self.rows + number * GROUPS_OF_LINES + self.lane.g

    def _operands(self) -> tuple[Operand, Operand, Operand]:
        """The rows of q; a tile of keys; y for a tile of keys."""
        found = self.found
        # Lines are as long as the next power of two: that is how they can be swizzled.
        long, wide = (1 << (steps_of(r) - 1).bit_length() for r in (found.depth, found.column))
        row, depth, key, column = map(self.moves.loop, (self.rows, long, KEYS, wide))
        this_row, this_key = self.block * self.rows + row, self.first_key + key
        along = {found.depth: depth}
        return (
            self._staged(found.query, {found.row: this_row, **along}, row, depth, 1),
            self._staged(found.of_key, {found.key: this_key, **along}, key, depth, BUFFERS),
            self._staged(
                found.value, {found.key: this_key, found.column: column}, column, key, BUFFERS
            ),
        )

    def _staged(
        self, factor: Node, places: dict[Node, Node], line: Node, inner: Node, buffers: int
    ) -> Operand:
        """A factor at `places`, which are made of the loops `line` and `inner` of a slice."""
        here = self._at(narrow_factor(factor, self.unit.dtype), places)
        items, whole = SUBGROUPS * GROUPS_OF_LINES * WORDS, Split(line, (line,))
        return staged(self.moves, here, whole, inner, steps_of(inner), items, buffers)

    # -- registers ------------------------------------------------------------------------------

    def _register(self, first: Node, *loops: Node) -> Node:
        self.registers += 1
        return Node(
            Op.REGISTER, first.dtype, (first, *self.grid, *loops), RegisterRef(self.registers)
        )

    def _carried(self) -> _Row:
        least, none = (Node.const(self.unit.sums, n) for n in (-math.inf, 0))
        return _Row(self._register(least), self._register(none))

    def _updated(self, register: Node, value: Node, op: Op) -> Node:
        """`register` combined with `value`, after what has happened to it before."""
        update = Node(Op.UPDATE, dtypes.void, (register, value, self.tile), op)
        return Node(Op.AFTER, register.dtype, (behind_after(register), update))

    # -- a tile of keys -------------------------------------------------------------------------

    def _multiplied(self, words: list[Node]) -> Node:
        return Node(Op.MMA, self.unit.sums.vec(4), tuple(words), self.unit.name)

    def _scores(self, product: int, query: Operand, keys: Operand) -> list[Node]:
        """The sums of products of q and the tile's keys that an item has, by eight keys."""
        upper = (self.subgroup * self.products + product) * 2
        sums = [
            self._register(_zeros(self.unit), self.tile) for _ in range(KEYS // GROUPS_OF_LINES)
        ]
        for step in range(steps_of(self.found.depth) // EACH):
            left = self._words_of_x(query, upper, step)
            for block in range(len(sums)):
                right = self._words_of_y(keys, block, step)
                sums[block] = self._updated(sums[block], self._multiplied(left + right), Op.ADD)
        return sums

    def _words_of_x(self, operand: Operand, upper: Node, step: int) -> list[Node]:
        """An item's words of the rows of one product, from eighth `upper` on."""
        words = operand.words(4, self.lane, lambda n: n % 2 + upper, lambda n: n // 2 + 2 * step)
        return [words(Node.index(number)) for number in range(4)]

    def _words_of_y(self, operand: Operand, block: int, step: int) -> list[Node]:
        """An item's words of eight columns; those of two times eight are read at once."""
        first = block // 2 * 2
        words = operand.words(4, self.lane, lambda n: n // 2 + first, lambda n: n % 2 + 2 * step)
        return [words(Node.index(block % 2 * 2 + n)) for n in range(2)]

    def _weigh(
        self, product: int, half: int, sums: list[Node], row: _Row
    ) -> tuple[list[Node], Node, list[Node]]:
        """The weights of one row as words, by what those before them shrink, and effects."""
        scores = [
            self._score(product, half, block, side, _lane(one, Node.index(half * 2 + side)))
            for block, one in enumerate(sums)
            for side in range(2)
        ]
        before = Node(Op.AFTER, row.most.dtype, (row.most, self.tile))
        most = before.maximum(_quad(_tree(scores, Op.MAX), Op.MAX))
        # Where nothing counts so far, all weights are 0.
        base = most.eq(-math.inf).where(0.0, most)
        base = base * _LOG2_E
        shrunk, *weights = (_quick_exp2(n * _LOG2_E - base) for n in (before, *scores))
        total = self._updated(row.total, shrunk, Op.MUL)
        effects = [
            self._updated(row.most, most, Op.MAX).src[1],
            self._updated(total, _tree(weights, Op.ADD), Op.ADD).src[1],
        ]
        words = [self._packed(*weights[n : n + 2]) for n in range(0, len(weights), 2)]
        return words, shrunk, effects

    def _score(self, product: int, half: int, block: int, side: int, total: Node) -> Node:
        """s of an item's row and one of its two keys of each eight."""
        key = self.first_key + self.lane.t * 2 + (block * GROUPS_OF_LINES + side)
        scores = self.found.scores.substitute({self.found.product: _HOLE})
        places = {self.found.row: self._row(product, half), self.found.key: key}
        score = self._at(scores, places).substitute({_HOLE: total})
        guard = simplify(key < steps_of(self.found.key))
        return score if guard.value == 1 else guard.where(score, -math.inf)

    def _packed(self, low: Node, high: Node) -> Node:
        """Two weights as a word."""
        low, high = (
            n.cast(self.unit.dtype).bitcast(dtypes.uint16).cast(dtypes.uint32) for n in (low, high)
        )
        return low | (high << 16)

    def _add(
        self, sums: list[Node], shrunk: Node, weights: list[list[Node]], values: Operand
    ) -> Iterator[Node]:
        """Effects that make sums of weights times y include a tile."""
        for block, register in enumerate(sums):
            total = self._updated(register, shrunk, Op.MUL)
            for step in range(KEYS // EACH):
                left = [weights[n % 2][step * 2 + n // 2] for n in range(4)]
                right = self._words_of_y(values, block, step)
                total = self._updated(total, self._multiplied(left + right), Op.ADD)
            yield total.src[1]

    def _store(
        self, product: int, half: int, block: int, row: _Row, register: Node, done: Node
    ) -> Node:
        """The STORE of two neighbouring results."""
        found = self.found
        sums = Node(Op.AFTER, register.dtype, (register, done))
        total = _quad(Node(Op.AFTER, row.total.dtype, (row.total, done)), Op.ADD)
        if found.gives_zero:
            total = total.eq(0.0).where(1.0, total)
        result = _lane(sums, simplify(self.pair + half * 2)) / total
        column = self.lane.t * 2 + self.pair + block * GROUPS_OF_LINES
        store = found.store.substitute({found.total: _HOLE})
        places = {found.row: self._row(product, half), found.column: column}
        return self._at(store, places).substitute({_HOLE: result})


_LOG2_E = 1 / math.log(2)

# What stands for a sum while the loops around it are replaced.
_HOLE = Node(Op.REGISTER, dtypes.float32, (Node.const(dtypes.float32, 0),), RegisterRef(0))


def _zeros(unit: MatrixUnit) -> Node:
    return Node(Op.STACK, unit.sums.vec(4), (Node.const(unit.sums, 0),) * 4)


def _lane(sums: Node, number: Node) -> Node:
    return Node(Op.EXTRACT, sums.dtype.scalar, (sums, number))


def _quad(value: Node, op: Op) -> Node:
    return Node(Op.QUAD, value.dtype, (value,), op)


def _quick_exp2(value: Node) -> Node:
    return Node(Op.QUICK_EXP2, value.dtype, (value,))


def _tree(values: list[Node], op: Op) -> Node:
    while len(values) > 1:
        pairs = (values[n : n + 2] for n in range(0, len(values), 2))
        values = [pair[0].alu(op, *pair[1:]) if pair[1:] else pair[0] for pair in pairs]
    return values[0]
