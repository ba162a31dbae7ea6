"""Blocks of rows: the schedule of a chain of products, and of each loop in it.

See chained_matmul.py for what the kernels are. Everything that depends on the row is computed for
row `first + r` of a block, with a loop r of its own wherever a block is filled:

    STAGE(value of row i, fill j)       ->  STAGE(value of row first + r, fill r, j), (rows, size)
    REDUCE of a row, a statistic of it  ->  STAGE(REDUCE of row first + r, fill r),   (rows,)
    the last product over steps j       ->  STAGE(product over a chunk of j, fill chunk, r, columns)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..dtype import DType
from ..ir.args import ReduceArg, StageArg
from ..ir.carried import is_kept
from ..ir.choices import take
from ..ir.conditions import all_of
from ..ir.loops import (
    TRUE,
    Split,
    closed_ranges,
    free_ranges,
    loop_size,
    ranges_of,
    replace_ranges,
)
from ..ir.node import Node, rebuild, substitute
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import End, Load, Reduce, Stage, Store, operands
from ..target import Target, vector_unit
from .choose_tile import Sizes, Tile, choose
from .masked_bounds import Span, span_of_rows
from .moves import Moves
from .nest import Nest, as_stage, own_reductions, reads_of, stride
from .tile_cost import tile_of_vectors
from .tile_loops import in_panel, pack

__all__ = ["Blocks", "Chain", "factors_of", "rows_of_a_block"]

BLOCK_BYTES = 512 << 10  # of rows that a block keeps, at most
MIN_ITEMS = 8  # blocks to share among workers, at least
LOADS = 0.5  # what columns take to load, beside their products with one row
ENOUGH = 32  # rows that read what comes from further away: more fill nearer caches
UNEVEN = 0.03  # what it takes to ask of each row whether it is behind the last one
BLOCKS_UNDER_MASK = 64  # at least: a block computes what the mask hides from some of its rows
UNROLL = 4


@dataclass(frozen=True)
class Chain:
    """The loop of a chain's rows, the columns of its last products, these, and the kept `rows`."""

    row: Node
    columns: tuple[Node, ...]
    products: tuple[Node, ...]
    rows: tuple[Node, ...]


class _Block(NamedTuple):
    """What fills a block: a value, at row `fill`, in these loops."""

    value: Node
    fill: Node
    loops: tuple[Node, ...]


@dataclass(frozen=True)
class _Chunks:
    """The steps of a last product: number of a chunk as it is filled and read, step in a chunk.

    The last chunk ends with all steps, of which there are `size`.
    """

    part: Node
    total: Node
    step: Node
    size: int


def rows_of_a_block(nest: Nest, chain: Chain, target: Target, each: tuple[int, int] | None) -> int:
    """As many as the cache holds, in whole tiles, but no more than are of use, and enough blocks.

    Each worker is to have some, and rows under a mask have little in common.
    """
    free, size = free_ranges(nest.node), loop_size(chain.row)
    rows = [n for n in chain.rows if chain.row in free[n]]
    fills = {Stage.of(n).filling: n.arg.sizes[0] * n.dtype.itemsize for n in rows}
    fits = min(target.l2 // 2, BLOCK_BYTES) // sum(fills.values())
    around = [r for r in nest.loops if r not in (chain.row, *chain.columns)]
    others = loop_size(*around)
    fits = max(1, min(fits, size // -(-MIN_ITEMS // others), size))
    longest = max(n.arg.sizes[0] for n in rows)
    dtype = max((n.dtype for n in rows), key=lambda dtype: dtype.itemsize)
    tile = tile_of_vectors(Sizes(size, longest), dtype, target, each)
    if fits < tile.rows:
        return fits
    if _span(nest, chain) is not None:
        fits = min(fits, max(tile.rows, size // BLOCKS_UNDER_MASK))
    return _even_rows(size, min(fits, max(tile.rows, ENOUGH)), tile.rows)


def _even_rows(size: int, fits: int, tile_rows: int) -> int:
    """How many of `size` rows a block has, at most `fits`: few steps behind the last, few loads.

    A block has tiles of `tile_rows`, or of a third fewer at most. Each tile loads the columns, from
    a cache that is further away for the first one.
    """
    found = []
    for rows in range(tile_rows - tile_rows // 3, tile_rows + 1):
        least = -(-size // (fits // rows * rows))
        for blocks in range(least, 2 * least + 1):
            block = -(-size // (blocks * rows)) * rows
            cost = 1 + LOADS / rows + LOADS / block + (UNEVEN if size % block else 0)
            found.append((-(-size // block) * block * cost, -block))
    return -min(found)[1]


class Blocks:
    """The cut of one nest."""

    def __init__(
        self, moves: Moves, nest: Nest, chain: Chain, rows: int, steps: int,
        tile: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        self.moves, self.nest, self.chain, self.target = moves, nest, chain, moves.target
        self.steps, self.tile = steps, tile
        self.free = free_ranges(nest.node)
        self.around = [r for r in nest.loops if r not in (chain.row, *chain.columns)]
        self.size = loop_size(chain.row)
        self.rows = rows
        blocks = -(-self.size // self.rows)
        self.block = moves.loop(blocks, "grid") if blocks > 1 else Node.index(0)
        self.first = self.block * self.rows
        self.whole = blocks * self.rows == self.size
        self.filled: dict[tuple[Node, ...], _Block] = {}
        self.made: list[_Block] = []
        self.chunks: list[_Chunks] = []
        self.part_columns: set[Node] = set()
        self.reduced: set[Node] = set()  # the loops of the blocks' reductions
        self.along: dict[Node, int] = {}  # loops along rows, and how many steps of a row each takes
        self.lengths: set[int] = {1}  # these, and those of what takes all steps of a row at once

    def make(self) -> None:
        """Cut, then schedule."""
        span = self._span()
        self._cut()
        outer = self._outer_as_grid()
        for _, row, loops in self.made:
            self._schedule(row, loops[-1])
        self._bound(span and span.substitute(outer))

    # -- rows become blocks ---------------------------------------------------------------------

    def _cut(self) -> None:
        chain, row = self.chain, self.moves.loop(self.rows)
        parts = {product: self._parts(product, row) for product in chain.products}
        stores = [Store.of(self._at(effect, row, parts)) for effect in self.nest.effects]
        inside = self._inside(row)
        effects = [s._replace(gate=all_of((s.gate, inside))).node() for s in stores]
        inner = [e for e in effects if not ranges_of(e).isdisjoint(chain.columns)]
        outer = [e for e in effects if e not in inner]
        if inner:
            outer.append(End(tuple(inner), chain.columns).node())
        end = End(tuple(outer), (*self.around, *ranges_of(self.block), row)).node()
        self.moves.root = simplify(self.moves.root.substitute({self.nest.node: end}))

    def _inside(self, row: Node) -> Node:
        """Whether there is a row `row` in the block; the last block can have fewer."""
        return TRUE if self.whole else self.first + row < self.size

    def _parts(self, reduce: Node, row: Node) -> Node:
        """A last product as the sum of its chunks' products, each of them kept."""
        moves, columns = self.moves, self.chain.columns
        (steps,) = closed_ranges(reduce)
        size = loop_size(steps)
        chunks = -(-size // self.steps)
        per_chunk = -(-size // chunks)
        fill, fresh = moves.loop(self.rows), moves.copies(columns)
        part = total = Node.index(0)
        value = self._at(reduce, fill).substitute(fresh)
        if chunks > 1:
            part, total, step = moves.loop(chunks), moves.loop(chunks), moves.loop(per_chunk)
            value = replace_ranges(value, {steps: Split(part * per_chunk + step, (step,))})
            steps = step
        self.chunks.append(_Chunks(part, total, steps, size))
        self.part_columns.update(fresh.values())
        filled = (part, fill, *fresh.values())
        loops = filled if chunks > 1 else filled[1:]
        arg = StageArg("shared", (chunks, self.rows, *(loop_size(r) for r in columns)))
        read = (total, row, *columns)
        stage = Stage(value, self._inside(fill), filled, read, loops, arg, reduce.dtype).node()
        self.made.append(_Block(value, fill, loops))
        return stage if chunks == 1 else Reduce(stage, (total,), ReduceArg(Op.ADD)).node()

    def _at(self, root: Node, row: Node, known: dict[Node, Node] | None = None) -> Node:
        """`root` for row `row` of the block, with what the kernel keeps as blocks."""
        loop, free = self.chain.row, self.free
        new = {loop: self.first + row, **(known or {})}
        inside = lambda n: n not in new and loop in free[n] and not self._is_block(n, root)
        for node in root.toposort(inside):
            if node in new:
                continue
            if loop not in free[node]:
                new[node] = node
            elif self._is_block(node, root):
                new[node] = self._block(node, row)
            elif node.op is Op.LOAD and not self.whole:  # of rows that there are
                last = new[loop].minimum(self.size - 1)
                load = Load.of(node)
                index, gate, other = substitute((load.index, load.gate, load.other), {loop: last})
                new[node] = load._replace(index=index, gate=gate, other=other).node()
            else:
                src = tuple(new[s] for s in node.src)
                new[node] = node if src == node.src else rebuild(node, src)
        return new[root]

    def _is_block(self, node: Node, root: Node) -> bool:
        """Whether a block keeps `node`: a row, or a statistic of a row."""
        if node is root or self.chain.row not in self.free[node]:
            return False
        if node.op is Op.REDUCE:
            return self.free[node] <= frozenset(self.nest.loops) - frozenset(self.chain.columns)
        return is_kept(node)

    def _block(self, node: Node, row: Node) -> Node:
        """Row `row` of the block that keeps `node`."""
        kept = as_stage(node)
        if kept.filling not in self.filled:
            fill = self.moves.loop(self.rows)
            value = self._over_own_loops(self._at(kept.value, fill))
            self.filled[kept.filling] = _Block(value, fill, (fill, *kept.loops))
            self.made.append(self.filled[kept.filling])
        value, fill, loops = self.filled[kept.filling]
        filled, read = (fill, *kept.filled), (row, *kept.read)
        arg = StageArg("shared", (self.rows, *kept.arg.sizes))
        return Stage(value, self._inside(fill), filled, read, loops, arg, node.dtype).node()

    def _over_own_loops(self, value: Node) -> Node:
        """`value`, which fills a block, with no reduction over a loop that fills another one."""
        loops = [r for n in own_reductions(value) for r in closed_ranges(n)]
        taken = [r for r in dict.fromkeys(loops) if r in self.reduced]
        self.reduced.update(loops)
        return value.substitute(self.moves.copies(taken))

    # -- every block gets a schedule --------------------------------------------------------------

    def _outer_as_grid(self) -> dict[Node, Node]:
        """The loops around the rows as grid; columns as lanes."""
        chain, moves = self.chain, self.moves
        splits = grid = moves.whole(self.around, "grid")
        if chain.columns:
            last, lanes = chain.columns[-1], self._lanes(chain.products[0])
            splits = {**grid, last: moves.tiled(loop_size(last), (lanes, "vector"))}
        moves.replace_loops(splits)
        return {r: split.expr for r, split in grid.items()}

    def _lanes(self, value: Node) -> int:
        return max(2, min(self.target.lanes(value.dtype), self.target.max_lanes))

    def _schedule(self, row: Node, column: Node) -> None:
        """What fills a block along loops, of which these are that of rows and the last one."""
        stages = self.moves.root.toposort()
        stage = next(n for n in stages if n.op is Op.STAGE and row in closed_ranges(n))
        reduces = own_reductions(Stage.of(stage).value)
        along = [(column, column not in self.part_columns)]
        if column is row:  # a statistic
            along = [(closed_ranges(n)[-1], _reads_row(n)) for n in reduces]
        elif any(self._is_product(n, row, column) for n in reduces):
            self._tile(row, column, next(n for n in reduces if self._is_product(n, row, column)))
            return
        splits = {}
        for r, is_of_row in along:
            lanes = self._lanes(stage)
            splits[r] = self.moves.tiled(loop_size(r), (UNROLL, "unroll"), (lanes, "vector"))
            if is_of_row:
                self._note(splits[r])
        self.moves.replace_loops(splits)

    def _note(self, split: Split) -> None:
        """Remember what a loop along rows has become: those of one step have no loop of their own.

        They read all of a row, so that all of it has to be filled.
        """
        outer = split.ranges[0]
        inner = split.ranges[1:] if outer.arg.kind == "loop" else split.ranges
        self.lengths.add(loop_size(*inner))
        if outer.arg.kind == "loop":
            self.along[outer] = loop_size(*inner)

    def _is_product(self, reduce: Node, row: Node, column: Node) -> bool:
        factors = factors_of(Reduce.of(reduce).value)
        if factors is None or reduce.arg.op is not Op.ADD:
            return False
        free = free_ranges(reduce)
        used = {frozenset(free[factor] & {row, column}) for factor in factors}
        return used == {frozenset((row,)), frozenset((column,))}

    def _tile(self, row: Node, column: Node, reduce: Node) -> None:
        """A product whose result is a block, in register tiles; panels of columns outside."""
        moves, steps = self.moves, closed_ranges(reduce)
        sizes = Sizes(self.rows, loop_size(column), loop_size(*steps))
        tile = _whole_tile(sizes, reduce.dtype, self.target, self.tile)
        rows = moves.tiled(loop_size(row), (tile.rows, "unroll"))
        columns = moves.tiled(loop_size(column), *in_panel(tile))
        if column not in self.part_columns:
            self._note(columns)
        take("register_tile")
        moves.replace_loops({row: rows, column: columns})
        made = {*rows.ranges, *columns.ranges}
        stages = [
            n for n in moves.root.toposort() if n.op is Op.STAGE and made <= set(closed_ranges(n))
        ]
        first = Stage.of(stages[0])
        order = tuple(sorted(first.loops, key=lambda r: _depth(r, rows, columns)))
        value = self._with_packed(first.value, steps, columns)
        mapping = {n: Stage.of(n)._replace(value=value, loops=order).node() for n in stages}
        moves.root = simplify(moves.root.substitute(mapping))

    def _with_packed(self, value: Node, steps: tuple[Node, ...], columns: Split) -> Node:
        """`value` with the operand of the columns packed, unless it is read in vectors as it is."""
        reduce = next(n for n in own_reductions(value) if closed_ranges(n) == steps)
        y, x = operands(Reduce.of(reduce).value)
        if ranges_of(y).isdisjoint(columns.ranges):  # a tile of one row has no loop of rows
            y, x = x, y
        if all(stride(index, columns.ranges[-1]) == 1 for index in reads_of(y)):
            return value
        # Every loop that the operand depends on numbers its panels: those of chunks of steps, too.
        packed = pack(self.moves, y, steps, columns, is_shared=True)
        take("packed_columns_for_all")
        return value.substitute({reduce: Reduce(x * packed, steps, reduce.arg).node()})

    # -- rows that a mask cuts short --------------------------------------------------------------

    def _span(self) -> Span | None:
        """What counts of the rows of a block, if a mask says that it is not all of them."""
        span = _span(self.nest, self.chain) if self.block.op is Op.RANGE else None
        box = {self.chain.row: (self.first, self.first + (self.rows - 1))}
        rows = span and span.over(box)
        return rows and rows.within(self.chain.rows[0].arg.sizes[0])

    def _bound(self, span: Span | None) -> None:
        """Let the loops along rows run no further than a mask lets anything count.

        And the last of several chunks no further than there are steps.
        """
        bounded: dict[Node, Split] = {}
        if span is not None:
            # Whole steps of every loop: none reads what another has not filled.
            whole = span.rounded(math.lcm(*self.lengths))
            bounded = {r: whole.loop(r, step) for r, step in self.along.items()}
            take("masked_bounds")
        for chunk in self.chunks:
            mine, size = span or Span.of(chunk.size), loop_size(chunk.step)
            if chunk.part.op is Op.RANGE:
                for r in (chunk.part, chunk.total):
                    bounded[r] = mine.loop(r, size)
                mine = mine.less(bounded[chunk.part].expr * size)
            bounded[chunk.step] = mine.loop(chunk.step, 1)
        self.moves.root = simplify(replace_ranges(self.moves.root, bounded))


def _span(nest: Nest, chain: Chain) -> Span | None:
    """What counts of each row, if a mask says that it is not all of it."""
    sizes = {n.arg.sizes[0] for n in chain.rows}
    if len(sizes) > 1:
        return None
    (size,), around = sizes, frozenset(nest.loops) - frozenset(chain.columns)
    return span_of_rows(filter(_is_along_row, nest.node.toposort()), size, around)


def _whole_tile(sizes: Sizes, dtype: DType, target: Target, each: tuple[int, int] | None) -> Tile:
    """The register tile with the least loads and padding whose rows divide those of a block."""
    if each is not None:
        each = next(n for n in range(each[0], 0, -1) if sizes.rows % n == 0), each[1]
    unit = vector_unit(target, dtype, each)
    assert unit.tiling is not None
    levels = tuple(one for one in unit.tiling.levels if sizes.rows % one.each[0] == 0)
    tile = choose(sizes, replace(unit, tiling=replace(unit.tiling, levels=levels)), target)
    assert tile is not None  # nothing is too small for vectors
    return tile


def factors_of(value: Node) -> tuple[Node, Node] | None:
    """The two factors of a product; a mask or a cast around it moves onto them."""
    if value.op is Op.MUL and value.dtype.kind in ("float", "int", "uint"):
        return operands(value)
    return None


def _is_along_row(node: Node) -> bool:
    """Whether a REDUCE combines elements of a row that is kept."""
    if node.op is not Op.REDUCE:
        return False
    value, loops, _ = Reduce.of(node)
    kept = filter(is_kept, value.toposort(lambda n: n.op is not Op.STAGE))
    return any(place in loops for row in kept for place in Stage.of(row).read)


def _reads_row(reduce: Node) -> bool:
    """Whether a reduction, before it is cut, reads a row of a block along its last loop."""
    value, (*_, loop), _ = Reduce.of(reduce)
    reads = [Stage.of(n).read for n in value.toposort() if n.op is Op.STAGE]
    return any(len(read) == 2 and read[-1] is loop for read in reads)


def _depth(loop: Node, rows: Split, columns: Split) -> int:
    """Chunks, panels, tiles of rows, then what is inside of a tile."""
    if loop.arg.kind != "loop":
        return 3
    return 2 if loop in rows.ranges else 1 if loop in columns.ranges else 0
