"""Blocks of rows against tiles of keys on matrix units: what kernels of attention have in common.

A workgroup has a block of rows, each of its subgroups some of them, and goes through tiles of keys.
What a work item has of the sums of one product (see matrix_units.py) is what it needs as words of x
for the next: rows g and g + 8, columns 2t and 2t + 1 of two neighbouring products are k of one. So
what is computed of scores goes from one product to the other as it is, in registers, and a row is
in four neighbouring work items.

Words are read from shared memory step by step of k, and all products of a subgroup use them. What
a tile takes by count is on the page docs/design/attention.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ..dtype import dtypes
from ..ir.args import RegisterRef
from ..ir.attention import EACH, is_kept, narrow_factor
from ..ir.loops import TRUE, Split, loop_size, replace_ranges
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import After, Update
from ..target import RESERVED, MatrixUnit, Workgroup
from .choose_tile import Tile, workgroups_at_a_time
from .fragments import FragmentOperand, staged
from .masked_bounds import Span, limits_of
from .moves import Moves
from .nest import Nest
from .row_blocking import fills_of, is_along_row
from .unit_loops import place_in

__all__ = [
    "BUFFERS", "HELD", "HOLE", "LOG2_E", "SUBGROUPS", "Tiles", "blocks", "choose_block", "lane_of",
    "placeholder", "power_of_two", "quad", "quick_exp2", "tree",
]  # fmt: skip

HELD = 128  # columns of rows whose words stay in registers; of more they are read for each tile
LOG2_E = 1 / math.log(2)
SUBGROUPS = 4
BUFFERS = 2


def placeholder(number: int = 0) -> Node:
    """What stands for a value while the loops around it are replaced."""
    first = Node.const(dtypes.float32, 0)
    return Node(Op.REGISTER, dtypes.float32, (first,), RegisterRef(-number))


HOLE = placeholder()


def blocks(unit: MatrixUnit, *sizes: tuple[int, int]) -> list[Tile]:
    """Tiles of so many products of rows for each subgroup, one above the other, and of keys."""
    found = [(products, keys // unit.columns) for products, keys in sizes]
    return [
        Tile((unit.rows, unit.columns), each, (SUBGROUPS, 1), buffers=BUFFERS) for each in found
    ]


def choose_block(
    tiles: Sequence[Tile], nbytes: Callable[[Tile], int], results: int, workgroup: Workgroup
) -> Tile:
    """The first of `tiles` of which two workgroups fit, else one; few rows for few results.

    `nbytes` is the shared memory of a workgroup that computes `results` rows with others.
    """
    if results < tiles[0].rows * workgroup.busy:
        tiles = [tile for tile in tiles if tile.each[0] == 1]
    return max(tiles, key=lambda tile: workgroups_at_a_time(nbytes(tile), workgroup, RESERVED))


class Tiles:
    """The loops of such a kernel, and what it holds of shared memory and registers."""

    def __init__(
        self, moves: Moves, unit: MatrixUnit, row: Node, key: Node, batch: Iterable[Node],
        size: Tile,
    ) -> None:  # fmt: skip
        self.moves, self.unit, self.row, self.key, self.size = moves, unit, row, key, size
        self.blocks = -(-loop_size(row) // size.rows)
        loop = moves.loop(self.blocks, "grid") if self.blocks > 1 else Node.index(0)
        self.batch = {r: moves.loop(loop_size(r), "grid") for r in batch}
        self.grid = (*self.batch.values(), *((loop,) if self.blocks > 1 else ()))
        self.block = loop
        self.subgroup = moves.loop(SUBGROUPS, "local")
        _, _, self.out = unit.held
        lane = [moves.loop(digit.extent, "local") for digit in reversed(self.out.lanes)]
        self.lane = tuple(reversed(lane))  # digits of a work item's number, the lowest first
        self.registers = 0
        self.held = size.each[0]  # rows of 16 whose words a work item would hold at a time
        self.span: Span | None = None
        self.operands: dict[tuple[Node, int], FragmentOperand] = {}
        self.inside: dict[int, Node] = {}
        self.tile = self.first_key = Node.index(0)  # of the pass over the keys that is being made

    @property
    def loops(self) -> tuple[Node, ...]:
        """Those of workgroups, then of work items."""
        return (*self.grid, self.subgroup, *self.lane[::-1])

    # -- places ---------------------------------------------------------------------------------

    def limit(self, nest: Nest, column: Node) -> None:
        """Let blocks go through no more keys than masks leave to their rows.

        Those that have most of them come first: what is left at the end is short.
        """
        order = nest.node.toposort()
        fills = fills_of(filter(is_kept, order))
        limits = limits_of(filter(is_along_row, order), fills, loop_size(self.key))
        if limits is None:
            return
        if limits.ends and self.block.op is Op.RANGE:
            self.block = self.blocks - 1 - self.block
        around = frozenset(nest.loops) - {column}
        first = self.block * self.size.rows
        self.span = limits.of_rows(self.row, first, self.size.rows, around)

    def over_keys(self) -> Node:
        """Begin a pass: a loop over the tiles of keys that count for the rows of a block."""
        whole = self.moves.loop(-(-loop_size(self.key) // self.size.columns))
        self.tile, self.first_key = whole, whole * self.size.columns
        if self.span is not None:
            split = self.span.substitute(self.batch).loop(whole, self.size.columns)
            self.tile, self.first_key = split.ranges[0], simplify(split.expr * self.size.columns)
        return self.tile

    def at(self, node: Node, places: dict[Node, Node]) -> Node:
        """`node` at places of this workgroup's in some loops; nothing is read outside of them."""
        splits = {r: Split(new, (new,)) for r, new in self.batch.items()}
        for loop, place in places.items():
            splits[loop] = Split(simplify(place), (), self.is_inside(loop, place))
        return replace_ranges(node, splits)

    def is_inside(self, loop: Node, place: Node) -> Node:
        """Whether a loop has such a step, which keys of a tile always are if tiles are whole."""
        if loop is self.key and loop_size(loop) % self.size.columns == 0:
            return TRUE
        guard = simplify(place < loop_size(loop))
        return TRUE if guard.value == 1 else guard

    def row_of(self, product: int, half: int) -> Node:
        """The row of a work item that is in the upper or lower half of a product."""
        number = self.subgroup * self.size.each[0] + product
        row, _ = place_in(self.out, self.lane, Node.index(half * 2))
        return self.block * self.size.rows + number * self.unit.rows + row

    def column_of(self, block: int, side: Node) -> Node:
        """One of the two neighbouring columns of eight that a work item has."""
        _, column = place_in(self.out, self.lane, side)
        return column + block * self.unit.columns

    def halves(self) -> list[tuple[int, int]]:
        """Which products of rows there are, each with its upper and lower half."""
        return [(product, half) for product in range(self.size.each[0]) for half in range(2)]

    def of_rows(self, factor: Node, depth: Node) -> FragmentOperand:
        """A factor of the block's rows, along `depth`."""
        return self._staged(factor, self.row, self.block * self.size.rows, self.size.rows, depth, 1)

    def of_keys(self, factor: Node, inner: Node) -> FragmentOperand:
        """A factor of the tile of keys, along `inner`: a line for each key."""
        return self._staged(factor, self.key, self.first_key, self.size.columns, inner, BUFFERS)

    def _staged(
        self, factor: Node, loop: Node, first: Node, lines: int, inner: Node, buffers: int
    ) -> FragmentOperand:
        """So many lines of a factor from `first` on; what is the same lies in memory once."""
        long = power_of_two(inner)
        line, along = self._inside(lines), self._inside(-long)
        places = {loop: first + line, inner: along}
        here = simplify(self.at(narrow_factor(factor, self.unit.dtype), places))
        if (here, buffers) not in self.operands:
            work_items, whole = SUBGROUPS * self.out.width, Split(line, (line,))
            made = staged(self.moves, here, whole, along, long, work_items, buffers, self.unit.load)
            self.operands[here, buffers] = made
        return self.operands[here, buffers]

    def _inside(self, size: int) -> Node:
        """A loop of lines, or of so many elements of them as -size."""
        if size not in self.inside:
            self.inside[size] = self.moves.loop(abs(size))
        return self.inside[size]

    # -- registers ------------------------------------------------------------------------------

    def register(self, first: Node, *loops: Node) -> Node:
        self.registers += 1
        return Node(
            Op.REGISTER, first.dtype, (first, *self.grid, *loops), RegisterRef(self.registers)
        )

    def updated(self, register: Node, value: Node, op: Op, *before: Node) -> Node:
        """`register` combined with `value`, after what has happened to it and `before`."""
        if before:
            happened = After.of(register).effects if register.op is Op.AFTER else ()
            register = After(behind_after(register), (*happened, *before)).node()
        update = Update(register, value, (self.tile,), op).node()
        return After(behind_after(register), (update,)).node()

    # -- products -------------------------------------------------------------------------------

    def add_products(
        self,
        sums: list[list[Node]],
        steps: int,
        left: Callable[[int, int], list[Node]],
        right: Callable[[int, int], list[Node]],
    ) -> None:
        """Add products to `sums` of each product of rows, by blocks of eight columns.

        `left(product, step)` and `right(block, step)` are a work item's words of both factors. A
        step comes after all of the one before, so that words are read shortly before they are used.
        """
        done: list[Node] = []
        dtype = self.unit.sums.vec(self.out.count)
        for step in range(steps):
            words = [left(product, step) for product in range(len(sums))]
            now: list[Node] = []
            for block in range(len(sums[0])):
                y = right(block, step)
                for mine, x in zip(sums, words, strict=True):
                    product = Node(Op.MMA, dtype, (*x, *y), self.unit.name)
                    mine[block] = self.updated(mine[block], product, Op.ADD, *done)
                    now += After.of(mine[block]).effects
            done = now

    def scores(self, rows: FragmentOperand, keys: FragmentOperand, depth: Node) -> list[list[Node]]:
        """The sums of products of rows and a tile's keys that a work item has, by eight keys."""
        again = (self.tile,) if power_of_two(depth) * self.held > HELD else ()
        sums = [self.sums(self.size.columns, self.tile) for _ in range(self.size.each[0])]
        self.add_products(
            sums, loop_size(depth) // EACH,
            lambda product, step: self.words_of_x(rows, product, step, *again),
            lambda block, step: self.words_of_y(keys, block, step),
        )  # fmt: skip
        return sums

    def sums(self, columns: int, *loops: Node) -> list[Node]:
        """Registers for a work item's sums of so many columns of a product of rows, first 0."""
        none = (Node.const(self.unit.sums, 0),) * self.out.count
        first = Node(Op.STACK, self.unit.sums.vec(self.out.count), none)
        return [self.register(first, *loops) for _ in range(columns // self.unit.columns)]

    def add_weighed(
        self, sums: list[list[Node]], weights: list[list[list[Node]]], values: FragmentOperand
    ) -> list[Node]:
        """Add weights of a tile's keys times their values to `sums`; the effects.

        `weights` are values by product of rows, half and key. Packed, those of both halves are the
        words of x in the order in which a work item holds sums.
        """
        packed = [[self._packed(half) for half in mine] for mine in weights]

        def left(product: int, step: int) -> list[Node]:
            return [packed[product][n % 2][step * 2 + n // 2] for n in range(4)]

        right = lambda block, step: self.words_of_y(values.swapped(), block, step)
        self.add_products(sums, self.size.columns // EACH, left, right)
        return [effect for mine in sums for one in mine for effect in After.of(one).effects]

    def words_of_x(
        self, operand: FragmentOperand, product: int, step: int, *again: Node
    ) -> list[Node]:
        """A work item's words of one product's rows; read anew in each step of loops `again`."""
        held, _, _ = self.unit.held
        line = (self.subgroup * self.size.each[0] + product) * self.unit.rows
        deep = Node.index(step * self.unit.steps)
        words = operand.words(held, self.lane, line, deep, again)
        return [words(Node.index(number)) for number in range(held.count)]

    def words_of_y(self, operand: FragmentOperand, block: int, step: int) -> list[Node]:
        """A work item's words of eight columns; those of two times eight are read at once."""
        _, held, _ = self.unit.held
        first, second = divmod(block, 2)
        line = Node.index(first * 2 * self.unit.columns)
        deep = Node.index(step * self.unit.steps)
        words = operand.words(held.tiled((2, 1)), self.lane, line, deep)
        return [words(Node.index(second * held.count + n)) for n in range(held.count)]

    def _packed(self, values: list[Node]) -> list[Node]:
        """Neighbouring values as words."""
        return [
            Node(Op.HALVES, dtypes.uint32, tuple(values[n : n + 2]), self.unit.dtype.name)
            for n in range(0, len(values), 2)
        ]

    # -- results --------------------------------------------------------------------------------

    def stores(
        self, store: Node, total: Node, column: Node, pair: Node,
        result: Callable[[int, int, int], Node],
    ) -> list[Node]:  # fmt: skip
        """The STOREs of neighbouring results, which the loop `pair` goes through.

        `store` is that of `total`, and `result(product, half, block)` what a work item has instead.
        """
        holed, stores = store.substitute({total: HOLE}), []
        for product, half in self.halves():
            for block in range(loop_size(column) // self.unit.columns):
                places = {self.row: self.row_of(product, half),
                          column: self.column_of(block, pair)}  # fmt: skip
                value = result(product, half, block)
                stores.append(self.at(holed, places).substitute({HOLE: value}))
        return stores


def power_of_two(loop: Node) -> int:
    """How long lines along `loop` are: longer, so that they can be swizzled."""
    return 1 << (loop_size(loop) - 1).bit_length()


def quad(value: Node, op: Op) -> Node:
    return Node(Op.QUAD, value.dtype, (value,), op)


def quick_exp2(value: Node) -> Node:
    return Node(Op.QUICK_EXP2, value.dtype, (value,))


def tree(values: list[Node], op: Op) -> Node:
    while len(values) > 1:
        pairs = (values[n : n + 2] for n in range(0, len(values), 2))
        values = [pair[0].alu(op, *pair[1:]) if pair[1:] else pair[0] for pair in pairs]
    return values[0]


def lane_of(sums: Node, number: Node) -> Node:
    return Node(Op.EXTRACT, sums.dtype.scalar, (sums, number))
