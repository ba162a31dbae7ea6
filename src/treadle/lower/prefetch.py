"""Hints that a program gets for memory that it reads later. Nothing depends on a hint.

    for panel (grid): for tile: for step: load(panel, step)
      ->  the same, and PREFETCH(panel + 1, line n) in step n of the tiles, or in every second ...
    for row (grid): for step: load(row, step);  for step: load(row, step), exp, ...
      ->  the same, and in each step of the second loop PREFETCH(row + 1, step)
    for row (grid): for step: load(row, step)
      ->  the same, and in each step PREFETCH(row, step + 8 KiB)

Processors fetch ahead along lines by themselves, but not far, not past a page, and not from the end
of one row or panel to the next. How a loop's streams come back tells what comes next: which of
these loops ask for what, and why, is on the page docs/design/layouts.md (traffic).
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..dtype import dtypes
from ..ir.choices import take
from ..ir.loops import has_fixed_size, loop_size, number_of, ranges_of
from ..ir.node import Node, alu, behind_after
from ..ir.op import ALU, Op
from ..ir.rules.index import linear_terms
from ..ir.views import bound_of
from .linearize import Phase
from .streams import CACHE_LINE, STREAM, Caches, Run, Stretch, is_plain, split_index, stretches

__all__ = ["AHEAD", "AHEAD_IN_EACH", "with_hints"]

AHEAD = 8 << 10  # bytes: what a core reads while one line comes from memory, a few times over
AHEAD_IN_EACH = 1 << 10  # bytes, of several streams
MOST_INSIDE = 8  # steps of the loops inside of a step that packs


def with_hints(phase: Phase, caches: Caches) -> Phase:
    """`phase` with PREFETCHes, each in the outermost loop where it can be."""
    program = list(phase.program.src)
    loops = [stretch for stretch in stretches(program) if stretch.is_loop]
    for loop, hints in _hints_for(loops, phase.grid, caches):
        for hint in hints:
            if ranges_of(hint).issubset(loop.loops):  # one for what another loop counts is none
                _insert(program, hint, loop.places)
    return replace(phase, program=phase.program.replace(src=tuple(program)))


def _insert(program: list[Node], hint: Node, places: list[Node]) -> None:
    """Put what `hint` computes into the outermost of its loops where it can be.

    `places` are the loops that are open, and the END of the last if it has one. What the program
    computes too late for the hint comes sooner.
    """
    known = set(program)
    for node in hint.toposort(lambda n: n.op is not Op.AFTER):
        if node.op in (Op.CONST, Op.RANGE, Op.PARAM):
            continue
        inside = [n for n, r in enumerate(places) if r in ranges_of(node)]
        place = max(inside, default=-1) + 1
        behind = program.index(places[place]) if place < len(places) else len(program)
        if node in known and program.index(node) < behind:
            continue
        if node in known:
            program.remove(node)
        program.insert(behind, node)


def _hints_for(
    loops: Sequence[Stretch], grid: Sequence[Node], caches: Caches
) -> Iterator[tuple[Stretch, list[Node]]]:
    """The PREFETCHes that each innermost loop has to ask for."""
    rows, passed = _loops_over_rows(loops, grid), set[tuple[Node, Node]]()
    fills = [loop for loop in loops if len(loop.inside(grid)) in (1, 2)]
    readers = Counter(run.memory for loop in loops for run in loop.vectors())
    for loop in loops:
        found = [
            *_taken("prefetch_panels", _panels(loop, grid, caches)),
            *_taken("prefetch_packing", _packing(loop, fills, grid, caches)),
        ]
        if loop.loops[:-1] == rows and _are_constant(loop.loops[-1:]):
            found += _taken("prefetch_rows", _rows_again(loop, rows, passed, caches))
            ahead = _rows_ahead(loop, rows, len(rows) > len(grid), caches)
            found += _taken("prefetch_rows_ahead", ahead)
        found += _taken("prefetch_totals", _totals(loop, caches))
        yield loop, found or _taken("prefetch_streams", _streams(loop, readers, caches))


def _taken(name: str, hints: Iterable[Node]) -> list[Node]:
    """Hints, which are the choice `name` if there are any."""
    found = [*hints]
    if found:
        take(name)
    return found


def _loops_over_rows(innermost: Sequence[Stretch], grid: Sequence[Node]) -> list[Node]:
    """The loops around those over a row: the grid, and one more where it goes through blocks.

    Beside that one stand loops over a block's first row, which do not know the next.
    """
    blocks = {tuple(loop.loops[:-1]) for loop in innermost if len(loop.loops) == len(grid) + 2}
    return [*blocks.pop()] if len(blocks) == 1 else [*grid]


# -- panels ---------------------------------------------------------------------------------------


def _panels(loop: Stretch, grid: Sequence[Node], caches: Caches) -> Iterator[Node]:
    """Of the panels that each step of the outermost loop behind the grid reads again."""
    inside = loop.inside(grid)
    if len(inside) < 2 or not _are_constant(inside):
        return
    tile, *steps = inside
    for run in loop.vectors():
        lines, nbytes = -(-run.nbytes // CACHE_LINE), loop_size(*steps) * run.nbytes
        used, following = ranges_of(run.index), _next(run, grid)
        if tile in used or not used.issuperset(steps):
            continue
        if following is None or loop_size(tile) < lines or not caches.is_panel(nbytes):
            continue
        per_line, whole = _per_line(run.memory), nbytes // CACHE_LINE
        turn, is_even = _turn(tile, steps, whole)
        if is_even and _is_side_by_side(following, steps, whole * per_line):
            first = following.substitute({step: step.like(0) for step in steps})
            place = first + turn * per_line
        else:
            place = following + _at_most(tile, lines - 1) * per_line
        yield Node(Op.PREFETCH, dtypes.void, (run.memory, place), 2)


def _is_side_by_side(index: Node, steps: Sequence[Node], size: int) -> bool:
    """Whether `steps`, outermost first, go through `size` elements in order."""
    terms, _ = linear_terms(index)
    for step in steps:
        size, rest = divmod(size, loop_size(step))
        if rest or terms.get(step) != size:
            return False
    return True


def _turn(tile: Node, steps: Sequence[Node], lines: int) -> tuple[Node, bool]:
    """Which of `lines` is asked for in a step of the tiles, each in equally many.

    And whether they are in turn in all steps of the tiles in which some are.
    """
    count = loop_size(*steps)
    shift = (loop_size(tile) * count // lines).bit_length() - 1
    used, rest = divmod(lines << shift, count)
    number = _at_most(tile, max(used, 1) - 1) * count + number_of(tuple(steps))
    return alu(Op.SHR, number, number.like(shift)), rest == 0


def _packing(
    loop: Stretch, fills: Sequence[Stretch], grid: Sequence[Node], caches: Caches
) -> Iterator[Node]:
    """Of what `fills` will pack next, in a loop that reads again and again what they packed.

    A step of such a loop, with those of short loops inside of it, loads lines that lie equally far
    apart. They are asked for one after the other.
    """
    reads = {behind_after(load.memory) for load in loop.loads}
    if len(loop.loops) != len(grid) + 2 or not _are_constant(loop.loops[-2:]):
        return
    tile, step = loop.loops[-2:]
    for fill in fills:
        packing, *inner = fill.inside(grid)
        if reads.isdisjoint(behind_after(store.memory) for store in fill.stores):
            continue
        if not _are_constant([packing, *inner]) or loop_size(*inner) > MOST_INSIDE:
            continue
        loads = [
            (load, base, place)
            for load in fill.loads
            if is_plain(load.memory)
            for base, place in _places_in(load.index, inner)
        ]
        places = sorted({place for _, _, place in loads})
        bases = {(load.memory, load.dtype, base) for load, base, _ in loads}
        apart = {more - less for less, more in itertools.pairwise(places)}
        if len(bases) != 1 or len(apart) != 1:
            continue
        ((memory, dtype, base),) = bases
        nbytes = dtype.itemsize * len(places) * loop_size(packing)
        each = max(1, _per_line(memory) // min(apart))  # places that lie in one line
        places, step_of_lines = places[::each], each * apart.pop()
        following = None if base is None else _next_of(base, grid)
        bits = (len(places) - 1).bit_length()
        lines = loop_size(packing) << bits
        if following is None or loop_size(tile, step) < lines or not caches.is_panel(nbytes):
            continue
        turn, _ = _turn(tile, [step], lines)
        line = alu(Op.AND, turn, turn.like((1 << bits) - 1))
        if len(places) < 1 << bits:
            line = _at_most(line, len(places) - 1)
        now = alu(Op.SHR, turn, turn.like(bits))
        place = following.substitute({packing: now}) + places[0] + line * step_of_lines
        yield Node(Op.PREFETCH, dtypes.void, (memory, place), 2)


def _places_in(index: Node, loops: Sequence[Node]) -> list[tuple[Node | None, int]]:
    """`index` as what varies and what is added to it, in each step of `loops`."""
    terms, _ = linear_terms(index)
    base, first = split_index(index.substitute({r: r.like(0) for r in loops}))
    apart = [terms.get(r, 0) for r in loops]
    steps = itertools.product(*(range(loop_size(r)) for r in loops))
    return [(base, first + sum(map(operator.mul, step, apart))) for step in steps]


# -- rows -----------------------------------------------------------------------------------------


def _rows_again(
    loop: Stretch, rows: Sequence[Node], passed: set[tuple[Node, Node]], caches: Caches
) -> Iterator[Node]:
    """Of the next rows, where a loop goes over rows that have `passed` before."""
    step = loop.loops[-1]
    for run in loop.vectors(with_masked=True):
        row, following = (run.memory, run.index.substitute({step: step.like(0)})), _next(run, rows)
        has_room = caches.has_room(loop_size(step) * run.nbytes)
        if row in passed and following is not None and has_room:
            passed.remove(row)
            yield from _lines(run, following)
        else:
            passed.add(row)


def _rows_ahead(
    loop: Stretch, rows: Sequence[Node], in_blocks: bool, caches: Caches
) -> Iterator[Node]:
    """Of the next rows, where results leave for memory, unless they are met anyhow."""
    step, runs = loop.loops[-1], [r for r in loop.vectors(True) if is_plain(r.memory)]
    is_leaving = any(store.how == STREAM for store in loop.stores)
    if not is_leaving or not caches.has_room(loop_size(step) * sum(r.nbytes for r in runs)):
        return
    read = {(load.memory, _first(load.index)) for load in loop.loads}
    for run in runs:
        following = _next(run, rows)
        if following is None or (run.memory, _first(following)) in read:
            continue
        behind = run.index.substitute({step: bound_of(step)})
        if in_blocks or _first(following) is not _first(behind):
            yield from _lines(run, following, 1 if in_blocks else 2)


def _first(index: Node) -> Node:
    """`index` where all loops are at their beginning."""
    return index.substitute({n: n.like(0) for n in ranges_of(index)})


# -- streams --------------------------------------------------------------------------------------


def _totals(loop: Stretch, caches: Caches) -> Iterator[Node]:
    """In a loop that adds rows to totals in memory of the worker, of a little more of each."""
    totals, loaded = {s.memory for s in loop.stores}, {load.memory for load in loop.loads}
    if not totals or any(behind_after(m).op is not Op.LOCAL for m in totals) or totals - loaded:
        return
    for run in loop.vectors():
        dtype = run.spans[0].node.dtype
        along = linear_terms(run.index)[0].get(loop.loops[-1], 0)
        if caches.is_far(run.memory) and dtype.itemsize >= CACHE_LINE and along >= dtype.count:
            yield from _ahead(run, AHEAD_IN_EACH)


def _streams(loop: Stretch, readers: Counter[Node], caches: Caches) -> Iterator[Node]:
    """Of what a loop goes through that none of the other `readers` reads, line by line."""
    stored = sum(store.value.dtype.itemsize for store in loop.stores)
    loaded = Counter[Node]()
    for load in loop.loads:
        loaded[load.memory] += load.dtype.itemsize
    if any(store.how != STREAM for store in loop.stores) or 0 < stored < loaded.total():
        return
    for run in loop.vectors():
        is_alone = readers[run.memory] == 1 and loaded[run.memory] <= run.nbytes
        if is_alone and caches.is_far(run.memory) and _goes_on(run, loop):
            yield from _ahead(run, AHEAD)


def _goes_on(run: Run, loop: Stretch) -> bool:
    """Whether the steps of `loop` go through memory line by line.

    What lies behind the last step is what the next steps of a loop around it read, or a small part.
    """
    if not _are_constant(loop.loops):
        return False
    terms, _ = linear_terms(run.index)
    itemsize, step = run.memory.dtype.scalar.itemsize, loop.loops[-1]
    whole = loop_size(step) * run.nbytes
    if set(terms) != set(loop.loops) or terms[step] * itemsize != run.nbytes:
        return False
    return whole >= 4 * AHEAD or whole // itemsize in terms.values()


# -- places ---------------------------------------------------------------------------------------


def _ahead(run: Run, nbytes: int) -> Iterator[Node]:
    """What a run reads so many bytes later."""
    return _lines(run, run.index + nbytes // run.memory.dtype.scalar.itemsize)


def _lines(run: Run, place: Node, level: int = 2) -> Iterator[Node]:
    """PREFETCHes of all lines that a run at `place` is in, into the cache of `level`."""
    for n in range(-(-run.nbytes // CACHE_LINE)):
        src = (run.memory, place + n * _per_line(run.memory))
        yield Node(Op.PREFETCH, dtypes.void, src, level)


def _per_line(memory: Node) -> int:
    return CACHE_LINE // memory.dtype.scalar.itemsize


def _next(run: Run, grid: Sequence[Node]) -> Node | None:
    """Where a run is in the next step of the grid that moves it, if that can be asked for."""
    return _next_of(run.index, grid) if is_plain(run.memory) else None


def _next_of(index: Node, grid: Sequence[Node]) -> Node | None:
    """`index` in the next step of the grid that moves it; None where memory says where it is."""
    if any(n.op not in ALU and n.op not in (Op.CONST, Op.RANGE) for n in index.toposort()):
        return None
    numbers = [r for r in grid if r in ranges_of(index)]
    return index.substitute({numbers[-1]: numbers[-1] + 1}) if numbers else None


def _at_most(value: Node, most: int) -> Node:
    return alu(Op.WHERE, value < most, value, value.like(most))


def _are_constant(loops: Sequence[Node]) -> bool:
    return all(has_fixed_size(r) for r in loops)
