"""Rows kept in cache: costly ones that a kernel uses twice, and ones that it gathers from.

    softmax: exp(x[r] - max) is summed over r, and wanted again for each column c
      ->  a STAGE holds the row of exponentials; the sum and the columns read it
    gather along rows: x[row, places[row, c]]
      ->  a STAGE holds the row of x, which is read from memory as a stream

Only costly functions are worth the detour through memory, and only rows that fit the cache.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dtype import DType
from ..ir.args import StageArg
from ..ir.choices import take
from ..ir.loops import TRUE, Split, closed_ranges, free_ranges, loop_size, replace_ranges
from ..ir.node import Node
from ..ir.op import TRANSCENDENTAL, Op
from ..ir.rules.index import simplify
from ..ir.views import Load, Reduce, Stage
from ..target import Target
from .moves import Moves
from .nest import Nest, place_in_row, sequential_loops

__all__ = ["cache_costly_rows", "cache_gathered_rows"]

MIN_ROW = 64
MOST_SKIPPED = 8  # a row is kept if one of so many elements is read
UNROLL = 4


def cache_costly_rows(moves: Moves, target: Target) -> None:
    """Make a STAGE of each costly row that a reduction and the output both compute."""
    for nest in moves.nests():
        if nest.node.op is Op.END and not nest.is_scheduled and not sequential_loops(nest):
            for reduce in nest.reduces():
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
    outside = {n for n in nest.nodes() if n in free and rest[0] in free[n]}
    for value in reversed(reduced.toposort()):
        if along not in free[value] or size < MIN_ROW or size * value.dtype.itemsize > fits:
            continue
        again = value.substitute({along: rest[0]})
        if again in outside and any(n.op in TRANSCENDENTAL for n in _computed(value, free, along)):
            _stage(moves, value, along, again, rest[0], target)
            return


def _computed(value: Node, free: dict[Node, frozenset[Node]], along: Node) -> list[Node]:
    """What is computed anew for each element of the row."""
    return [n for n in value.toposort(lambda n: along in free[n]) if along in free[n]]


def _stage(
    moves: Moves, value: Node, along: Node, again: Node, column: Node, target: Target
) -> None:
    """Keep `value` in the loop that reduces it."""
    fill = _fill(moves, along, value.dtype, target)
    kept = _row(value, along, fill)
    reduces = [n for n in moves.root.toposort() if n.op is Op.REDUCE]
    reduces = [n for n in reduces if closed_ranges(n) == (along,)]
    made = {reduce: replace_ranges(reduce, {along: fill}) for reduce in reduces}
    moves.root = simplify(moves.root.substitute(made | {again: kept(column)}))
    take("cached_rows")
    moves.log.append(f"keep a row of {loop_size(along)} (shared)")


def _fill(moves: Moves, along: Node, dtype: DType, target: Target) -> Split:
    lanes = min(target.lanes(dtype), target.max_lanes)
    return moves.tiled(loop_size(along), (UNROLL, "unroll"), (max(lanes, 2), "vector"))


def _row(value: Node, along: Node, fill: Split) -> Callable[[Node], Node]:
    """A STAGE of `value` for all of `along`, as a function of the place that is read."""
    size = loop_size(along)
    filled = replace_ranges(value, {along: fill})
    arg = StageArg("shared", (size,))
    return lambda at: Stage(
        filled, fill.guard, (fill.expr,), (at,), fill.ranges, arg, value.dtype
    ).node()


def cache_gathered_rows(moves: Moves, target: Target) -> None:
    """Make a STAGE of each row of memory that is read in any order, if much of it is."""
    for nest in moves.nests():
        if nest.node.op is Op.END and not sequential_loops(nest):
            for load in nest.nodes():
                if load.op is Op.LOAD and Load.of(load).is_gated:
                    _keep_gathered(moves, nest, load, target)


def _keep_gathered(moves: Moves, nest: Nest, load: Node, target: Target) -> None:
    found = place_in_row(load)
    if found is None:
        return
    row, place, size = found
    rows = tuple(r for r in nest.loops if r in free_ranges(row)[row])
    rest = [r for r in nest.loops if r not in rows]
    reads = loop_size(*rest)
    if size < MIN_ROW or size * load.dtype.itemsize > target.l2 // 4 or reads * MOST_SKIPPED < size:
        return
    if not rows or not rest or free_ranges(load)[load] != frozenset(nest.loops):
        return
    along = moves.loop(size)
    fill = _fill(moves, along, load.dtype, target)
    given = Load.of(load)
    kept = _row(given._replace(index=row + along, gate=TRUE).node(), along, fill)
    moves.reorder(nest, (*rows, *rest))
    read = given.gate.where(kept(given.gate.where(place, 0)), given.other)
    moves.root = simplify(moves.root.substitute({load: read}))
    take("cached_gathered_rows")
    moves.log.append(f"keep a gathered row of {size} (shared)")
