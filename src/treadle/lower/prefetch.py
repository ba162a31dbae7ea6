"""Hints that fetch the next panel of a matrix while this one is multiplied.

    for panel (grid): for tile: for step: load(panel, step, line 0), ..., load(panel, step, line n)
      ->  the same, and in each step PREFETCH(panel + 1, step, line min(tile, n))

The first tile of each panel waits for memory, all others find the panel in the second-level cache.
Processors fetch ahead along lines, but not from the end of one panel to the next. So each of the
first tiles asks for one line of each step: in all, the next panel once. Nothing depends on a hint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..dtype import dtypes
from ..ir.node import Node, alu
from ..ir.op import Op
from .linearize import Phase
from .streams import LINE

__all__ = ["with_prefetches"]


@dataclass(frozen=True)
class _Row:
    """`nbytes` side by side that one step loads, the LOAD `first` before the others."""

    first: Node
    nbytes: int


def with_prefetches(phase: Phase, l1: int, l2: int) -> Phase:
    """`phase` with hints for panels that outgrow a cache of `l1` bytes, two of which fit `l2`."""
    program = list(phase.program.src)
    for end, loops, body in _innermost(phase.program.src):
        for row in _rows(body):
            hint = _hint(row, loops, phase.grid, l1, l2)
            if hint is not None:
                _insert(program, hint, [*loops, end])
    if len(program) == len(phase.program.src):
        return phase
    return replace(phase, program=phase.program.replace(src=tuple(program)))


def _innermost(program: Sequence[Node]) -> list[tuple[Node, list[Node], list[Node]]]:
    """(END, the loops that are open there, what the last of them holds) of innermost loops."""
    found: list[tuple[Node, list[Node], list[Node]]] = []
    loops: list[Node] = []
    body: list[Node] | None = None
    for node in program:
        if node.op is Op.RANGE:
            loops.append(node)
            body = []
        elif node.op is Op.END:
            if body is not None:
                found.append((node, list(loops), body))
            loops.pop()
            body = None
        elif body is not None:
            body.append(node)
    return found


def _rows(body: Sequence[Node]) -> list[_Row]:
    """What a step loads as whole vectors that lie side by side."""
    groups: dict[tuple[Node, Node], dict[int, Node]] = {}
    for node in body:
        if node.op is Op.LOAD and len(node.src) == 2 and node.dtype.count > 1:
            base, shift = _split(node.src[1])
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


def _split(index: Node) -> tuple[Node, int]:
    """An index as (what varies, what is added to it)."""
    if index.op is Op.ADD and index.src[1].op is Op.CONST:
        base, more = _split(index.src[0])
        return base, more + index.src[1].arg
    return index, 0


def _hint(row: _Row, loops: list[Node], grid: Sequence[Node], l1: int, l2: int) -> Node | None:
    """The PREFETCH for the panel of `row`, None where there is no next one or it is not worth it.

    The outermost loop behind the grid are the tiles; a panel is read anew in each of them.
    """
    memory, index = row.first.src
    param = _behind(memory)
    if param.op is not Op.PARAM or param.arg.image is not None or len(loops) < len(grid) + 2:
        return None
    used = _ranges(index)
    tile, *steps = loops[len(grid) :]
    numbers = [r for r in grid if r in used]
    if tile in used or not numbers or not used.issuperset(steps):
        return None
    if any(r.src[0].op is not Op.CONST for r in (*steps, tile, numbers[-1])):
        return None
    lines = -(-row.nbytes // LINE)
    nbytes = math.prod(r.src[0].arg for r in steps) * row.nbytes
    if tile.src[0].arg < lines or not l1 <= nbytes <= l2 // 2:
        return None
    last = tile.like(lines - 1)
    line = alu(Op.WHERE, tile < last, tile, last)
    following = index.substitute({numbers[-1]: numbers[-1] + 1})
    place = following + line * (LINE // param.dtype.scalar.itemsize)
    return Node(Op.PREFETCH, dtypes.void, (memory, place))


def _behind(memory: Node) -> Node:
    while memory.op is Op.AFTER:
        memory = memory.src[0]
    return memory


def _ranges(node: Node) -> set[Node]:
    return {n for n in node.toposort(lambda n: n.op is not Op.AFTER) if n.op is Op.RANGE}


def _insert(program: list[Node], hint: Node, places: list[Node]) -> None:
    """Put what `hint` computes into the outermost of its loops where it can be.

    `places` are the loops that are open, and the END of the last.
    """
    known = set(program)
    for node in hint.toposort(lambda n: n.op is not Op.AFTER):
        if node not in known and node.op is not Op.CONST:
            inside = [n for n, r in enumerate(places) if r in _ranges(node)]
            program.insert(program.index(places[max(inside, default=-1) + 1]), node)
