"""A pipeline of rows: one loop reads a row, computes the next and stores a third.

    for row (grid):
      max = max of x[row, c] over c
      for c: kept[c] = exp(x[row, c] - max)
      for c: store(row, c, kept[c] / sum)
    ->
    for block (grid):
      the maxima of two rows, and the first row kept
      for row in block:
        for c: max of x[row + 2, c]; kept[row + 1, c] = exp(x[row + 1, c] - max); store(row, c, ..)

So what a row leaves for later loops, in memory or as statistics, is computed a row ahead of where
it is used: see docs/design/rows.md. A block ends with rows of the next one, for nothing but that
memory holds them ready: fewer loops know no ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..ir.accumulators import is_tuple
from ..ir.args import LocalRef
from ..ir.conditions import TRUE
from ..ir.loops import closed_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.shape import size_max
from ..ir.views import After, End, Load, Stage, Store, bound_of
from ..target import Target
from .moves import Move, Moves
from .nest import Nest, as_stage, flat_place, sequential_loops

__all__ = ["PipelineRows", "pipeline_rows"]

MOST_ROWS, LEAST_ROWS = 32, 8  # of a block, which computes one or two more
MANY_BLOCKS = 128  # for many workers to have several each
LEAST_STEPS = 16  # of the loop over a row: with fewer, processors see the next one by themselves
MORE_IN_CACHE = 2  # rows beside those on their way: the one that is fetched, and one to spare

Loops = tuple[Node, ...]
Ahead = dict[Node, int]  # what rows leave for later loops: so many rows before it is stored


def pipeline_rows(moves: Moves, target: Target) -> None:
    """Compute rows ahead in each nest that stores long rows to memory that no cache holds."""
    for nest in moves.nests():
        leave = all(e.op is Op.STORE and _leaves(Store.of(e), target.l3) for e in nest.effects)
        if nest.node.op is not Op.END or not leave:
            continue
        grid = tuple(r for r in nest.loops if r.arg.kind == "grid")
        inner = nest.loops[len(grid) :]
        if not grid or sequential_loops(nest):
            continue
        ahead = _ahead(nest, grid)
        joined = _joined(ahead, inner)
        rows = min(MOST_ROWS, loop_size(grid[-1]), loop_size(*grid) // MANY_BLOCKS)
        if joined and rows >= LEAST_ROWS and _is_long(nest, inner, max(ahead.values()), target):
            moves.make(PipelineRows(moves.number_of(nest), rows))


@dataclass(frozen=True)
class PipelineRows(Move):
    """A nest computes rows ahead of the one that it stores, so many `rows` in a block."""

    word = "row_pipelining"

    nest: int
    rows: int

    def apply(self, moves: Moves) -> None:
        nest = moves.nest_of(self.nest)
        grid = tuple(r for r in nest.loops if r.arg.kind == "grid")
        ahead = _ahead(nest, grid)
        joined = _joined(ahead, nest.loops[len(grid) :])
        overlap = _Overlap(moves, nest, grid, self.rows, ahead).apply(joined)
        moves.root = simplify(moves.root.substitute({nest.node: overlap}))


def _leaves(store: Store, l3: int) -> bool:
    """Whether what is stored leaves for memory."""
    memory = store.memory
    if store.is_gated or memory.op is not Op.PARAM:
        return False
    return memory.arg.leaves_caches(size_max(memory.arg.size) * memory.dtype.itemsize, l3)


def _is_long(nest: Nest, inner: Loops, ahead: int, target: Target) -> bool:
    """Whether a row takes many steps, and all on their way fit the second-level cache."""
    if inner[0].arg.kind != "loop" or loop_size(inner[0]) < LEAST_STEPS:
        return False
    # Each memory counts once, and each kept row, by what fills it.
    nodes = nest.nodes
    reads = {Load.of(n).memory: n.dtype.itemsize for n in nodes if n.op is Op.LOAD}
    reads |= {Stage.of(n).value: n.dtype.itemsize for n in nodes if n.op is Op.STAGE}
    return (ahead + MORE_IN_CACHE) * loop_size(*inner) * sum(reads.values()) <= target.l2


def _ahead(nest: Nest, grid: Loops) -> Ahead:
    """How many rows ahead each kept row, and each reduction that reads none, is computed.

    Nothing where one of them is another for each column.
    """
    order = Node.sink(nest.effects).toposort(lambda n: n.op is not Op.STAGE or _is_kept(n))
    readers: set[Node] = set()
    needed: dict[Node, int] = {}
    for node in order:
        if _is_kept(node) or not readers.isdisjoint(node.src):
            readers.add(node)
    found: Ahead = {}
    for node in reversed(order):
        now = needed.get(node, 0)
        # Of a tuple each item is a value by itself.
        is_total = node.op is Op.ITEM or (node.op is Op.REDUCE and not is_tuple(node))
        if _is_kept(node) or (is_total and node not in readers):
            # It is computed anew in the steps of these loops.
            left = as_stage(node)
            around = ranges_of(Node.sink(left.filling)) - frozenset(left.loops)
            if not around <= frozenset(grid):
                return {}
            if grid[-1] in around:
                now = found[node] = now + 1
        for source in node.src:
            needed[source] = max(needed.get(source, 0), now)
    return found


def _is_kept(node: Node) -> bool:
    return node.op is Op.STAGE and node.arg.scope == "shared"


def _is_simple(node: Node) -> bool:
    """Whether a kept row is one line that is filled without gaps, from nothing that is kept."""
    stage = Stage.of(node)
    below = stage.value.toposort(lambda n: n.op is not Op.STAGE)
    return len(stage.filled) == 1 and stage.gate is TRUE and not any(map(_is_kept, below))


def _joined(ahead: Ahead, inner: Loops) -> dict[Node, Node]:
    """The loops of rows to come that the loops over this row's columns can be as well."""
    if not all(_is_simple(n) for n in ahead if _is_kept(n)):
        return {}
    alike = lambda loops: [(bound_of(r), r.arg.kind) for r in loops]
    found = [closed_ranges(n) for n in ahead]
    found = [loops for loops in found if alike(loops) == alike(inner)]
    return {r: new for loops in found for r, new in zip(loops, inner, strict=True)}


class _Overlap:
    """The loops of a nest of which rows are computed ahead, `rows` in a block."""

    def __init__(self, moves: Moves, nest: Nest, grid: Loops, rows: int, ahead: Ahead) -> None:
        *self.around, self.row = grid
        self.effects, self.inner = Node.sink(nest.effects), nest.loops[len(grid) :]
        count = loop_size(self.row)
        self.last = count - 1
        self.block = moves.loop(-(-count // rows), "grid")
        self.first = self.block * rows
        self.turn = moves.loop(rows if count % rows == 0 else (count - self.first).minimum(rows))
        self.left = {n: as_stage(n).filling for n in ahead}
        self.each = {key: n for n, key in self.left.items()}  # a node for each piece of memory
        self.ahead: dict[Loops, int] = {}
        for node, key in self.left.items():
            self.ahead[key] = max(ahead[node], self.ahead.get(key, 0))
        number = sum(n.op is Op.LOCAL for n in moves.root.toposort())
        sizes = {key: (self.ahead[key] + 1) * _columns(node) for key, node in self.each.items()}
        self.memory = {
            key: Node(Op.LOCAL, node.dtype, (), LocalRef(number + n, sizes[key]))
            for n, (key, node) in enumerate(self.each.items())
        }
        loops = dict.fromkeys(r for n in _below(self.each.values()) for r in closed_ranges(n))
        fresh = [moves.copies(loops) for _ in range(max(self.ahead.values()))]
        self.ready = {key: self._begun(key, fresh) for key in self.each}

    def apply(self, joined: dict[Node, Node]) -> Node:
        """The END of all rows; `joined` are loops that become those over columns."""
        row = [*self._in_turn(self.effects, 0).src]
        beside: list[Node] = []
        for key, node in self.each.items():
            value = self._in_turn(node, self.ahead[key]).substitute(joined)
            stored = self._store(value, self.memory[key], self._slot(key, self.ahead[key]))
            if _is_kept(value) and closed_ranges(value) == self.inner:
                row.append(stored)
            else:
                beside.append(End((stored,), as_stage(value).loops).node())
        columns = End(tuple(row), self.inner).node()
        loops = (*self.around, self.block, self.turn)
        return End((columns, *beside), loops).node()

    def _begun(self, key: Loops, fresh: list[dict[Node, Node]]) -> Node:
        """The memory after the first rows of a block have left theirs, each in loops of its own."""
        ends = []
        for number in range(self.ahead[key]):
            row = (self.first + number).minimum(self.last)
            node = self.each[key].substitute({self.row: row} | fresh[number])
            stored = self._store(node, self.memory[key], Node.index(number))
            ends.append(End((stored,), as_stage(node).loops).node())
        return After(self.memory[key], tuple(ends)).node()

    def _in_turn(self, value: Node, ahead: int) -> Node:
        """`value` so many rows ahead of the one whose turn it is, with what was left before."""
        reads = {n: self._read(n, ahead) for n, k in self.left.items() if self.ahead[k] > ahead}
        row = self.first + self.turn + ahead
        row = row.minimum(self.last) if ahead else row
        return value.substitute(reads).substitute({self.row: row})

    def _slot(self, key: Loops, ahead: int) -> Node:
        return (self.turn + ahead) % (self.ahead[key] + 1)

    def _store(self, node: Node, memory: Node, slot: Node) -> Node:
        """The STORE of what a row leaves, or of one column of it."""
        left = as_stage(node)
        place = slot * _columns(node) + flat_place(left.filled, left.arg.sizes)
        return Store(memory, place, left.value).node()

    def _read(self, node: Node, ahead: int) -> Node:
        """What the row that comes so many rows after this one has left."""
        key, left = self.left[node], as_stage(node)
        place = self._slot(key, ahead) * _columns(node) + flat_place(left.read, left.arg.sizes)
        return Node(Op.LOAD, node.dtype, (self.ready[key], place))


def _columns(node: Node) -> int:
    return math.prod(as_stage(node).arg.sizes)


def _below(left: Iterable[Node]) -> list[Node]:
    """What closes loops to compute what rows leave."""
    found = Node.sink(left).toposort(lambda n: n.op is not Op.STAGE or _is_kept(n))
    return [n for n in found if n.op is Op.REDUCE or _is_kept(n)]
