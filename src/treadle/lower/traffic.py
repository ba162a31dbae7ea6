"""How a program's memory is fetched and stored, by one model of a processor's caches.

    STORE(p0, r0*64 + 0, v0), ..., STORE(p0, r0*64 + 48, v3)   each becomes a STORE with arg STREAM

An ordinary store first reads the line that it writes a part of. Where a kernel fills whole lines of
memory that does not fit the last-level cache, that is a third of all traffic for nothing. What may
lie anywhere (memory of the user's) is left alone, since such stores fault where they are not
aligned; so is what the phase itself loads, and what it writes in parts of lines.

Then come the hints of `lower/prefetch`, each in the outermost loop where it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Store, memory_of
from .linearize import Phase
from .overflow_analysis import is_multiple
from .prefetch import hints_for, loops_in
from .streams import CACHE_LINE, STREAM, Caches, Run, runs_of, stretches

__all__ = ["with_traffic"]


def with_traffic(phase: Phase, caches: Caches) -> Phase:
    """`phase` with stores around the caches, and with hints for what it reads later."""
    program = list(phase.program.src)
    leaving = {param for param, is_written in phase.params if is_written and caches.leaves(param)}
    leaving -= {memory_of(n) for n in program if n.op in (Op.LOAD, Op.LINE)}
    marked = set(_whole_lines(program, leaving)) if leaving else set[Node]()
    if marked:
        take("nontemporal_stores")
        program = [n.replace(arg=STREAM) if n in marked else n for n in program]
    loops = [stretch for stretch in stretches(program) if stretch.is_loop]
    for loop, hints in hints_for(loops, phase.grid, caches):
        for hint in hints:
            if loops_in(hint).issubset(loop.loops):  # one for what another loop counts is none
                _insert(program, hint, loop.places)
    if not marked and len(program) == len(phase.program.src):
        return phase
    return replace(phase, program=phase.program.replace(src=tuple(program)))


def _whole_lines(program: Sequence[Node], leaving: set[Node]) -> Iterator[Node]:
    """The STOREs to memory that is `leaving` which fill lines together."""
    for stretch in stretches(program):
        stores = (n for n in stretch.body if n.op is Op.STORE and memory_of(n) in leaving)
        for run in runs_of(n for n in stores if not Store.of(n).is_gated):
            yield from _in_whole_lines(run)


def _in_whole_lines(run: Run) -> Iterator[Node]:
    itemsize = Store.of(run.spans[0].node).value.dtype.scalar.itemsize
    if run.base is not None and not is_multiple(run.base, CACHE_LINE // itemsize):
        return
    for begin, end, node in run.spans:
        size, first, last = end - begin, begin // CACHE_LINE, -(-end // CACHE_LINE)
        is_aligned = (
            size % CACHE_LINE in (0, CACHE_LINE // 2) and begin % min(size, CACHE_LINE) == 0
        )
        if is_aligned and run.spans[0].begin <= first * CACHE_LINE and last * CACHE_LINE <= run.end:
            yield node


def _insert(program: list[Node], hint: Node, places: list[Node]) -> None:
    """Put what `hint` computes into the outermost of its loops where it can be.

    `places` are the loops that are open, and the END of the last if it has one. What the program
    computes too late for the hint comes sooner.
    """
    known = set(program)
    for node in hint.toposort(lambda n: n.op is not Op.AFTER):
        if node.op in (Op.CONST, Op.RANGE, Op.PARAM):
            continue
        inside = [n for n, r in enumerate(places) if r in loops_in(node)]
        place = max(inside, default=-1) + 1
        behind = program.index(places[place]) if place < len(places) else len(program)
        if node in known and program.index(node) < behind:
            continue
        if node in known:
            program.remove(node)
        program.insert(behind, node)
