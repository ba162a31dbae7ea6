"""Blocks of rows against tiles of keys on matrix units: loops, shared memory and registers.

A workgroup has a block of rows, each of its subgroups some of them, and goes through tiles of keys.
What a work item has of the sums of one product is what it needs as words of a factor for the next
(target/chain.py). With mma.sync rows g and g + 8, columns 2t and 2t + 1 of two neighbouring
products are k of one. So what is computed of scores goes from one product to the other as it is, in
registers, and a row is in a few work items of a subgroup.

Words are read from shared memory step by step of k, and all products of a subgroup use them. What
a tile takes by count is on the page docs/design/attention.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..dtype import dtypes
from ..ir.args import ButterflyArg, RegisterRef
from ..ir.carried_units import SUBGROUPS, buffers_of, narrow_factor, power_of_two
from ..ir.conditions import all_of, constraints, parts
from ..ir.loops import TRUE, Split, loop_size, replace_ranges
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import After, End, Update
from ..target import Fragment, MatrixUnit, Workgroup, chain_of
from .choose_tile import Tile, workgroups_at_a_time
from .layout import Slices
from .masked_bounds import Span, extreme, span_of_rows
from .matrix_units import FragmentOperand, staged
from .moves import Moves
from .shared_tiles import place_in

__all__ = ["OwnRow", "Tiles", "choose_block", "lane_of", "placeholder", "tree"]

HELD = 128  # columns of rows whose words stay in registers; of more they are read for each tile
FEWER = (16, 16), (8, 32), (8, 16)  # rows of a subgroup, and keys, where memory is short

OwnRow = tuple[int, int]  # a product of rows, and the first element of a work item in one of them
Words = Callable[[int, int], list[Node]]  # of a product or a block, at a step


def placeholder(number: int) -> Node:
    """What stands for a value while the loops around it are replaced."""
    first = Node.const(dtypes.float32, 0)
    return Node(Op.REGISTER, dtypes.float32, (first,), RegisterRef(-number))


def _blocks(unit: MatrixUnit, sizes: Iterable[tuple[int, int]]) -> list[Tile]:
    """Tiles of so many rows for each subgroup, in products one above the other, and of keys."""
    chain = chain_of(unit)
    assert chain is not None
    high, wide = chain.sums.shape
    return [
        Tile((high, wide), (rows // high, keys // wide), (SUBGROUPS, 1), buffers=buffers_of(unit))
        for rows, keys in sizes
        if rows % high == 0 and keys % unit.steps == 0
    ]


def choose_block(
    unit: MatrixUnit, sizes: Iterable[tuple[int, int]], nbytes: Callable[[Tile], int],
    results: int, workgroup: Workgroup,
) -> Tile:  # fmt: skip
    """The first tile of `sizes` of which two workgroups fit, else one; few rows for few results.

    `nbytes` is the shared memory of a workgroup that computes `results` rows with others. If none
    fits, it is the first that does of fewer rows or keys.
    """
    assert unit.tiling is not None
    reserved = unit.tiling.reserved
    fitting = lambda tile: workgroups_at_a_time(nbytes(tile), workgroup, reserved)
    tiles = _blocks(unit, sizes)
    if results < tiles[0].rows * workgroup.busy:
        tiles = [tile for tile in tiles if tile.rows == tiles[-1].rows]
    return next(filter(fitting, (max(tiles, key=fitting), *_blocks(unit, FEWER))))


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
        chain = chain_of(unit)
        assert chain is not None
        self.chain, self.out, self.elements = chain, chain.sums, chain.elements
        of_row = {n: first for first, own in self.elements.items() for n in own}
        self.first = dict(sorted(of_row.items()))  # the first element of the row of each
        lane = [moves.loop(digit.extent, "local") for digit in reversed(self.out.lanes)]
        self.lane = tuple(reversed(lane))  # digits of a work item's number, the lowest first
        self.registers = 0
        self.held = size.each[0]  # rows of 16 whose words a work item would hold at a time
        self.span: Span | None = None
        self.operands: dict[tuple[Node, int, bool], FragmentOperand] = {}
        self.inside: dict[int, Node] = {}
        self.tile = self.first_key = Node.index(0)  # of the pass over the keys that is being made

    @property
    def loops(self) -> tuple[Node, ...]:
        """Those of workgroups, then of work items."""
        return (*self.grid, self.subgroup, *self.lane[::-1])

    # -- places ---------------------------------------------------------------------------------

    def limit(self, reduces: Iterable[Node]) -> None:
        """Let blocks go through no more keys than masks leave to their rows in `reduces`.

        Those that have most of them come first: what is left at the end is short.
        """
        size = loop_size(self.key)
        span = span_of_rows(reduces, size, frozenset((self.row, *self.batch)))
        if span is None:
            return
        if span.end.value != size and self.block.op is Op.RANGE:
            self.block = self.blocks - 1 - self.block
        first = self.block * self.size.rows
        rows = span.over({self.row: (first, first + (self.size.rows - 1))})
        self.span = rows and rows.within(size)

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
        return simplify(place < loop_size(loop))

    def row_of(self, product: int, element: int) -> Node:
        """The row of a work item's element of a product."""
        number = self.subgroup * self.size.each[0] + product
        row, _ = place_in(self.out, self.lane, Node.index(element))
        return self.block * self.size.rows + number * self.size.unit[0] + row

    def column_of(self, block: int, element: Node) -> Node:
        """The column of a work item's element, in one of the products side by side."""
        _, column = place_in(self.out, self.lane, element)
        return column + block * self.size.unit[1]

    def own_rows(self) -> list[OwnRow]:
        """The rows that a work item has of all its products."""
        return [(product, own) for product in range(self.size.each[0]) for own in self.elements]

    @property
    def neighbours(self) -> int:
        """How many elements of a work item are side by side in a row."""
        axis, extent, step = self.out.elements[0]
        return extent if (axis, step) == (1, 1) else 1

    def combined(self, value: Node, op: Op) -> Node:
        """A value of a row combined with those that other work items have of it."""
        return Node(Op.BUTTERFLY, value.dtype, (value,), ButterflyArg(op, self.chain.lanes_of_row))

    def is_first(self) -> Node:
        """Whether a work item is the first of those that have a row."""
        digits = zip(self.lane, self.out.lanes, strict=True)
        return all_of(tuple(simplify(loop < 1) for loop, digit in digits if digit.axis == 1))

    def of_rows(self, factor: Node, depth: Node) -> FragmentOperand:
        """A factor of the block's rows, along `depth`."""
        return self._staged(factor, self.row, self.block * self.size.rows, self.size.rows, depth, 1)

    def of_keys(
        self, factor: Node, inner: Node, has_lines_of_keys: bool = False
    ) -> FragmentOperand:
        """A factor of the tile of keys: a line along `inner` for each key, or the other way."""
        return self._staged(
            factor, self.key, self.first_key, self.size.columns, inner, self.size.buffers,
            has_lines_of_keys,
        )  # fmt: skip

    def of_values(self, factor: Node, column: Node) -> FragmentOperand:
        """What weights of a tile's keys are multiplied by, with the keys as steps.

        From lines along columns, if an instruction transposes them as it reads.
        """
        if self.unit.load is not None:
            return self.of_keys(factor, column).swapped()
        return self.of_keys(factor, column, has_lines_of_keys=True)

    def _staged(
        self, factor: Node, loop: Node, first: Node, count: int, inner: Node, buffers: int,
        is_along_loop: bool = False,
    ) -> FragmentOperand:  # fmt: skip
        """So many steps of `loop` from `first` on of a factor: lines along `inner`, or the loop.

        What is the same lies in memory once.
        """
        sizes = count, power_of_two(inner)
        line, along = self._inside(sizes[0]), self._inside(-sizes[1])
        places = {loop: first + line, inner: along}
        here = simplify(self.at(narrow_factor(factor, self.unit.dtype), places))
        if is_along_loop:
            line, along, sizes = along, line, sizes[::-1]
        key = here, buffers, is_along_loop
        if key not in self.operands:
            slices = Slices(self.moves, along, sizes[1], SUBGROUPS * self.out.width, buffers)
            self.operands[key] = staged(slices, here, Split(line, (line,)), self.unit.load)
        return self.operands[key]

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

    def add_products(self, sums: list[list[Node]], steps: int, left: Words, right: Words) -> None:
        """Add products to `sums` of each product of rows, by blocks of columns.

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
                    factors = (*y, *x) if self.chain.is_turned else (*x, *y)
                    product = Node(Op.MMA, dtype, factors, self.unit.name)
                    mine[block] = self.updated(mine[block], product, Op.ADD, *done)
                    now += After.of(mine[block]).effects
            done = now

    def scores(self, rows: FragmentOperand, keys: FragmentOperand, depth: Node) -> list[list[Node]]:
        """The sums of products of rows and a tile's keys that a work item has, by block."""
        again = (self.tile,) if power_of_two(depth) * self.held > HELD else ()
        sums = [self.sums(self.size.columns, self.tile) for _ in range(self.size.each[0])]
        self.add_products(
            sums, loop_size(depth) // self.unit.steps,
            lambda product, step: self._words_of_rows(rows, product, step, *again),
            lambda block, step: self._words(self.chain.keys, keys, block, step),
        )  # fmt: skip
        return sums

    def sums(self, columns: int, *loops: Node) -> list[Node]:
        """Registers for a work item's sums of so many columns of a product of rows, first 0."""
        none = (Node.const(self.unit.sums, 0),) * self.out.count
        first = Node(Op.STACK, self.unit.sums.vec(self.out.count), none)
        return [self.register(first, *loops) for _ in range(columns // self.size.unit[1])]

    def add_weighed(
        self, sums: list[list[Node]], weights: dict[OwnRow, list[Node]], values: FragmentOperand
    ) -> None:
        """Add weights of a tile's keys times their values to `sums`.

        `weights` are those that a work item has of each of its rows. Packed, those of the products
        that a step takes are its words, in the order in which a work item holds sums.
        """
        blocks = self.unit.steps // self.size.unit[1]

        def left(product: int, step: int) -> list[Node]:
            found = []
            for block in range(step * blocks, (step + 1) * blocks):
                for element, first in self.first.items():
                    own = self.elements[first]
                    found.append(weights[product, first][block * len(own) + own.index(element)])
            pairs = (tuple(found[n : n + 2]) for n in range(0, len(found), 2))
            return [Node(Op.HALVES, dtypes.uint32, two, self.unit.dtype.name) for two in pairs]

        right = lambda block, step: self._words(self.chain.values, values, block, step)
        self.add_products(sums, self.size.columns // self.unit.steps, left, right)

    def _words_of_rows(
        self, operand: FragmentOperand, product: int, step: int, *again: Node
    ) -> list[Node]:
        """A work item's words of one product's rows; read anew in each step of loops `again`."""
        held = self.chain.rows.words(self.unit.dtype.itemsize)
        line = (self.subgroup * self.size.each[0] + product) * self.size.unit[0]
        deep = Node.index(step * self.unit.steps)
        words = operand.words(held, self.lane, line, deep, again)
        return [words(Node.index(number)) for number in range(held.count)]

    def _words(self, held: Fragment, operand: FragmentOperand, block: int, step: int) -> list[Node]:
        """A work item's words of a block of lines; those of two blocks are read at once."""
        held = held.words(self.unit.dtype.itemsize)
        first, second = divmod(block, 2)
        line = Node.index(first * 2 * self.size.unit[1])
        deep = Node.index(step * self.unit.steps)
        words = operand.words(held.tiled((2, 1)), self.lane, line, deep)
        return [words(Node.index(second * held.count + n)) for n in range(held.count)]

    # -- masks of scores ------------------------------------------------------------------------

    def hide(self, scores: list[list[Node]], shown: Node) -> list[list[Node]] | None:
        """`scores` with -inf for those that do not count; None if tiles cannot tell whether all do.

            s = where(j <= i, q @ k.T, -inf)
              ->  for r in (1 if the tile's last key > the block's first row else 0):
                      s = min(s, where(j <= i, inf, -inf))

        Most tiles of causal attention are shown as a whole, and go without two instructions for
        each score. A comparison of sums of loops is decided for a tile by one of its corners.
        """
        cut = self._is_cut(shown)
        if cut is None or cut.value == 0:
            return None if cut is None else scores
        once = self.moves.loop(cut)
        effects = [
            Update(one, self._mask(shown, product, block), (self.tile, once), Op.MIN).node()
            for product, mine in enumerate(scores)
            for block, one in enumerate(mine)
        ]
        done = End(tuple(effects), (once,)).node()
        return [[After(behind_after(one), (done,)).node() for one in mine] for mine in scores]

    def _is_cut(self, shown: Node) -> Node | None:
        """1 if some scores of a tile count and others may not, else 0; None if that is unknown."""
        first, last_key = self.block * self.size.rows, self.first_key + (self.size.columns - 1)
        rows = first, first + (self.size.rows - 1)
        box = {self.row: rows, self.key: (self.first_key, last_key)}
        sums = [constraints(part) for part in parts(shown)]
        if None in sums:
            return None
        least = [extreme(one, box, False) for each in sums if each for one in each]
        if self.is_inside(self.key, last_key) is not TRUE:
            least.append(loop_size(self.key) - 1 - last_key)
        total = Node.index(0)
        for one in least:
            if one is None:
                return None
            total = total.maximum((-one.substitute(self.batch)).maximum(0).minimum(1))
        return simplify(total)

    def _mask(self, shown: Node, product: int, block: int) -> Node:
        """inf where a work item's scores of a block of keys are `shown`, -inf where not."""
        yes, no = (Node.const(self.unit.sums, n) for n in (math.inf, -math.inf))
        lanes = []
        for element in range(self.out.count):
            key = self.first_key + self.column_of(block, Node.index(element))
            here = self.at(shown, {self.row: self.row_of(product, element), self.key: key})
            lanes.append(simplify(here & self.is_inside(self.key, key)).where(yes, no))
        return Node(Op.STACK, self.unit.sums.vec(self.out.count), tuple(lanes))


def tree(values: list[Node], op: Op) -> Node:
    while len(values) > 1:
        pairs = (values[n : n + 2] for n in range(0, len(values), 2))
        values = [pair[0].alu(op, *pair[1:]) if pair[1:] else pair[0] for pair in pairs]
    return values[0]


def lane_of(sums: Node, number: Node) -> Node:
    return Node(Op.EXTRACT, sums.dtype.scalar, (sums, number))
