"""Rows kept in cache: costly ones that a kernel uses twice, and ones that it gathers from.

    softmax: exp(x[r] - max) is summed over r, and wanted again for each column c
      ->  a STAGE holds the row of exponentials; the sum and the columns read it
    gather along rows: x[row, places[row, c]]
      ->  a STAGE holds the row of x, which is read from memory as a stream

Only costly functions are worth the detour through memory, and only rows that fit the cache. Which
function it is does not count, nor what is reduced: tanh(x) - max(tanh(x)) is such a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.args import StageArg
from ..ir.loops import TRUE, Split, closed_ranges, free_ranges, loop_size, ranges_of, replace_ranges
from ..ir.node import Node
from ..ir.op import TRANSCENDENTAL, Op
from ..ir.rules.index import simplify
from ..ir.views import Load, Reduce, Stage
from ..target import Target
from .layout import kept
from .loop_moves import reorder
from .moves import Move, Moves
from .nest import Nest, place_in_row, sequential_loops
from .records import Loop, Reduction

__all__ = ["CacheGatheredRow", "CacheRow", "cache_costly_rows", "cache_gathered_rows"]

MIN_ROW = 64
MOST_SKIPPED = 8  # a row is kept if one of so many elements is read
UNROLL = 4


def cache_costly_rows(moves: Moves, target: Target) -> None:
    """Make a STAGE of each costly row that a reduction and the output both compute."""
    for nest in moves.open_nests():
        for reduce in nest.reduces:
            _keep(moves, nest, reduce, target)


def _keep(moves: Moves, nest: Nest, reduce: Node, target: Target) -> None:
    free = free_ranges(nest.node)
    reduced, loops, _ = Reduce.of(reduce)
    if reduce not in free or len(loops) != 1 or not free[reduce] < frozenset(nest.loops):
        return
    (along,), rest = loops, [r for r in nest.loops if r not in free[reduce]]
    size = loop_size(along)
    if len(rest) != 1 or loop_size(rest[0]) != size or along.arg.kind != "loop":
        return
    fits = target.l2 // 4
    outside = {n for n in nest.nodes if n in free and rest[0] in free[n]}
    for number, value in enumerate(reversed(reduced.toposort())):
        if along not in free[value] or size < MIN_ROW or size * value.dtype.itemsize > fits:
            continue
        again = value.substitute({along: rest[0]})
        if again not in outside:
            continue
        computed = value.toposort(lambda n: along in free[n])  # anew for each element of the row
        if any(n.op in TRANSCENDENTAL and along in free[n] for n in computed):
            if moves.has(reduce):  # else another row that was kept has changed it
                moves.make(CacheRow(moves.name_of(reduce), Loop.of(rest[0]), number))
            return


@dataclass(frozen=True)
class CacheRow(Move):
    """A row that a reduction goes along is kept, and read again along the loop `column`.

    It is the value of so many from the last one on of what the reduction combines.
    """

    word = "cached_rows"

    reduction: Reduction
    column: Loop
    value: int

    def apply(self, moves: Moves) -> None:
        reduced, (along,), _ = Reduce.of(moves.reduce_of(self.reduction))
        value, column = reduced.toposort()[-1 - self.value], moves.range_of(self.column)
        again = value.substitute({along: column})
        fill, row = _row(moves, value, along)
        order = moves.root.toposort()
        reduces = (n for n in order if n.op is Op.REDUCE and closed_ranges(n) == (along,))
        made = {n: replace_ranges(n, {along: fill}) for n in reduces}
        moves.root = simplify(moves.root.substitute(made | {again: row(column)}))


def _row(moves: Moves, value: Node, along: Node) -> tuple[Split, Callable[[Node], Node]]:
    """Vectors that fill a STAGE of `value` for all of `along`, and it by the place that is read."""
    lanes = min(moves.target.lanes(value.dtype), moves.target.max_lanes)
    fill = moves.tiled(loop_size(along), (UNROLL, "unroll"), (max(lanes, 2), "vector"))
    arg = StageArg("shared", (loop_size(along),))
    stage = Stage.of(kept(value, arg, (along,), {along: fill}))
    return fill, lambda at: stage._replace(read=(at,)).node()


def cache_gathered_rows(moves: Moves, target: Target) -> None:
    """Make a STAGE of each row of memory that is read in any order, if much of it is."""
    for load in moves.root.toposort():
        if load.op is Op.LOAD and Load.of(load).is_gated:
            around = (n for n in moves.nests() if n.node.op is Op.END and load in n.nodes)
            nest = next(around, None)  # as it is behind the rows before
            if nest is not None and not sequential_loops(nest):
                _keep_gathered(moves, nest, load, target)


def _keep_gathered(moves: Moves, nest: Nest, load: Node, target: Target) -> None:
    found = place_in_row(load)
    if found is None:
        return
    row, _, size = found
    rows = tuple(r for r in nest.loops if r in ranges_of(row))
    rest = [r for r in nest.loops if r not in rows]
    reads = loop_size(*rest)
    if size < MIN_ROW or size * load.dtype.itemsize > target.l2 // 4 or reads * MOST_SKIPPED < size:
        return
    if not rows or not rest or ranges_of(load) != frozenset(nest.loops):
        return
    reorder(moves, nest, (*rows, *rest))
    loads = [n for n in moves.root.toposort() if n.op is Op.LOAD]
    moves.make(CacheGatheredRow(loads.index(load)))


@dataclass(frozen=True)
class CacheGatheredRow(Move):
    """The row that a LOAD gathers from is kept; `load` counts the LOADs of the kernel."""

    word = "cached_gathered_rows"

    load: int

    def apply(self, moves: Moves) -> None:
        loads = [n for n in moves.root.toposort() if n.op is Op.LOAD]
        load = loads[self.load]
        found = place_in_row(load)
        if found is None:
            raise ValueError(f"{self}: it does not gather")
        row, place, size = found
        along, given = moves.loop(size), Load.of(load)
        _, kept_at = _row(moves, given._replace(index=row + along, gate=TRUE).node(), along)
        read = given.gate.where(kept_at(given.gate.where(place, 0)), given.other)
        moves.root = simplify(moves.root.substitute({load: read}))
