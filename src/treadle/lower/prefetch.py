"""Hints that fetch the next panel of a matrix while this one is multiplied, or the next row.

    for panel (grid): for tile: for step: load(panel, step, line 0), ..., load(panel, step, line n)
      ->  the same, and in each step PREFETCH(panel + 1, line (tile * steps + step) >> shift)

The first tile of each panel waits for memory, all others find the panel in the second-level cache.
Processors fetch ahead along lines, but not from the end of one panel to the next. So the tiles ask
for the next panel, line by line and spread over most of their steps: memory delivers no faster, and
tiles that asked for more would wait. Where a worker packs its panels itself, the hints are for what
it will pack next. Nothing depends on a hint.

    for row (grid): for step: load(row, step);  for step: load(row, step), exp, ...
      ->  the same, and in each step of the second loop PREFETCH(row + 1, step)

The first loop over a row waits for memory, later ones compute while memory rests.

    for row (grid): for step: load(row, step)
      ->  the same, and in each step PREFETCH(row, step + 8 KiB)

Where large memory is read once, processors fetch ahead by themselves, but not far enough, and no
further than a page. Loops that read at two places at a time (optimize/places) need no hints for
that, nor do those that also store and fetch lines by that. But where a loop, or the grid itself,
stores around the caches as much as it reads, its loads find memory turned to writing: hints make
fewer turns of it. A loop that stores less only lost by them.

    for rows: for step: load(row, step), ..., load(row + 7, step), store to memory of the worker
      ->  the same, and in each step PREFETCH(row, step + 1 KiB), ..., (row + 7, step + 1 KiB)

Several rows at a time that are added to totals in the nearest cache (optimize/columns.py) are as
many streams, so that less of each is on its way.

    for pair (grid): for step: load(2*pair, step), load(2*pair + 1, step), store around the caches
      ->  the same, and in each step PREFETCH(2*pair + 2, step), PREFETCH(2*pair + 3, step)

Where each row goes on elsewhere than where it ended, and results leave for memory, too, so that
nothing of what is read is likely to be in a cache: the first lines of all rows would be waited for.

    for block (grid): for row: for step: load(row + 1, step), ..., store(row, step)
      ->  the same, and in each step PREFETCH(row + 2, step), into the first-level cache

Rows on their way one behind the other (optimize/overlap) know each other, so that one more is.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..dtype import dtypes
from ..ir.node import Node, alu, behind_after
from ..ir.op import ALU, Op
from ..ir.rules.index import linear_terms
from .linearize import Phase, param_bytes
from .streams import CACHE_LINE, STREAM, split_index

__all__ = ["with_prefetches"]

AHEAD = 8 << 10  # bytes: what a core reads while one line comes from memory, a few times over
AHEAD_IN_EACH = 1 << 10  # bytes, of several streams


@dataclass(frozen=True)
class _Row:
    """`nbytes` side by side that one step loads, the LOAD `first` before the others."""

    first: Node
    nbytes: int


@dataclass(frozen=True)
class _Loop:
    """An innermost loop: the loops that are open there, what it holds, and its END.

    The grid's own last loop has none.
    """

    loops: list[Node]
    body: list[Node]
    end: Node | None

    @property
    def places(self) -> list[Node]:
        """Where what comes before a loop, or before its end, is put."""
        return self.loops if self.end is None else [*self.loops, self.end]


def with_prefetches(phase: Phase, l1: int, l2: int, l3: int) -> Phase:
    """`phase` with hints for panels that outgrow a cache of `l1` bytes, two of which fit `l2`.

    And for rows of what outgrows `l3`, the last cache before memory.
    """
    program, grid = list(phase.program.src), phase.grid
    innermost = _innermost(program)
    fills = [loop for loop in innermost if len(loop.loops) == len(grid) + 1]
    rows = _loops_over_rows(innermost, grid)
    passed: set[tuple[Node, Node]] = set()
    streams = _streams(innermost, l3)
    for loop in innermost:
        found = [_hint(row, loop.loops, grid, l1, l2) for row in _rows(loop.body)]
        found += [_hint_for_packing(f, loop.loops, loop.body, grid, l1, l2) for f in fills]
        if loop.loops[:-1] == rows:
            found += _hints_for_row(loop, rows, passed, l2)
            found += _hints_for_rows_ahead(loop, rows, l2, len(rows) > len(grid))
        found += _hints_for_totals(loop, l3)
        wanted = [hint for hint in found if hint is not None] or streams.get(loop.loops[-1], [])
        for hint in wanted:
            _insert(program, hint, loop.places)
    if len(program) == len(phase.program.src):
        return phase
    return replace(phase, program=phase.program.replace(src=tuple(program)))


def _innermost(program: Sequence[Node]) -> list[_Loop]:
    found: list[_Loop] = []
    loops: list[Node] = []
    body: list[Node] | None = None
    for node in program:
        if node.op is Op.RANGE:
            loops.append(node)
            body = []
        elif node.op is Op.END:
            if body is not None:
                found.append(_Loop(list(loops), body, node))
            loops.pop()
            body = None
        elif body is not None:
            body.append(node)
    if body is not None:
        found.append(_Loop(loops, body, None))
    return found


def _loops_over_rows(innermost: Sequence[_Loop], grid: Sequence[Node]) -> list[Node]:
    """The loops around those over a row: the grid, and one more where it goes through blocks.

    Beside that one stand loops over a block's first row, which do not know the next.
    """
    blocks = {tuple(loop.loops[:-1]) for loop in innermost if len(loop.loops) == len(grid) + 2}
    return [*blocks.pop()] if len(blocks) == 1 else [*grid]


def _rows(body: Sequence[Node], with_masked: bool = False) -> list[_Row]:
    """What a step loads as whole vectors that lie side by side."""
    groups: dict[tuple[Node, Node | None], dict[int, Node]] = {}
    for node in body:
        is_whole = len(node.src) == 2 or with_masked
        if node.op is Op.LOAD and is_whole and node.dtype.count > 1:
            base, shift = split_index(node.src[1])
            groups.setdefault((node.src[0], base), {})[shift] = node
    rows = []
    for loads in groups.values():
        first = loads.get(0)
        if first is not None:
            vectors = 1
            while vectors * first.dtype.count in loads:
                vectors += 1
            rows.append(_Row(first, vectors * first.dtype.itemsize))
    return rows


def _hint(row: _Row, loops: list[Node], grid: Sequence[Node], l1: int, l2: int) -> Node | None:
    """The PREFETCH for the panel of `row`, None where there is no next one or it is not worth it.

    The outermost loop behind the grid are the tiles; a panel is read anew in each of them.
    """
    memory, index = row.first.src
    if not _is_plain(memory) or len(loops) < len(grid) + 2:
        return None
    tile, *steps = loops[len(grid) :]
    used = _ranges(index)
    if tile in used or not used.issuperset(steps) or not _are_constant([tile, *steps]):
        return None
    lines = -(-row.nbytes // CACHE_LINE)
    nbytes = math.prod(r.src[0].arg for r in steps) * row.nbytes
    following = _following(index, grid)
    if following is None or tile.src[0].arg < lines or not l1 <= nbytes <= l2 // 2:
        return None
    per_line = CACHE_LINE // memory.dtype.scalar.itemsize
    place = _evenly(following, tile, steps, nbytes // CACHE_LINE, per_line)
    if place is None:
        place = following + _at_most(tile, lines - 1) * per_line
    return Node(Op.PREFETCH, dtypes.void, (memory, place), 2)


def _evenly(
    panel: Node, tile: Node, steps: Sequence[Node], lines: int, per_line: int
) -> Node | None:
    """The place of each line of a panel in turn, in equally many steps of the tiles.

    None where its steps do not lie side by side, in the order of `steps`.
    """
    terms, _ = linear_terms(panel)
    sizes = [r.src[0].arg for r in steps]
    count = math.prod(sizes)
    apart, number = lines * per_line // count, tile.like(0)
    for n, step in enumerate(steps):
        inside = math.prod(sizes[n + 1 :])
        if terms.get(step) != apart * inside:
            return None
        number += step * inside
    shift = (tile.src[0].arg * count // lines).bit_length() - 1
    if lines * per_line % count or (lines << shift) % count:
        return None
    number += _at_most(tile, (lines << shift) // count - 1) * count
    first = panel.substitute({step: step.like(0) for step in steps})
    return first + alu(Op.SHR, number, number.like(shift)) * per_line


def _hints_for_row(
    loop: _Loop, rows: Sequence[Node], passed: set[tuple[Node, Node]], l2: int
) -> list[Node]:
    """PREFETCHes of the next row, in a loop that goes over a row which another went over before."""
    if not _are_constant(loop.loops[-1:]):
        return []
    step, hints = loop.loops[-1], []
    for row in _rows(loop.body, with_masked=True):
        memory, index = row.first.src[:2]
        place = memory, index.substitute({step: step.like(0)})
        nbytes = step.src[0].arg * row.nbytes
        following = _following(index, rows) if _is_plain(memory) else None
        if place in passed and following is not None and nbytes <= l2 // 2:
            passed.remove(place)
            per_line = CACHE_LINE // memory.dtype.scalar.itemsize
            hints += [
                Node(Op.PREFETCH, dtypes.void, (memory, following + n * per_line), 2)
                for n in range(-(-row.nbytes // CACHE_LINE))
            ]
        else:
            passed.add(place)
    return hints


def _streams(loops: Sequence[_Loop], least_bytes: int) -> dict[Node, list[Node]]:
    """PREFETCHes of what each loop reads later, by its RANGE: of memory that is read once."""
    rows = [(loop, row) for loop in loops for row in _rows(loop.body)]
    readers = Counter(row.first.src[0] for _, row in rows)
    found: dict[Node, list[Node]] = {}
    for loop, row in rows:
        memory = row.first.src[0]
        if readers[memory] > 1 or _is_elsewhere_too(row, loop):
            continue
        if not (_stores_nothing(loop) or _copies_around_caches(loop)):
            continue
        if _is_plain(memory) and _is_stream(row, loop, least_bytes):
            found.setdefault(loop.loops[-1], []).extend(_ahead(row))
    return found


def _stores_nothing(loop: _Loop) -> bool:
    return not any(n.op is Op.STORE for n in loop.body)


def _copies_around_caches(loop: _Loop) -> bool:
    """Whether all stores go around the caches, and take what is loaded or more."""
    stores = [n for n in loop.body if n.op is Op.STORE]
    loads = [n for n in loop.body if n.op is Op.LOAD]
    stored = sum(n.src[2].dtype.itemsize for n in stores if n.arg == STREAM)
    return all(n.arg == STREAM for n in stores) and stored >= sum(n.dtype.itemsize for n in loads)


def _is_elsewhere_too(row: _Row, loop: _Loop) -> bool:
    """Whether a step reads the row's memory at other places, too, which is as good as hints."""
    memory = row.first.src[0]
    loads = [n for n in loop.body if n.op is Op.LOAD and n.src[0] is memory]
    return sum(n.dtype.itemsize for n in loads) > row.nbytes


def _is_stream(row: _Row, loop: _Loop, least_bytes: int) -> bool:
    """Whether the steps of `loop` go through more than `least_bytes` of memory, line by line.

    What lies behind the last step is what the next steps of a loop around it read, or a small part.
    """
    memory, index = row.first.src
    if param_bytes(behind_after(memory)) <= least_bytes or not _are_constant(loop.loops):
        return False
    terms, _ = linear_terms(index)
    per_step = row.nbytes // memory.dtype.scalar.itemsize
    step = loop.loops[-1]
    whole = step.src[0].arg * per_step
    if set(terms) != set(loop.loops) or terms[step] != per_step:
        return False
    return whole * memory.dtype.scalar.itemsize >= 4 * AHEAD or whole in terms.values()


def _hints_for_totals(loop: _Loop, least_bytes: int) -> list[Node]:
    """PREFETCHes in a loop that adds rows to totals, of memory of more than `least_bytes`."""
    totals, loaded = ({n.src[0] for n in loop.body if n.op is op} for op in (Op.STORE, Op.LOAD))
    if not totals or any(behind_after(m).op is not Op.LOCAL for m in totals) or totals - loaded:
        return []
    hints, step = [], loop.loops[-1]
    for load in (n for n in loop.body if n.op is Op.LOAD and len(n.src) == 2):
        memory, index = load.src[0], load.src[1]
        if not _is_plain(memory):
            continue
        if param_bytes(behind_after(memory)) <= least_bytes or load.dtype.itemsize < CACHE_LINE:
            continue
        if linear_terms(index)[0].get(step, 0) >= load.dtype.count > 1:
            ahead = AHEAD_IN_EACH // memory.dtype.scalar.itemsize
            hints.append(Node(Op.PREFETCH, dtypes.void, (memory, index + ahead), 2))
    return hints


def _ahead(row: _Row) -> list[Node]:
    memory, index = row.first.src
    itemsize = memory.dtype.scalar.itemsize
    places = range(AHEAD, AHEAD + row.nbytes, CACHE_LINE)
    return [
        Node(Op.PREFETCH, dtypes.void, (memory, index + place // itemsize), 2) for place in places
    ]


def _hints_for_rows_ahead(
    loop: _Loop, rows: Sequence[Node], l2: int, in_blocks: bool
) -> list[Node]:
    """PREFETCHes of rows to come, in a loop that streams, but for those that are met anyhow.

    A loop over several rows of a block computes so much that the processor does not meet the next
    one where a row ends, and uses it at once.
    """
    streams = any(n.op is Op.STORE and n.arg == STREAM for n in loop.body)
    if not streams or not _are_constant(loop.loops[-1:]):
        return []
    loads = [n for n in loop.body if n.op is Op.LOAD and n.dtype.count > 1 and _is_plain(n.src[0])]
    step = loop.loops[-1]
    if step.src[0].arg * sum(n.dtype.itemsize for n in loads) > l2 // 2:
        return []
    level, hints = 1 if in_blocks else 2, []
    for load in loads:
        memory, index = load.src[:2]
        read = [_first(n.src[1]) for n in loads if n.src[0] is memory]
        following = _following(index, rows)
        if following is None or _first(following) in read:
            continue
        if not in_blocks and _first(following) is _first(index.substitute({step: step.src[0]})):
            continue
        per_line = CACHE_LINE // memory.dtype.scalar.itemsize
        hints += [
            Node(Op.PREFETCH, dtypes.void, (memory, following + n * per_line), level)
            for n in range(-(-load.dtype.itemsize // CACHE_LINE))
        ]
    return hints


def _first(index: Node) -> Node:
    """`index` where all loops are at their beginning."""
    return index.substitute({n: n.like(0) for n in _ranges(index)})


def _hint_for_packing(
    fill: _Loop, loops: list[Node], body: Sequence[Node], grid: Sequence[Node], l1: int, l2: int
) -> Node | None:
    """The PREFETCH for what `fill` will pack next, in a loop that multiplies by what it packed.

    A step of `fill` loads lines that lie equally far apart. They are asked for one after the other,
    in equally many steps of the tiles.
    """
    filled = {behind_after(n.src[0]) for n in fill.body if n.op is Op.STORE}
    reads = {behind_after(n.src[0]) for n in body if n.op is Op.LOAD}
    if not filled & reads or len(loops) != len(grid) + 2:
        return None
    tile, step, packing = *loops[-2:], fill.loops[-1]
    if not _are_constant([tile, step, packing]):
        return None
    loads = [n for n in fill.body if n.op is Op.LOAD and _is_plain(n.src[0])]
    places = sorted({split_index(n.src[1])[1] for n in loads})
    bases = {(n.src[0], n.dtype, split_index(n.src[1])[0]) for n in loads}
    apart = {more - less for less, more in itertools.pairwise(places)}
    if len(bases) != 1 or len(apart) != 1:
        return None
    ((memory, dtype, base),) = bases
    following = None if base is None else _following(base, grid)
    nbytes = dtype.itemsize * len(places) * packing.src[0].arg
    bits = (len(places) - 1).bit_length()
    turns = tile.src[0].arg * step.src[0].arg // (packing.src[0].arg << bits)
    if following is None or turns == 0 or not l1 <= nbytes <= l2 // 2:
        return None
    shift = turns.bit_length() - 1
    used = max(1, (packing.src[0].arg << bits + shift) // step.src[0].arg)
    number = _at_most(tile, used - 1) * step.src[0].arg + step
    number = alu(Op.SHR, number, number.like(shift))
    line = alu(Op.AND, number, number.like((1 << bits) - 1))
    if len(places) < 1 << bits:
        line = _at_most(line, len(places) - 1)
    now = alu(Op.SHR, number, number.like(bits))
    place = following.substitute({packing: now}) + places[0] + line * apart.pop()
    return Node(Op.PREFETCH, dtypes.void, (memory, place), 2)


def _following(index: Node, grid: Sequence[Node]) -> Node | None:
    """`index` in the next panel; None where it has no number, or is read from memory itself."""
    if any(n.op not in ALU and n.op not in (Op.CONST, Op.RANGE) for n in index.toposort()):
        return None
    numbers = [r for r in grid if r in _ranges(index)]
    return index.substitute({numbers[-1]: numbers[-1] + 1}) if numbers else None


def _at_most(value: Node, most: int) -> Node:
    return alu(Op.WHERE, value < most, value, value.like(most))


def _are_constant(loops: Sequence[Node]) -> bool:
    return all(r.src[0].op is Op.CONST for r in loops)


def _is_plain(memory: Node) -> bool:
    """Whether it is memory of the kernel's arguments that has addresses."""
    param = behind_after(memory)
    return param.op is Op.PARAM and param.arg.image is None


def _ranges(node: Node) -> set[Node]:
    return {n for n in node.toposort(lambda n: n.op is not Op.AFTER) if n.op is Op.RANGE}


def _insert(program: list[Node], hint: Node, places: list[Node]) -> None:
    """Put what `hint` computes into the outermost of its loops where it can be.

    `places` are the loops that are open, and the END of the last if it has one. What the program
    computes too late for the hint comes sooner.
    """
    known = set(program)
    for node in hint.toposort(lambda n: n.op is not Op.AFTER):
        if node.op in (Op.CONST, Op.RANGE, Op.PARAM):
            continue
        inside = [n for n, r in enumerate(places) if r in _ranges(node)]
        place = max(inside, default=-1) + 1
        behind = program.index(places[place]) if place < len(places) else len(program)
        if node in known and program.index(node) < behind:
            continue
        if node in known:
            program.remove(node)
        program.insert(behind, node)
