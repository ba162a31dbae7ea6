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
from ..ir.choices import take
from ..ir.conditions import all_of
from ..ir.kept_rows import is_kept
from ..ir.loops import (
    TRUE,
    Ranges,
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
from .nest import Nest, reads_of, stride
from .parameters import Parameters
from .tile_cost import tile_of_vectors
from .tile_loops import in_panel, pack

__all__ = ["Blocks", "Chain", "factors_of", "rows_of_a_block"]

MIN_ITEMS = 8  # blocks to share among workers, at least
LOADS = 0.3  # what columns take to load, beside their products with one row
BLOCKS_UNDER_MASK = 64  # at least: a block computes what the mask hides from some of its rows
UNROLL = 4


@dataclass(frozen=True)
class Chain:
    """The loop of a chain's rows, the columns of its last products, these, and the kept `rows`."""

    row: Node
    columns: tuple[Node, ...]
    products: tuple[Node, ...]
    rows: tuple[Node, ...]


@dataclass(frozen=True)
class _Filled:
    """A block that was made: its loop over rows, and all loops that fill it."""

    row: Node
    loops: tuple[Node, ...]


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


def rows_of_a_block(nest: Nest, chain: Chain, target: Target, parameters: Parameters) -> int:
    """As many as the cache holds, in whole tiles, but enough blocks for all workers."""
    free, size = free_ranges(nest.node), loop_size(chain.row)
    rows = [n for n in chain.rows if chain.row in free[n]]
    fills = {Stage.of(n).filling: n.arg.sizes[0] * n.dtype.itemsize for n in rows}
    fits = min(target.l2 // 2, parameters.block_bytes) // sum(fills.values())
    around = [r for r in nest.loops if r not in (chain.row, *chain.columns)]
    others = loop_size(*around)
    fits = max(1, min(fits, size // -(-MIN_ITEMS // others), size))
    longest = max(n.arg.sizes[0] for n in rows)
    dtype = max((n.dtype for n in rows), key=lambda dtype: dtype.itemsize)
    tile = tile_of_vectors(Sizes(size, longest), dtype, target, parameters.tile)
    if fits < tile.rows:
        return fits
    if _span(nest, chain) is not None:
        fits = min(fits, max(tile.rows, size // BLOCKS_UNDER_MASK))
    return _even_rows(size, fits, tile.rows)


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
            loads = LOADS / rows + LOADS / block
            found.append((-(-size // block) * block * (1 + loads), -block))
    return -min(found)[1]


class Blocks:
    """The cut of one nest."""

    moves: Moves
    nest: Nest
    chain: Chain
    target: Target
    free: dict[Node, Ranges]
    size: int
    rows: int
    whole: bool
    block: Node
    first: Node

    def __init__(
        self, moves: Moves, nest: Nest, chain: Chain, rows: int, steps: int,
        tile: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        self.moves, self.nest, self.chain, self.target = moves, nest, chain, moves.target
        self.steps, self.tile = steps, tile
        self.free = free_ranges(nest.node)
        self.size = loop_size(chain.row)
        self.rows = rows
        blocks = -(-self.size // self.rows)
        self.block = moves.loop(blocks, "grid") if blocks > 1 else Node.index(0)
        self.first = self.block * self.rows
        self.whole = blocks * self.rows == self.size
        self.filled: dict[tuple[Node, ...], _Block] = {}
        self.made: list[_Filled] = []
        self.chunks: list[_Chunks] = []
        self.part_columns: set[Node] = set()
        self.along: dict[Node, int] = {}  # loops along rows, and how many steps of a row each takes
        self.lengths: set[int] = {1}  # these, and those of what takes all steps of a row at once

    def make(self) -> None:
        """Cut, then schedule."""
        span = self._span()
        self._cut()
        outer = self._outer_as_grid()
        for filled in self.made:
            self._schedule(filled)
        if span is not None and self.block.op is Op.RANGE:
            self._bound(span.substitute(outer))
        else:
            self._end_chunks()

    # -- rows become blocks ---------------------------------------------------------------------

    def _cut(self) -> None:
        chain, row = self.chain, self.moves.loop(self.rows)
        parts = {product: self._parts(product, row) for product in chain.products}
        effects = [self._guarded(self._at(e, row, parts), row) for e in self.nest.effects]
        columns = frozenset(chain.columns)
        free = [ranges_of(effect) for effect in effects]
        inner = [e for e, f in zip(effects, free, strict=True) if f & columns]
        outer = [e for e, f in zip(effects, free, strict=True) if not f & columns]
        if inner:
            outer.append(End(tuple(inner), chain.columns).node())
        around = [r for r in self.nest.loops if r is not chain.row and r not in columns]
        block = [self.block] if self.block.op is Op.RANGE else []
        end = End(tuple(outer), (*around, *block, row)).node()
        self.moves.root = simplify(self.moves.root.substitute({self.nest.node: end}))

    def _guarded(self, effect: Node, row: Node) -> Node:
        if self.whole:
            return effect
        store = Store.of(effect)
        return store._replace(gate=all_of((store.gate, self._inside(row)))).node()

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
        self.made.append(_Filled(fill, loops))
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
        kept = Stage.of(node) if node.op is Op.STAGE else _statistic(node)
        if kept.filling not in self.filled:
            fill = self.moves.loop(self.rows)
            value, loops = self._at(kept.value, fill), (fill, *kept.loops)
            self.filled[kept.filling] = _Block(value, fill, loops)
            self.made.append(_Filled(fill, loops))
        value, fill, loops = self.filled[kept.filling]
        filled, read = (fill, *kept.filled), (row, *kept.read)
        arg = StageArg("shared", (self.rows, *kept.arg.sizes))
        return Stage(value, self._inside(fill), filled, read, loops, arg, node.dtype).node()

    # -- every block gets a schedule --------------------------------------------------------------

    def _outer_as_grid(self) -> dict[Node, Node]:
        """The loops around the rows as grid; columns as lanes."""
        chain, moves = self.chain, self.moves
        around = [r for r in self.nest.loops if r is not chain.row and r not in chain.columns]
        grid = moves.copies(around, "grid")
        splits = {r: Split(n, (n,)) for r, n in grid.items()}
        if chain.columns:
            last = chain.columns[-1]
            splits[last] = moves.tiled(loop_size(last), (self._lanes(chain.products[0]), "vector"))
        moves.replace_loops(splits)
        return grid

    def _lanes(self, value: Node) -> int:
        return max(2, min(self.target.lanes(value.dtype), self.target.max_lanes))

    def _schedule(self, filled: _Filled) -> None:
        stages = self.moves.root.toposort()
        stage = next(n for n in stages if n.op is Op.STAGE and filled.row in closed_ranges(n))
        column = filled.loops[-1]
        inner = Stage.of(stage).value.toposort(lambda n: n.op is not Op.STAGE)
        reduces = [n for n in inner if n.op is Op.REDUCE]
        if column is filled.row:  # a statistic
            along = {n: closed_ranges(n)[-1] for n in reduces}
            splits = {r: self._along(r, UNROLL, stage, _reads_row(n)) for n, r in along.items()}
            self.moves.replace_loops(splits)
            return
        product = next((n for n in reduces if self._is_product(n, filled.row, column)), None)
        if product is not None:
            self._tile(filled.row, column, product)
            return
        is_of_row = column not in self.part_columns
        split = self._along(column, UNROLL, stage, is_of_row)
        self.moves.replace_loops({column: split})

    def _along(self, loop: Node, copies: int, value: Node, is_of_row: bool = True) -> Split:
        """A loop, one along rows if `is_of_row`, as `copies` of vectors."""
        split = self.moves.tiled(
            loop_size(loop), (copies, "unroll"), (self._lanes(value), "vector")
        )
        if is_of_row:
            self._note(split)
        return split

    def _note(self, split: Split) -> None:
        """Remember what a loop along rows has become: those of one step have no loop of their own.

        They read all of a row, so that all of it has to be filled.
        """
        outer = split.ranges[0]
        inner = split.ranges[1:] if outer.arg.kind == "loop" else split.ranges
        length = loop_size(*inner)
        self.lengths.add(length)
        if outer.arg.kind == "loop":
            self.along[outer] = length

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
        sizes = Sizes(self.rows, loop_size(column))
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
        inner = value.toposort(lambda n: n.op is not Op.STAGE)
        reduce = next(n for n in inner if n.op is Op.REDUCE and closed_ranges(n) == steps)
        factors = factors_of(Reduce.of(reduce).value)
        assert factors is not None
        free = free_ranges(reduce)
        # A tile of one row has no loop of rows.
        y, x = factors if free[factors[0]] & frozenset(columns.ranges) else factors[::-1]
        if all(stride(index, columns.ranges[-1]) == 1 for index in reads_of(y)):
            return value
        # Every loop that the operand depends on numbers its panels: those of chunks of steps, too.
        packed = pack(self.moves, y, steps, columns, is_shared=True)
        take("packed_columns_for_all")
        return value.substitute({reduce: Reduce(x * packed, steps, reduce.arg).node()})

    def _end_chunks(self) -> None:
        """Let the last of several chunks end where the steps do, before it is as long as others."""
        ends = {}
        for chunk in self.chunks:
            if chunk.part.op is Op.RANGE and chunk.size % loop_size(chunk.step):
                steps = Span(Node.index(0), Node.index(chunk.size))
                left = steps.less(chunk.part * loop_size(chunk.step))
                ends[chunk.step] = left.loop(chunk.step, 1)
        self.moves.root = simplify(replace_ranges(self.moves.root, ends))

    # -- rows that a mask cuts short --------------------------------------------------------------

    def _span(self) -> Span | None:
        """What counts of the rows of a block, if a mask says that it is not all of them."""
        span = _span(self.nest, self.chain)
        box = {self.chain.row: (self.first, self.first + (self.rows - 1))}
        rows = span and span.over(box)
        return rows and rows.within(self.chain.rows[0].arg.sizes[0])

    def _bound(self, span: Span) -> None:
        """Let the loops along rows run no further than a mask lets anything count."""
        # Whole steps of every loop: none reads what another has not filled.
        whole = span.rounded(math.lcm(*self.lengths))
        bounded = {r: whole.loop(r, step) for r, step in self.along.items()}
        for chunk in self.chunks:
            mine, size = span, loop_size(chunk.step)
            if chunk.part.op is Op.RANGE:
                for r in (chunk.part, chunk.total):
                    bounded[r] = span.loop(r, size)
                mine = span.less(bounded[chunk.part].expr * size)
            bounded[chunk.step] = mine.loop(chunk.step, 1)
        self.moves.root = simplify(replace_ranges(self.moves.root, bounded))
        take("masked_bounds")


def _span(nest: Nest, chain: Chain) -> Span | None:
    """What counts of each row, if a mask says that it is not all of it."""
    sizes = {n.arg.sizes[0] for n in chain.rows}
    if len(sizes) > 1:
        return None
    reduces = [n for n in nest.node.toposort() if _is_along_row(n)]
    return span_of_rows(reduces, *sizes, frozenset(nest.loops) - frozenset(chain.columns))


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


def _statistic(value: Node) -> Stage:
    """A statistic of a row, as what has no place in the row."""
    return Stage(value, TRUE, (), (), (), StageArg("shared", ()), value.dtype)


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
