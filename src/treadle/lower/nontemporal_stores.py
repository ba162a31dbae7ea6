"""Stores around the caches: whole lines of large results that nobody reads back.

    STORE(p0, r0*64 + 0, v0), ..., STORE(p0, r0*64 + 48, v3)   each becomes a STORE with arg STREAM

An ordinary store first reads the line that it writes a part of. Where a kernel fills whole lines of
memory that does not fit the last-level cache, that is a third of all traffic for nothing. What may
lie anywhere (memory of the user's) is left alone, since such stores fault where they are not
aligned; so is what the phase itself loads, and what it writes in parts of lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Store, memory_of
from .linearize import Phase, param_bytes
from .overflow_analysis import is_multiple

__all__ = ["CACHE_LINE", "STREAM", "split_index", "with_nontemporal_stores"]

CACHE_LINE = 64  # bytes of a cache line on every processor that treadle knows
STREAM = "stream"


def with_nontemporal_stores(phase: Phase, l3: int) -> Phase:
    """`phase` with marked stores to memory that does not stay in a last-level cache of `l3`."""
    found = frozenset(
        param
        for param, is_written in phase.params
        if is_written and param.arg.leaves_caches(param_bytes(param), l3)
    ) - {memory_of(node) for node in phase.program.src if node.op in (Op.LOAD, Op.LINE)}
    marked: set[Node] = set()
    for stretch in _stretches(phase.program.src) if found else ():
        for param in found:
            mine = (n for n in stretch if n.op is Op.STORE and memory_of(n) is param)
            marked.update(_whole_lines([n for n in mine if not Store.of(n).is_gated]))
    if not marked:
        return phase
    take("nontemporal_stores")
    nodes = (n.replace(arg=STREAM) if n in marked else n for n in phase.program.src)
    return replace(phase, program=phase.program.replace(src=tuple(nodes)))


def _stretches(program: Sequence[Node]) -> Iterator[list[Node]]:
    """The nodes between one loop's begin or end and the next."""
    stretch: list[Node] = []
    for node in program:
        if node.op in (Op.RANGE, Op.END):
            yield stretch
            stretch = []
        stretch.append(node)
    yield stretch


def _whole_lines(stores: list[Node]) -> Iterator[Node]:
    """Those of `stores`, all to one piece of memory, that fill lines together."""
    groups: dict[Node | None, dict[Node, tuple[int, int]]] = {}
    itemsize = 1
    for node in stores:
        store = Store.of(node)
        base, begin = split_index(store.index)
        itemsize = store.value.dtype.scalar.itemsize
        begin *= itemsize
        groups.setdefault(base, {})[node] = begin, begin + store.value.dtype.itemsize
    for base, spans in groups.items():
        if base is not None and not is_multiple(base, CACHE_LINE // itemsize):
            continue
        written = {byte for begin, end in spans.values() for byte in range(begin, end)}
        for store, (begin, end) in spans.items():
            lines = range(begin - begin % CACHE_LINE, -(-end // CACHE_LINE) * CACHE_LINE)
            size = end - begin
            is_aligned = (
                size % CACHE_LINE in (0, CACHE_LINE // 2) and begin % min(size, CACHE_LINE) == 0
            )
            if is_aligned and written.issuperset(lines):
                yield store


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
