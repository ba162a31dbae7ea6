"""What the loops of a program read and write: runs of memory that lie side by side in each step.

    for r0: for r1: LOAD(p0, r0*64 + r1*32 + 0), LOAD(p0, r0*64 + r1*32 + 16); STORE(p1, ...)
      ->  a Stretch of r0 and r1: a Run of 128 bytes of p0 is loaded, others are stored

And what a processor's Caches say of it: what decides on stores and hints asks these alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ..ir.choices import take
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Access, Load, Store, memory_of
from ..target import CACHE_LINE
from .linearize import Phase, param_bytes
from .overflow_analysis import is_multiple

__all__ = [
    "CACHE_LINE", "STREAM", "Caches", "Run", "Span", "Stretch", "is_plain", "runs_of",
    "split_index", "stretches", "with_streamed_stores",
]  # fmt: skip

STREAM = "stream"  # the arg of a STORE around the caches


class Caches(NamedTuple):
    """The bytes of a processor's caches: two of a core, and the last one before memory."""

    l1: int
    l2: int
    l3: int

    def is_far(self, memory: Node) -> bool:
        """Whether `memory` is of the kernel's arguments, and in no cache when it is read."""
        return is_plain(memory) and param_bytes(behind_after(memory)) > self.l3

    def leaves(self, param: Node) -> bool:
        """Whether what is stored to a PARAM is gone from the caches before it is read."""
        return param.arg.leaves_caches(param_bytes(param), self.l3)

    def has_room(self, nbytes: int) -> bool:
        """Whether a core can fetch `nbytes` while as many are in use."""
        return nbytes <= self.l2 // 2

    def is_panel(self, nbytes: int) -> bool:
        """Whether so much stays near for a while, but not at once: the next as much can be too."""
        return self.l1 <= nbytes and self.has_room(nbytes)


class Span(NamedTuple):
    """The bytes that a LOAD or a STORE takes, behind the base of its run."""

    begin: int
    end: int
    node: Node


class Run(NamedTuple):
    """LOADs of one memory, or STOREs to it, side by side from `index` on, in that order.

    `base` is what varies of the index.
    """

    memory: Node
    index: Node
    base: Node | None
    spans: tuple[Span, ...]

    @property
    def nbytes(self) -> int:
        return self.end - self.spans[0].begin

    @property
    def end(self) -> int:
        return max(span.end for span in self.spans)


@dataclass(frozen=True)
class Stretch:
    """The nodes between one loop's begin or end and the next; `loops` are open there.

    If it `is_loop`, it is all of an innermost loop, and `end` its END. The grid's own has none.
    """

    loops: list[Node]
    body: list[Node]
    end: Node | None
    is_loop: bool

    def inside(self, grid: Sequence[Node]) -> list[Node]:
        """Its loops but those of the grid, outermost first."""
        return [r for r in self.loops if r not in grid]

    @property
    def places(self) -> list[Node]:
        """Where what comes before a loop, or before its end, is put."""
        return self.loops if self.end is None else [*self.loops, self.end]

    @cached_property
    def loads(self) -> list[Load]:
        return [Load.of(n) for n in self.body if n.op is Op.LOAD]

    @cached_property
    def stores(self) -> list[Store]:
        return [Store.of(n) for n in self.body if n.op is Op.STORE]

    def vectors(self, with_masked: bool = False) -> list[Run]:
        """The vectors that are loaded in each step."""
        loads = (n for n in self.body if n.op is Op.LOAD and n.dtype.count > 1)
        return runs_of(n for n in loads if with_masked or not Load.of(n).is_gated)


def stretches(program: Iterable[Node]) -> Iterator[Stretch]:
    """All stretches of a program, in order."""
    loops: list[Node] = []
    body: list[Node] = []
    is_loop = False
    for node in program:
        if node.op not in (Op.RANGE, Op.END):
            body.append(node)
            continue
        is_begin = node.op is Op.RANGE
        yield Stretch([*loops], body, None if is_begin else node, is_loop and not is_begin)
        loops = [*loops, node] if is_begin else loops[:-1]
        body, is_loop = [], is_begin
    yield Stretch(loops, body, None, is_loop)


def runs_of(nodes: Iterable[Node]) -> list[Run]:
    """LOADs, or STOREs, as runs."""
    groups: dict[tuple[Node, Node | None], list[Span]] = {}
    for node in nodes:
        memory, index = Access.of(node)
        base, shift = split_index(index)
        dtype = node.dtype if node.op is Op.LOAD else Store.of(node).value.dtype
        begin = shift * dtype.scalar.itemsize
        span = Span(begin, begin + dtype.itemsize, node)
        groups.setdefault((behind_after(memory), base), []).append(span)
    return [
        Run(*Access.of(run[0].node), base, run)
        for (_, base), spans in groups.items()
        for run in _neighbours(spans)
    ]


def _neighbours(spans: list[Span]) -> Iterator[tuple[Span, ...]]:
    """The spans that meet, in order."""
    run, end = list[Span](), 0
    for span in sorted(spans, key=lambda span: span[:2]):
        if run and span.begin > end:
            yield tuple(run)
            run = []
        end = max(end, span.end) if run else span.end
        run.append(span)
    yield tuple(run)


def split_index(index: Node) -> tuple[Node | None, int]:
    """An index as (what varies, what is added to it)."""
    if index.op is Op.CONST:
        return None, index.arg
    if index.op is Op.ADD:
        rest, last = index.src
        if last.op is Op.CONST:
            base, more = split_index(rest)
            return base, more + last.arg
    return index, 0


def is_plain(memory: Node) -> bool:
    """Whether it is memory of the kernel's arguments that has addresses."""
    param = behind_after(memory)
    return param.op is Op.PARAM and param.arg.image is None


def with_streamed_stores(phase: Phase, caches: Caches) -> Phase:
    """`phase` with stores around the caches.

        STORE(p0, r0*64 + 0, v0), ..., STORE(p0, r0*64 + 48, v3)   each with arg STREAM

    An ordinary store first reads the line that it writes a part of. Where a kernel fills whole
    lines of memory that does not fit the last-level cache, that is a third of all traffic for
    nothing. What may lie anywhere (memory of the user's) is left alone, since such stores fault
    where they are not aligned; so is what the phase itself loads, and what it writes in parts of
    lines.
    """
    program = phase.program.src
    leaving = {param for param, is_written in phase.params if is_written and caches.leaves(param)}
    leaving -= {memory_of(n) for n in program if n.op in (Op.LOAD, Op.LINE)}
    marked = set(_whole_lines(program, leaving)) if leaving else None
    if not marked:
        return phase
    take("nontemporal_stores")
    program = tuple(n.replace(arg=STREAM) if n in marked else n for n in program)
    return replace(phase, program=phase.program.replace(src=program))


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
