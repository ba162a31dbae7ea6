"""Chains of products: blocks of rows of what lies between stay in each worker's cache.

    out[i, d] = sum over j of x[i, j] * y[j, d]      x[i, :] is a row that the kernel keeps,
    x[i, j] = f(sum over c of p[i, c] * q[j, c])     computed by a product itself (attention)

The scheduler makes such a kernel with a row of x for each step of i (schedule/kept.py). Here i is
cut into blocks: every row that is kept becomes a block of rows, every statistic of a row a column,
so that each product between them has rows to reuse its other operand for, and gets a register tile.

    for each block of i (grid):
        x[block, :] = tiles of p @ q.T, then f over it, row by row
        part[chunk of j][block, :] = tiles of x @ y      chunks of j, so that y stays in cache
        out[block, :] = sum of the parts

q is packed once for all workers; y is read as it is where its rows are contiguous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..ir.args import ReduceArg, StageArg
from ..ir.loops import TRUE, Split, closed_ranges, free_ranges, replace_ranges
from ..ir.node import Node, rebuild
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import Target
from .matmul import Tile, choose_tile, factors_of, pack_columns
from .moves import Moves
from .nest import Nest, reads_of, sequential_loops, stride
from .tails import row_limits

__all__ = ["block_chains"]

MIN_ITEMS = 8  # blocks to share among workers, at least
CHUNK = 512  # steps of the last product at a time
MAX_BYTES = 512 << 10  # of rows that a block keeps
UNROLL = 4


def block_chains(moves: Moves, target: Target) -> None:
    """Cut the rows of every chain of products into blocks."""
    for nest in moves.nests():
        if nest.node.op is Op.END and not sequential_loops(nest):
            nest = _without_factors(moves, nest)
            chain = _recognise(nest)
            if chain is not None:
                _Blocks(moves, nest, chain, target).make()


@dataclass(frozen=True)
class _Chain:
    """The loop of a chain's rows, its last product if it has one, and the columns of that."""

    row: Node
    reduce: Node | None
    columns: tuple[Node, ...]


def _is_kept(node: Node) -> bool:
    return node.op is Op.STAGE and node.arg.scope == "shared" and len(node.arg.sizes) == 1


def _is_along_row(node: Node) -> bool:
    """Whether a REDUCE combines elements of a row that is kept."""
    if node.op is not Op.REDUCE:
        return False
    inner = node.src[0].toposort(lambda n: n.op is not Op.STAGE)
    return any(_is_kept(n) and n.src[3] in node.src for n in inner)


def _kept_factor(reduce: Node) -> tuple[Node, Node] | None:
    """(the factor that is a kept row, the other) of a sum of products."""
    factors = factors_of(reduce.src[0]) if reduce.op is Op.REDUCE else None
    if factors is None or reduce.arg.op is not Op.ADD or len(reduce.src) != 2:
        return None
    for x, y in (factors, factors[::-1]):
        if _is_kept(x) and not any(_is_kept(n) for n in y.toposort()):
            return x, y
    return None


def _without_factors(moves: Moves, nest: Nest) -> Nest:
    """Sums of `(v / w) * y` over rows that share w become `sum(v * y) / w`: one division a row."""
    mapping = {}
    for reduce in nest.nodes():
        factors = _kept_factor(reduce)
        if factors is None:
            continue
        x, y = factors
        value, place = x.src[0], x.src[3]
        if value.op not in (Op.FDIV, Op.MUL) or x.src[1] is not TRUE:
            continue
        row, by = value.src
        if _is_kept(row) and row.src[3] is x.src[2] and x.src[4] not in free_ranges(by)[by]:
            kept = row.replace(src=(*row.src[:3], place, *row.src[4:]))
            total = reduce.replace(src=(kept * y, *reduce.src[1:]))
            mapping[reduce] = total.alu(value.op, by)
    if not mapping:
        return nest
    moves.root = moves.root.substitute(mapping)
    return next(n for n in moves.nests() if n.loops == nest.loops)


def _recognise(nest: Nest) -> _Chain | None:
    free = free_ranges(nest.node)
    loops = frozenset(nest.loops)
    kept = [n for n in nest.node.toposort() if _is_kept(n) and free[n] & loops]
    if not kept or len(nest.stores()) != 1:
        return None
    around = frozenset().union(*(free[n] & loops for n in kept))
    columns = tuple(r for r in nest.loops if r not in around)
    products = [n for n in nest.nodes() if n.op is Op.REDUCE and free[n] & frozenset(columns)]
    operands = [n for stage in kept for n in _operands(stage)]
    if columns:
        if len(products) != 1 or stride(nest.stores()[0], columns[-1]) != 1:
            return None
        factors = _kept_factor(products[0])
        if factors is None or free[products[0]] != loops:
            return None
        operands.append(factors[1])
    shared = [r for r in nest.loops if r in around and any(r not in free[n] for n in operands)]
    rows = [r for r in shared if not columns or r not in free[operands[-1]]]
    if not rows:
        return None
    row = max(rows, key=lambda r: r.src[0].arg)
    return _Chain(row, products[0] if columns else None, columns)


def _operands(stage: Node) -> list[Node]:
    """The factors of the products that a row is filled with."""
    inner = stage.src[0].toposort(lambda n: n.op is not Op.STAGE)
    found = [factors_of(n.src[0]) for n in inner if n.op is Op.REDUCE]
    return [factor for factors in found if factors for factor in factors]


@dataclass(eq=False)
class _Filled:
    """A block that was made: its loop over rows, and the other loops that fill it."""

    row: Node
    loops: tuple[Node, ...]


@dataclass(eq=False)
class _Blocks:
    moves: Moves
    nest: Nest
    chain: _Chain
    target: Target
    filled: dict[tuple[Node, ...], tuple[Node, ...]] = field(default_factory=dict)
    made: list[_Filled] = field(default_factory=list)
    along: dict[Node, int] = field(default_factory=dict)  # loops along rows: steps of a row in each

    chunks: tuple[Node, Node, Node] | None = None  # (chunk, chunk as it is summed, step of one)
    bounded: dict[Node, Split] = field(default_factory=dict)
    parts: frozenset[Node] = frozenset()  # the columns of the last product, as its parts fill them

    def make(self) -> None:
        moves, chain = self.moves, self.chain
        self.free = free_ranges(self.nest.node)
        self.tile = choose_tile(
            chain.row.src[0].arg,
            max(n.arg.sizes[0] for n in self._rows()),
            max(n.dtype.itemsize for n in self._rows()),
            self.target,
        )
        self.length = max(n.arg.sizes[0] for n in self._rows())
        self.rows = self._rows_of_a_block()
        size = chain.row.src[0].arg
        blocks = -(-size // self.rows)
        self.block = moves.loop(blocks, "grid") if blocks > 1 else Node.index(0)
        self.first = self.block * self.rows
        self.last = size - 1
        self.whole = blocks * self.rows == size
        self.begin, self.end = self._limits(at_end=False), self._limits(at_end=True)
        self._cut()
        self._outer_as_grid()
        for filled in self.made:
            self._schedule(filled)
        self._bound()
        moves.log.append(f"blocks of {self.rows} rows (shared)")

    # -- rows become blocks -------------------------------------------------------------------

    def _rows(self) -> list[Node]:
        below = self.nest.node.toposort()
        return [n for n in below if _is_kept(n) and self.chain.row in self.free[n]]

    def _rows_of_a_block(self) -> int:
        """As many as the cache holds, in whole tiles, but enough blocks for all workers."""
        fills = {n.src[:3]: n.arg.sizes[0] * n.dtype.itemsize for n in self._rows()}
        fits = min(self.target.l2 // 2, MAX_BYTES) // sum(fills.values())
        size = self.chain.row.src[0].arg
        others = math.prod(
            r.src[0].arg
            for r in self.nest.loops
            if r is not self.chain.row and r not in self.chain.columns
        )
        fits = max(1, min(fits, size // -(-MIN_ITEMS // others), size))
        if fits < self.tile.rows:
            return fits
        blocks = -(-size // (fits // self.tile.rows * self.tile.rows))
        return -(-size // (blocks * self.tile.rows)) * self.tile.rows

    def _cut(self) -> None:
        nest, chain = self.nest, self.chain
        inner = self.moves.loop(self.rows)
        effects = []
        for effect in nest.effects:
            known = (
                {chain.reduce: self._parts(chain.reduce, inner)} if chain.reduce is not None else {}
            )
            moved = self._at(effect, inner, known)
            if not self.whole:
                gate = self.first + inner < self.last + 1
                moved = moved.replace(
                    src=(*moved.src[:3], moved.src[3] & gate if len(moved.src) > 3 else gate)
                )
            effects.append(moved)
        loops = [r for r in nest.loops if r is not chain.row and r not in chain.columns]
        block = (self.block,) if self.block.op is Op.RANGE else ()
        end = nest.node.replace(src=(*effects, *loops, *block, inner, *chain.columns))
        self.moves.root = simplify(self.moves.root.substitute({nest.node: end}))

    def _parts(self, reduce: Node, row: Node) -> Node:
        """The last product as the sum of its chunks' products, each of them kept."""
        moves = self.moves
        steps = reduce.src[1]
        size = steps.src[0].arg
        self.steps = steps
        chunks = -(-size // CHUNK)
        per_chunk = -(-size // chunks)
        part, total, fill = moves.loop(chunks), moves.loop(chunks), moves.loop(self.rows)
        if chunks == 1:
            part = total = Node.index(0)
        split = Split(steps, (steps,))
        if chunks > 1:
            inner = moves.loop(per_chunk)
            position = part * per_chunk + inner
            guard = TRUE if per_chunk * chunks == size else position < size
            split = Split(position, (inner,), guard)
            self.chunks = (part, total, inner)
        partial = replace_ranges(self._at(reduce, fill), {steps: split} if chunks > 1 else {})
        columns = moves.copies(self.chain.columns)
        self.parts = frozenset(columns.values())
        value = partial.substitute(columns)
        outer = (part,) if chunks > 1 else ()
        places = (part, fill, *columns.values())
        reads = (total, row, *self.chain.columns)
        loops = (*outer, fill, *columns.values())
        sizes = (chunks, self.rows, *(r.src[0].arg for r in self.chain.columns))
        src = (value, self._inside(fill), *places, *reads, *loops)
        stage = Node(Op.STAGE, reduce.dtype, src, StageArg("shared", sizes))
        self.made.append(_Filled(fill, loops))
        if chunks == 1:
            return stage
        return Node(Op.REDUCE, reduce.dtype, (stage, total), ReduceArg(Op.ADD))

    def _inside(self, row: Node) -> Node:
        return TRUE if self.whole else self.first + row < self.last + 1

    def _at(self, root: Node, row: Node, known: dict[Node, Node] | None = None) -> Node:
        """`root` for row `row` of the block, with what it keeps as blocks."""
        loop, free = self.chain.row, self.free
        new = dict(known or {})
        new[loop] = self.first + row
        inside = lambda n: n not in new and loop in free[n] and not self._is_block(n, root)
        for node in root.toposort(inside):
            if node in new:
                continue
            if loop not in free[node]:
                new[node] = node
            elif self._is_block(node, root):
                new[node] = self._block(node, row)
            elif node.op is Op.LOAD and not self.whole:  # of rows that there are
                clamped = new[loop].minimum(self.last)
                src = (s.substitute({loop: clamped}) for s in node.src[1:])
                new[node] = node.replace(src=(node.src[0], *src))
            else:
                src = tuple(new[s] for s in node.src)
                new[node] = node if src == node.src else rebuild(node, src)
        return new[root]

    def _is_block(self, node: Node, root: Node) -> bool:
        """Whether a block keeps `node`: a row, or a statistic of a row."""
        if node is root or self.chain.row not in self.free[node]:
            return False
        if node.op is Op.REDUCE:
            return self.free[node] <= frozenset(self.nest.loops) - set(self.chain.columns)
        return _is_kept(node)

    def _block(self, node: Node, row: Node) -> Node:
        kept = node.op is Op.STAGE
        key = (*node.src[:3], *closed_ranges(node)) if kept else (node,)
        if key not in self.filled:
            fill = self.moves.loop(self.rows)
            value = self._at(node.src[0] if kept else node, fill)
            loops = (fill, *closed_ranges(node)) if kept else (fill,)
            self.filled[key] = (value, self._inside(fill), fill, *loops)
            self.made.append(_Filled(fill, loops))
        value, gate, fill, *loops = self.filled[key]
        places, reads, sizes = (fill,), (row,), (self.rows,)
        if kept:
            places, reads = (fill, node.src[2]), (row, node.src[3])
            sizes = (self.rows, *node.arg.sizes)
        src = (value, gate, *places, *reads, *loops)
        return Node(Op.STAGE, node.dtype, src, StageArg("shared", sizes))

    # -- rows that a mask cuts short --------------------------------------------------------------

    def _limits(self, at_end: bool) -> Node | None:
        """Where what counts of the rows of a block ends or begins, if not with the rows."""
        rows = self._rows()
        if len({n.arg.sizes for n in rows}) != 1:
            return None
        reduces = [n for n in self.nest.node.toposort() if _is_along_row(n)]
        limit: Node | None = None
        for place in row_limits(reduces, {n.src[2]: n.src[0] for n in rows}, at_end):
            step = stride(place, self.chain.row)
            if step is None or not free_ranges(place)[place] <= frozenset(self.nest.loops):
                return None
            row = self.rows - 1 if (step > 0) == at_end else 0
            mine = place.substitute({self.chain.row: self.first + row})
            both = Op.MAX if at_end else Op.MIN
            limit = mine if limit is None else limit.alu(both, mine)
        return None if limit is None else limit.maximum(0).minimum(rows[0].arg.sizes[0])

    def _bound(self) -> None:
        """Let the loops along rows run no further than a mask lets anything count."""
        if (self.begin is None and self.end is None) or self.block.op is not Op.RANGE:
            return
        size = self.length
        outer = {r: s.expr for r, s in self.outer.items()}
        begin = Node.index(0) if self.begin is None else self.begin.substitute(outer)
        end = Node.index(size) if self.end is None else self.end.substitute(outer)
        # Whole steps of every loop: none reads what another has not filled.
        whole = math.lcm(*self.along.values())
        first, last = begin // whole, (end + (whole - 1)) // whole
        for r, step in self.along.items():
            self._between(r, first * (whole // step), last * (whole // step))
        if self.chunks is None:
            if self.chain.reduce is not None:
                self._between(self.steps, begin, end)
        else:
            part, total, inner = self.chunks
            size = inner.src[0].arg
            for r in (part, total):
                self._between(r, begin // size, (end + (size - 1)) // size)
            done = self.bounded[part].expr * size
            self._between(inner, begin - done, end - done)
        self.moves.root = simplify(replace_ranges(self.moves.root, self.bounded))
        self.moves.log.append("rows within their mask")

    def _between(self, loop: Node, begin: Node, end: Node) -> None:
        """Run `loop` over those of its steps that are in `begin` to `end`."""
        begin = simplify(begin.maximum(0))
        count = simplify(end.minimum(loop.src[0].arg) - begin)
        new = loop.replace(src=(count,))
        self.bounded[loop] = Split(simplify(new + begin), (new,))

    # -- and every block gets a schedule ------------------------------------------------------

    def _outer_as_grid(self) -> None:
        outer = [r for r in self.nest.loops if r is not self.chain.row]
        splits = {}
        for r in outer:
            if r not in self.chain.columns:
                new = self.moves.loop(r.src[0].arg, "grid")
                splits[r] = Split(new, (new,))
        self.outer = dict(splits)
        self.batch = tuple(s.ranges[0] for s in self.outer.values())
        if self.chain.reduce is not None:
            last = self.chain.columns[-1]
            lanes = min(self.target.lanes(self.chain.reduce.dtype), self.target.max_lanes)
            splits[last] = self.moves.tiled(last, (max(2, lanes), "vector"))
        self.moves.apply(splits, "blocks of rows as grid")

    def _stage_of(self, filled: _Filled) -> Node:
        return next(
            n
            for n in self.moves.root.toposort()
            if n.op is Op.STAGE and filled.row in closed_ranges(n)
        )

    def _schedule(self, filled: _Filled) -> None:
        stage = self._stage_of(filled)
        column = filled.loops[-1]
        own = stage.src[0].toposort(lambda n: n.op is not Op.STAGE)
        reduces = [n for n in own if n.op is Op.REDUCE]
        free = free_ranges(stage.src[0])
        for reduce in reduces:
            factors = factors_of(reduce.src[0])
            if factors and {filled.row, column} <= free[reduce] and column is not filled.row:
                x, y = factors if filled.row in free[factors[0]] else factors[::-1]
                if filled.row not in free[y] and column not in free[x]:
                    self._tile(filled, column, reduce)
                    return
        lanes = max(2, min(self.target.lanes(stage.dtype), self.target.max_lanes))
        if column is not filled.row:
            split = self.moves.tiled(column, (UNROLL, "unroll"), (lanes, "vector"))
            self._along(split)
            self.moves.apply({column: split}, "rows of a block as lanes")
            return
        splits = {}
        for reduce in reduces:
            along = reduce.src[-1]
            splits[along] = self.moves.tiled(along, (UNROLL, "unroll"), (lanes, "vector"))
            self._along(splits[along])
        self.moves.apply(splits, "statistics of the rows of a block")

    def _along(self, split: Split) -> None:
        """Note a loop along rows, and how many steps of a row each of its own is."""
        outer = split.ranges[0]
        if outer.arg.kind == "loop":
            self.along[outer] = math.prod(r.src[0].arg for r in split.ranges[1:])

    def _tile(self, filled: _Filled, column: Node, reduce: Node) -> None:
        """A product whose result is a block, in register tiles."""
        moves = self.moves
        size = column.src[0].arg
        tile = choose_tile(self.rows, size, reduce.dtype.itemsize, self.target)
        if self.rows % tile.rows:
            tile = Tile(math.gcd(tile.rows, self.rows), tile.vectors, tile.lanes)
        steps = reduce.src[1:]
        rows = moves.tiled(filled.row, (tile.rows, "unroll"))
        columns = moves.tiled(column, (tile.vectors, "unroll"), (tile.lanes, "vector"))
        if column not in self.parts:
            self._along(columns)
        moves.apply(
            {filled.row: rows, column: columns}, f"tile {tile.rows} x {tile.vectors} vectors"
        )
        made = (*rows.ranges, *columns.ranges)
        stage = next(
            n
            for n in moves.root.toposort()
            if n.op is Op.STAGE and set(made) <= set(closed_ranges(n))
        )
        closed = closed_ranges(stage)
        # Panels outside, so that each stays in cache for all rows of the block.
        order = sorted(closed, key=lambda r: _nesting(r, rows, columns))
        kept = stage.src[: len(stage.src) - len(closed)]
        new = stage.replace(src=(*kept, *order))
        uses = [
            n
            for n in moves.root.toposort()
            if n.op is Op.STAGE and n.src[:2] == stage.src[:2] and closed_ranges(n) == closed
        ]
        reduce = next(
            n
            for n in stage.src[0].toposort(lambda n: n.op is not Op.STAGE)
            if n.op is Op.REDUCE and n.src[1:] == steps
        )
        factors = factors_of(reduce.src[0])
        assert factors is not None
        free = free_ranges(reduce)
        mine = frozenset(rows.ranges)
        x, y = factors if free[factors[0]] & mine else factors[::-1]
        value = stage.src[0]
        lane = columns.ranges[-1]
        if any(stride(index, lane) != 1 for index in reads_of(y)):
            y = self._packed(y, steps, columns, tile)
            product = reduce.replace(src=(x * y, *steps))
            value = value.substitute({reduce: product})
        mapping = {
            use: use.replace(src=(value, *use.src[1 : len(use.src) - len(closed)], *order))
            for use in uses
        }
        del new
        moves.root = simplify(moves.root.substitute(mapping))

    def _packed(self, y: Node, steps: tuple[Node, ...], columns: Split, tile: Tile) -> Node:
        around = [r for r in self.batch if r in free_ranges(y)[y]]
        around += [r for r in columns.ranges if r.arg.kind == "loop"]
        position = Node.index(0)
        for r in steps:
            position = position * r.src[0].arg + r
        return pack_columns(self.moves, y, steps, simplify(position), columns, tile, tuple(around))


def _nesting(loop: Node, rows: Split, columns: Split) -> int:
    """Chunks, panels, tiles of rows, then what is inside of a tile."""
    if loop.arg.kind != "loop":
        return 3
    return 2 if loop in rows.ranges else 1 if loop in columns.ranges else 0
