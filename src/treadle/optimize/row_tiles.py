"""Blocks of rows against tiles of keys on matrix units: loops, shared memory and registers.

A workgroup has a block of rows, each of its subgroups some of them, and goes through tiles of keys.
What a work item has of the sums of one product is what it needs as words of a factor for the next
(target/chain.py). With mma.sync rows g and g + 8, columns 2t and 2t + 1 of two neighbouring
products are k of one. So what is computed of scores goes from one product to the other as it is, in
registers, and a row is in a few work items of a subgroup.

What a tile takes by count is on the page docs/design/attention.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable

from ..dtype import dtypes
from ..ir.args import ButterflyArg, RegisterRef
from ..ir.carried_units import buffers_of, line_size, narrow_factor
from ..ir.conditions import all_of
from ..ir.loops import TRUE, Split, loop_size, number_of, replace_ranges
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import After, End, Update
from ..target import Fragment, MatrixUnit, chain_of
from .choose_tile import Tile
from .layout import Layout, Slices, StagedSlice
from .masked_bounds import Span, cuts, span_of_rows
from .matrix_units import FragmentOperand, staged
from .moves import Moves
from .shared_tiles import place_in
from .warpgroup_units import shared_product, stored

__all__ = ["FEWER", "OwnRow", "Tiles", "blocks"]

HELD = 128  # columns of rows whose words stay in registers; of more they are read for each tile
FEWER = (64, 16), (32, 32), (32, 16)  # rows and keys of a workgroup, where memory is short

OwnRow = tuple[int, int]  # a product of rows, and the first element of a work item in one of them
Words = Callable[[int, int], list[Node]]  # of a product or a block, at a step
Loops = tuple[Node, ...]


def blocks(unit: MatrixUnit, sizes: Iterable[tuple[int, int]]) -> list[Tile]:
    """Tiles of so many rows, in products of each worker one above the other, and of keys."""
    chain, buffers = chain_of(unit), buffers_of(unit)
    assert chain is not None
    assert unit.tiling is not None
    high, wide = chain.sums.shape
    return [
        Tile((high, wide), (rows // high // workers, keys // wide), (workers, 1), buffers=buffers)
        for rows, keys in sizes
        for workers in [n for n in unit.tiling.side_by_side if rows % (high * n) == 0][:1]
        if keys % unit.steps == 0
    ]


class Tiles:
    """The loops of such a kernel, and what it holds of shared memory and registers."""

    def __init__(
        self, moves: Moves, unit: MatrixUnit, row: Node, key: Node, batch: Iterable[Node],
        size: Tile,
    ) -> None:  # fmt: skip
        self.moves, self.unit, self.row, self.key, self.size = moves, unit, row, key, size
        self.blocks = -(-loop_size(row) // size.rows)
        self.block = moves.loop(self.blocks, "grid") if self.blocks > 1 else Node.index(0)
        self.batch = {r: moves.loop(loop_size(r), "grid") for r in batch}
        self.grid = (*self.batch.values(), *((self.block,) if self.blocks > 1 else ()))
        self.worker = moves.loop(size.workers[0], "local")
        chain = chain_of(unit)
        assert chain is not None
        self.chain, self.out, self.elements = chain, chain.sums, chain.elements
        of_row = {n: first for first, own in self.elements.items() for n in own}
        self.first = dict(sorted(of_row.items()))  # the first element of the row of each
        # Digits of a work item's number, the lowest first.
        self.lane = tuple([moves.loop(d.extent, "local") for d in self.out.lanes[::-1]][::-1])
        self.registers = 0
        self.held = size.each[0]  # rows of 16 whose words a work item would hold at a time
        self.span: Span | None = None
        self.operands: dict[tuple[Node, int, bool], StagedSlice] = {}
        # Loops of lines, or of elements of them.
        self.inside = functools.cache(lambda size, of: moves.loop(size))
        self.tile = self.first_key = Node.index(0)  # of the pass over the keys that is being made

    @property
    def loops(self) -> tuple[Node, ...]:
        """Those of workgroups, then of work items."""
        return (*self.grid, self.worker, *self.lane[::-1])

    @property
    def work_items(self) -> int:
        return self.size.workers[0] * self.out.width

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
        row, _ = place_in(self.out, self.lane, Node.index(element))
        return self.block * self.size.rows + self._first_row(product) + row

    def _first_row(self, product: int) -> Node:
        """The first row of a product in a block."""
        return (self.worker * self.size.each[0] + product) * self.size.unit[0]

    def column_of(self, block: int, element: Node) -> Node:
        """The column of a work item's element, in one of the products side by side."""
        _, column = place_in(self.out, self.lane, element)
        return column + block * self.size.unit[1]

    def own_rows(self) -> list[OwnRow]:
        """The rows that a work item has of all its products."""
        return [(product, own) for product in range(self.size.each[0]) for own in self.elements]

    def combined(self, value: Node, op: Op) -> Node:
        """A value of a row combined with those that other work items have of it."""
        return Node(Op.BUTTERFLY, value.dtype, (value,), ButterflyArg(op, self.chain.lanes_of_row))

    def is_first(self) -> Node:
        """Whether a work item is the first of those that have a row."""
        digits = zip(self.lane, self.out.lanes, strict=True)
        return all_of(tuple(simplify(loop < 1) for loop, digit in digits if digit.axis == 1))

    def of_rows(self, factor: Node, depth: Node) -> StagedSlice:
        """A factor of the block's rows, along `depth`."""
        rows = self.size.rows
        return self._staged(factor, {self.row: self.block * rows}, rows, depth, 1)

    def of_keys(self, factor: Node, inner: Node, are_steps: bool = False) -> StagedSlice:
        """A factor of the tile of keys: a line along `inner` for each key, or keys as its steps.

        Those are transposed as they are read, if they can be, else as they are stored.
        """
        first, is_turned = {self.key: self.first_key}, are_steps and not self.unit.transposes
        size = self.size
        found = self._staged(factor, first, size.columns, inner, size.buffers, is_turned)
        return found.swapped() if are_steps and not is_turned else found

    def _staged(
        self, factor: Node, first: dict[Node, Node], count: int, inner: Node, buffers: int,
        is_turned: bool = False,
    ) -> StagedSlice:  # fmt: skip
        """So many steps of a loop from the `first` on: lines along `inner`, or along the loop.

        What is the same lies in memory once.
        """
        depth, unit = line_size(inner, self.unit), self.unit
        line, along = self.inside(count, "lines"), self.inside(depth, "steps")
        places = {loop: start + line for loop, start in first.items()} | {inner: along}
        here = simplify(self.at(narrow_factor(factor, unit.dtype), places))
        key = here, buffers, is_turned
        if key not in self.operands:
            if is_turned:
                line, along, depth = along, line, count
            slices = Slices(self.moves, along, depth, self.work_items, buffers)
            given = slices, here, Split(line, (line,))
            self.operands[key] = stored(*given) if unit.memory else staged(*given, unit.load)
        return self.operands[key]

    # -- registers ------------------------------------------------------------------------------

    def register(self, first: Node, *loops: Node) -> Node:
        self.registers += 1
        src = first, *self.grid, *loops
        return Node(Op.REGISTER, first.dtype, src, RegisterRef(self.registers))

    def updated(self, register: Node, value: Node, op: Op, *before: Node) -> Node:
        """`register` combined with `value`, after what has happened to it and `before`."""
        if before:
            happened = After.of(register).effects if register.op is Op.AFTER else ()
            register = After(behind_after(register), (*happened, *before)).node()
        update = Update(register, value, (self.tile,), op).node()
        return After(behind_after(register), (update,)).node()

    # -- products -------------------------------------------------------------------------------

    def add_products(
        self, sums: list[list[Node]], steps: int, left: Words, y: StagedSlice, held: Fragment | None
    ) -> None:
        """Add products to `sums` of each product of rows, by blocks of columns.

        `left(product, step)` are a work item's words of x, `held` says which it has of y. A step
        comes after all of the one before, so that words are read shortly before they are used.
        """
        if held is None:
            self._add_shared(sums, steps, left, y)
            return
        done: list[Node] = []
        dtype = self.unit.sums.vec(self.out.count)
        for step in range(steps):
            words = [left(product, step) for product in range(len(sums))]
            now: list[Node] = []
            for block in range(len(sums[0])):
                line = Node.index(block // 2 * 2 * self.size.unit[1])
                own = self._words(held, y, line, step, of_two=block % 2)
                for mine, x in zip(sums, words, strict=True):
                    factors = (*own, *x) if self.chain.is_turned else (*x, *own)
                    product = Node(Op.MMA, dtype, factors, self.unit.name)
                    mine[block] = self.updated(mine[block], product, Op.ADD, *done)
                    now += After.of(mine[block]).effects
            done = now

    def _add_shared(
        self, sums: list[list[Node]], steps: int, left: Words, y: StagedSlice,
        layout: Layout | None = None,
    ) -> None:  # fmt: skip
        """The same by units that read y from memory, and x if it has a `layout` there.

        At a time they take the steps of a row of memory, of which a work item has all words of x.
        """
        unit, memory = self.unit, self.unit.memory
        assert memory is not None
        most = memory.row // unit.dtype.itemsize // unit.steps
        for first in range(0, steps, most):
            taken = range(first, min(first + most, steps))
            for product, mine in enumerate(sums):
                of_x = [n for step in (taken if layout is None else taken[:1])
                        for n in left(product, step)]  # fmt: skip
                size = 2 * mine[0].dtype.count, len(taken) * unit.steps
                added = shared_product(unit, size, layout, (*of_x,), y, first * unit.steps)
                mine[0] = self.updated(mine[0], added, Op.ADD)

    def scores(self, rows: StagedSlice, keys: StagedSlice, depth: Node) -> list[list[Node]]:
        """The sums of products of rows and a tile's keys that a work item has, by block."""
        again = (self.tile,) if line_size(depth, self.unit) * self.held > HELD else ()
        sums = [self.sums(self.size.columns, self.tile) for _ in range(self.size.each[0])]
        steps = loop_size(depth) // self.unit.steps
        if isinstance(rows, FragmentOperand):
            left = lambda product, step: self._words(
                self.chain.rows, rows, self._first_row(product), step, again
            )
            self.add_products(sums, steps, left, keys, self.chain.keys)
        else:
            at = lambda step: Node.index(step * self.unit.steps)
            left = lambda product, step: [rows.read(self._first_row(product), at(step))]
            self._add_shared(sums, steps, left, keys, rows.layout)
        return sums

    def sums(self, columns: int, *loops: Node) -> list[Node]:
        """Registers for a work item's sums of so many columns of a product of rows, first 0.

        Of each block of columns, or of all where those are one product.
        """
        blocks = columns // self.size.unit[1]
        together = 1 if self.unit.memory is None else blocks
        first = self.stacked([Node.const(self.unit.sums, 0)] * (self.out.count * together))
        return [self.register(first, *loops) for _ in range(blocks // together)]

    def stacked(self, lanes: list[Node]) -> Node:
        return Node(Op.STACK, self.unit.sums.vec(len(lanes)), tuple(lanes))

    def lane_of(self, sums: list[Node], block: int, number: Node) -> Node:
        """A sum of a block of columns, of those that a work item has of a product of rows."""
        if self.unit.memory is not None:
            number, block = number + block * self.out.count, 0
        return Node(Op.EXTRACT, self.unit.sums, (sums[block], simplify(number)))

    def add_weighed(
        self, sums: list[list[Node]], weights: dict[OwnRow, list[Node]], values: StagedSlice
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
            dtype, name = dtypes.uint32, self.unit.dtype.name
            return self._of_all([Node(Op.HALVES, dtype, two, name) for two in pairs])

        steps = self.size.columns // self.unit.steps
        self.add_products(sums, steps, left, values, self.chain.values)

    def _of_all(self, words: list[Node]) -> list[Node]:
        """The words of all lanes that hold the same rows, where each has made some of them."""
        if not (apart := self.chain.apart):
            return words
        which = simplify(number_of(self.lane[::-1]) // apart % 2)
        zero, arg = words[0].like(0), ButterflyArg(Op.ADD, (apart,))
        mine = (simplify(which.eq(n)).where(word, zero) for n in range(2) for word in words)
        return [Node(Op.BUTTERFLY, one.dtype, (one,), arg) for one in mine]

    def _words(
        self, held: Fragment, operand: StagedSlice, line: Node, step: int, again: Loops = (),
        of_two: int | None = None,
    ) -> list[Node]:  # fmt: skip
        """A work item's words of lines from `line` on, or of one `of_two` blocks read at once.

        They are read anew in each step of the loops `again`.
        """
        assert isinstance(operand, FragmentOperand)
        held, deep = held.words(self.unit.dtype.itemsize), Node.index(step * self.unit.steps)
        whole = held if of_two is None else held.tiled((2, 1))
        words, first = (
            operand.words(whole, self.lane, line, deep, again),
            (of_two or 0) * held.count,
        )
        return [words(Node.index(first + n)) for n in range(held.count)]

    # -- masks of scores ------------------------------------------------------------------------

    def hide(self, scores: list[list[Node]], shown: Node) -> list[list[Node]] | None:
        """`scores` with -inf for those that do not count; None if tiles cannot tell whether all do.

            s = where(j <= i, q @ k.T, -inf)
              ->  for r in (1 if the tile's last key > the block's first row else 0):
                      s = min(s, where(j <= i, inf, -inf))

        Most tiles of causal attention are shown as a whole, and go without two instructions for
        each score. A comparison of sums of loops is decided for a tile by one of its corners.
        """
        first, last = self.block * self.size.rows, self.first_key + (self.size.columns - 1)
        box = {self.row: (first, first + (self.size.rows - 1)), self.key: (self.first_key, last)}
        if self.is_inside(self.key, last) is not TRUE:
            shown = shown & (self.key < loop_size(self.key))
        cut = cuts(shown, box)
        if cut is None or cut.value == 0:
            return None if cut is None else scores
        once = self.moves.loop(simplify(cut.substitute(self.batch)))
        effects = [
            Update(one, self._mask(shown, product, blocks), (self.tile, once), Op.MIN).node()
            for product, mine in enumerate(scores)
            for block, one in enumerate(mine)
            for blocks in [range(block, self.size.each[1], len(mine))]
        ]
        done = End(tuple(effects), (once,)).node()
        return [[After(behind_after(one), (done,)).node() for one in mine] for mine in scores]

    def _mask(self, shown: Node, product: int, blocks: range) -> Node:
        """inf where a work item's scores of blocks of keys are `shown`, -inf where not."""
        yes, no = (Node.const(self.unit.sums, n) for n in (math.inf, -math.inf))
        lanes = []
        for block, element in itertools.product(blocks, range(self.out.count)):
            key = self.first_key + self.column_of(block, Node.index(element))
            here = self.at(shown, {self.row: self.row_of(product, element), self.key: key})
            lanes.append(simplify(here & self.is_inside(self.key, key)).where(yes, no))
        return self.stacked(lanes)
