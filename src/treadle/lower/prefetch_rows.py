"""Hints that fetch rows to come while one is computed, or what a loop reads later.

    for row (grid): for step: load(row, step);  for step: load(row, step), exp, ...
      ->  the same, and in each step of the second loop PREFETCH(row + 1, step)

The first loop over a row waits for memory, later ones compute while memory rests.

    for row (grid): for step: load(row, step)
      ->  the same, and in each step PREFETCH(row, step + 8 KiB)

Where large memory is read once, processors fetch ahead by themselves, but not far enough, and no
further than a page. Loops that read at two places at a time (optimize/dual_streams) need no hints
for that, nor do those that also store and fetch lines by that. But where a loop, or the grid
itself, stores around the caches as much as it reads, its loads find memory turned to writing: hints
make fewer turns of it. A loop that stores less only lost by them.

    for rows: for step: load(row, step), ..., load(row + 7, step), store to memory of the worker
      ->  the same, and in each step PREFETCH(row, step + 1 KiB), ..., (row + 7, step + 1 KiB)

Several rows at a time that are added to totals in the nearest cache (optimize/column_reduction.py)
are as many streams, so that less of each is on its way.

    for pair (grid): for step: load(2*pair, step), load(2*pair + 1, step), store around the caches
      ->  the same, and in each step PREFETCH(2*pair + 2, step), PREFETCH(2*pair + 3, step)

Where each row goes on elsewhere than where it ended, and results leave for memory, too, so that
nothing of what is read is likely to be in a cache: the first lines of all rows would be waited for.

    for block (grid): for row: for step: load(row + 1, step), ..., store(row, step)
      ->  the same, and in each step PREFETCH(row + 2, step), into the first-level cache

Rows on their way one behind the other (optimize/row_pipelining) know each other, so that one more
is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..ir.loops import loop_size
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rules.index import linear_terms
from ..ir.views import bound_of
from .linearize import param_bytes
from .nontemporal_stores import CACHE_LINE, STREAM
from .prefetch_hints import (
    Loop,
    Row,
    are_constant,
    asked_for,
    following_row,
    is_plain,
    ranges_of,
    rows_in,
)

__all__ = [
    "AHEAD",
    "hints_for_row",
    "hints_for_rows_ahead",
    "hints_for_streams",
    "hints_for_totals",
]

AHEAD = 8 << 10  # bytes: what a core reads while one line comes from memory, a few times over
AHEAD_IN_EACH = 1 << 10  # bytes, of several streams


def hints_for_row(
    loop: Loop, rows: Sequence[Node], passed: set[tuple[Node, Node]], l2: int
) -> list[Node]:
    """PREFETCHes of the next row, in a loop that goes over a row which another went over before."""
    if not are_constant(loop.loops[-1:]):
        return []
    step, hints = loop.loops[-1], []
    for row in rows_in(loop.body, with_masked=True):
        memory, index = row.first.memory, row.first.index
        place = memory, index.substitute({step: step.like(0)})
        nbytes = loop_size(step) * row.nbytes
        following = following_row(index, rows) if is_plain(memory) else None
        if place in passed and following is not None and nbytes <= l2 // 2:
            passed.remove(place)
            hints += asked_for(memory, following, row.nbytes)
        else:
            passed.add(place)
    return hints


def hints_for_streams(loops: Sequence[Loop], least_bytes: int) -> dict[Node, list[Node]]:
    """PREFETCHes of what each loop reads later, by its RANGE: of memory that is read once."""
    rows = [(loop, row) for loop in loops for row in rows_in(loop.body)]
    readers = Counter(row.first.memory for _, row in rows)
    found: dict[Node, list[Node]] = {}
    for loop, row in rows:
        memory = row.first.memory
        if readers[memory] > 1 or _is_elsewhere_too(row, loop):
            continue
        if loop.stores and not _copies_around_caches(loop):
            continue
        if is_plain(memory) and _is_stream(row, loop, least_bytes):
            found.setdefault(loop.loops[-1], []).extend(_ahead(row))
    return found


def _copies_around_caches(loop: Loop) -> bool:
    """Whether all stores go around the caches, and take what is loaded or more."""
    stored = sum(store.value.dtype.itemsize for store in loop.stores)
    loaded = sum(load.dtype.itemsize for load in loop.loads)
    return all(store.how == STREAM for store in loop.stores) and stored >= loaded


def _is_elsewhere_too(row: Row, loop: Loop) -> bool:
    """Whether a step reads the row's memory at other places, too, which is as good as hints."""
    loads = (load for load in loop.loads if load.memory is row.first.memory)
    return sum(load.dtype.itemsize for load in loads) > row.nbytes


def _is_stream(row: Row, loop: Loop, least_bytes: int) -> bool:
    """Whether the steps of `loop` go through more than `least_bytes` of memory, line by line.

    What lies behind the last step is what the next steps of a loop around it read, or a small part.
    """
    memory, index = row.first.memory, row.first.index
    if param_bytes(behind_after(memory)) <= least_bytes or not are_constant(loop.loops):
        return False
    terms, _ = linear_terms(index)
    per_step = row.nbytes // memory.dtype.scalar.itemsize
    step = loop.loops[-1]
    whole = loop_size(step) * per_step
    if set(terms) != set(loop.loops) or terms[step] != per_step:
        return False
    return whole * memory.dtype.scalar.itemsize >= 4 * AHEAD or whole in terms.values()


def hints_for_totals(loop: Loop, least_bytes: int) -> list[Node]:
    """PREFETCHes in a loop that adds rows to totals, of memory of more than `least_bytes`."""
    totals, loads = {store.memory for store in loop.stores}, loop.loads
    loaded = {load.memory for load in loads}
    if not totals or any(behind_after(m).op is not Op.LOCAL for m in totals) or totals - loaded:
        return []
    hints, step = [], loop.loops[-1]
    for load in loads:
        memory, index = load.memory, load.index
        if load.is_gated or not is_plain(memory):
            continue
        if param_bytes(behind_after(memory)) <= least_bytes or load.dtype.itemsize < CACHE_LINE:
            continue
        if linear_terms(index)[0].get(step, 0) >= load.dtype.count > 1:
            ahead = AHEAD_IN_EACH // memory.dtype.scalar.itemsize
            hints += asked_for(memory, index + ahead, CACHE_LINE)
    return hints


def _ahead(row: Row) -> list[Node]:
    memory, index = row.first.memory, row.first.index
    return asked_for(memory, index + AHEAD // memory.dtype.scalar.itemsize, row.nbytes)


def hints_for_rows_ahead(loop: Loop, rows: Sequence[Node], l2: int, in_blocks: bool) -> list[Node]:
    """PREFETCHes of rows to come, in a loop that streams, but for those that are met anyhow.

    A loop over several rows of a block computes so much that the processor does not meet the next
    one where a row ends, and uses it at once.
    """
    streams = any(store.how == STREAM for store in loop.stores)
    if not streams or not are_constant(loop.loops[-1:]):
        return []
    loads = [load for load in loop.loads if load.dtype.count > 1 and is_plain(load.memory)]
    step = loop.loops[-1]
    if loop_size(step) * sum(load.dtype.itemsize for load in loads) > l2 // 2:
        return []
    level, hints = 1 if in_blocks else 2, []
    for load in loads:
        memory, index = load.memory, load.index
        read = [_first(other.index) for other in loads if other.memory is memory]
        following = following_row(index, rows)
        if following is None or _first(following) in read:
            continue
        behind = index.substitute({step: bound_of(step)})
        if not in_blocks and _first(following) is _first(behind):
            continue
        hints += asked_for(memory, following, load.dtype.itemsize, level)
    return hints


def _first(index: Node) -> Node:
    """`index` where all loops are at their beginning."""
    return index.substitute({n: n.like(0) for n in ranges_of(index)})
