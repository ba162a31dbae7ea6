"""Hints for what comes next: the next panel of a matrix, the next row, what a loop reads later.

`prefetch_panels` and `prefetch_rows` say which, and why; here they are put into the program, in the
outermost loop where each can be. Nothing depends on a hint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from .linearize import Phase
from .prefetch_hints import Loop, ranges_of, rows_in
from .prefetch_panels import hint_for_packing, hint_for_panel
from .prefetch_rows import (
    hints_for_row,
    hints_for_rows_ahead,
    hints_for_streams,
    hints_for_totals,
)

__all__ = ["with_prefetches"]


def with_prefetches(phase: Phase, l1: int, l2: int, l3: int) -> Phase:
    """`phase` with hints for panels that outgrow a cache of `l1` bytes, two of which fit `l2`.

    And for rows of what outgrows `l3`, the last cache before memory.
    """
    program, grid = list(phase.program.src), phase.grid
    innermost = _innermost(program)
    fills = [loop for loop in innermost if len(loop.inside(grid)) in (1, 2)]
    rows = _loops_over_rows(innermost, grid)
    passed: set[tuple[Node, Node]] = set()
    streams = hints_for_streams(innermost, l3)
    for loop in innermost:
        panels = [hint_for_panel(row, loop.loops, grid, l1, l2) for row in rows_in(loop.body)]
        found = _taken("prefetch_panels", panels)
        packing = [hint_for_packing(f, loop.loops, loop.body, grid, l1, l2) for f in fills]
        found += _taken("prefetch_packing", packing)
        if loop.loops[:-1] == rows:
            found += _taken("prefetch_rows", hints_for_row(loop, rows, passed, l2))
            ahead = hints_for_rows_ahead(loop, rows, l2, len(rows) > len(grid))
            found += _taken("prefetch_rows_ahead", ahead)
        found += _taken("prefetch_totals", hints_for_totals(loop, l3))
        for hint in found or _taken("prefetch_streams", streams.get(loop.loops[-1], [])):
            if ranges_of(hint).issubset(loop.loops):  # a hint for what another loop counts is none
                _insert(program, hint, loop.places)
    if len(program) == len(phase.program.src):
        return phase
    return replace(phase, program=phase.program.replace(src=tuple(program)))


def _taken(name: str, hints: Sequence[Node | None]) -> list[Node]:
    """Those of `hints` that there are, which are the choice `name`."""
    found = [hint for hint in hints if hint is not None]
    if found:
        take(name)
    return found


def _innermost(program: Sequence[Node]) -> list[Loop]:
    found: list[Loop] = []
    loops: list[Node] = []
    body: list[Node] | None = None
    for node in program:
        if node.op is Op.RANGE:
            loops.append(node)
            body = []
        elif node.op is Op.END:
            if body is not None:
                found.append(Loop(list(loops), body, node))
            loops.pop()
            body = None
        elif body is not None:
            body.append(node)
    if body is not None:
        found.append(Loop(loops, body, None))
    return found


def _loops_over_rows(innermost: Sequence[Loop], grid: Sequence[Node]) -> list[Node]:
    """The loops around those over a row: the grid, and one more where it goes through blocks.

    Beside that one stand loops over a block's first row, which do not know the next.
    """
    blocks = {tuple(loop.loops[:-1]) for loop in innermost if len(loop.loops) == len(grid) + 2}
    return [*blocks.pop()] if len(blocks) == 1 else [*grid]


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
