"""What DEBUG shows of each kernel that runs.

DEBUG=2: the user's line, time, operations, bytes, share of the roofline; totals by line at the end
DEBUG=3: all lines, and moves
DEBUG=4: source                                              DEBUG=7: assembly

On CUDA, DEBUG=3 shows registers, memory and the blocks that run at a time, too.

Of what the host computes between kernels, DEBUG=2 shows the time and the shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..config import settings
from ..ir.text import render
from .ceilings import measured
from .line_totals import WIDTH, Tally, figures, label, line_totals

if TYPE_CHECKING:
    from ..ir.node import Node
    from ..lower.passes import Lowered
    from .devices import Opened
    from .program import CompiledKernel, Program
    from .provenance import Origins
    from .steps import HostCall
    from .work import Work

__all__ = [
    "report_compilation",
    "report_host_call",
    "report_kernels",
    "report_search",
]


def report_compilation(name: str, ast: Node, lowered: Lowered) -> None:
    """Write the IR of a kernel that is being compiled, as far as DEBUG asks for it."""
    if settings.DEBUG >= 5:
        print(f"*** IR of {name}\n{render(ast)}", file=sys.stderr)
    if settings.DEBUG >= 6:
        for number, phase in enumerate(lowered.phases):
            lines = "\n".join(repr(node) for node in phase.program.src)
            print(f"*** linear IR of {name}, phase {number}\n{lines}", file=sys.stderr)


def report_search(number: int, count: int) -> None:
    """Write which of a program's kernels is going to be searched, for it may take minutes."""
    if settings.DEBUG >= 1:
        print(f"*** BEAM: kernel {number} of {count}", file=sys.stderr)


def report_kernels(
    program: Program,
    times: Sequence[tuple[int, int]],
    opened: Opened,
    origins: Sequence[Origins] = (),
) -> None:
    """Write a line for each kernel of `program` to standard error, with what DEBUG asks for; for
    several, their total. `origins` says who made what each computes.
    """
    made_for = origins or [()] * len(times)
    rows = zip(program.kernels, program.choices, times, made_for, strict=True)
    total = Tally()
    for kernel, choices, (start, end), lines in rows:
        tally = _tally(kernel.work, max(end - start, 1) * 1e-9, opened)
        line_totals.add(opened.name, lines, tally)
        total += tally
        shown = [_line(opened.name, label(lines), tally, kernel.name)]
        if settings.DEBUG >= 3:
            shown += [f"    for {origin.where}" for origin in lines]
            shown += _details(kernel, choices, opened)
        print("\n".join(shown), file=sys.stderr)
    if len(times) > 1:
        name = f"total of {len(times)} kernels"
        print(_line(opened.name, name, total), file=sys.stderr)


def _details(kernel: CompiledKernel, choices: frozenset[str], opened: Opened) -> list[str]:
    lines = [f"    why here: {kernel.reason}"]
    lines += [f"    move: {move}" for move in kernel.moves]
    if kernel.searched:
        lines.append(f"    the best of {kernel.searched} schedules")
    lines.append(f"    choices: {', '.join(sorted(choices)) or 'none'}")
    if hasattr(opened.runtime, "describe"):
        lines += [f"    {line}" for line in opened.runtime.describe(kernel.library)]
    if settings.DEBUG >= 4:
        lines.append(kernel.source)
    if settings.DEBUG >= 7 and hasattr(opened.compiler, "assembly"):
        lines.append(opened.compiler.assembly(kernel.source))
    return lines


def report_host_call(call: HostCall, seconds: float) -> None:
    """Write a line for a function that the host has computed, of memory of a device."""
    if settings.DEBUG >= 2:
        device, lines = call.operands[0].device, (call.origin,) if call.origin else ()
        tally = Tally(1, seconds)
        line_totals.add(device, lines, tally)
        shapes = " and ".join(map(str, call.shapes))
        name = f"host {call.arg.name} of {shapes}"
        print(_line(device, label(lines), tally, name), file=sys.stderr)


def _tally(work: Work, seconds: float, opened: Opened) -> Tally:
    """One launch that did `work`, beside the ceilings where they are known: the processor's."""
    if not work.is_fixed:  # it has done some part of that
        return Tally(1, seconds)
    if not opened.name.startswith("CPU"):
        return Tally(1, seconds, work.ops, work.moved)
    share = measured.share(work, seconds, opened.target)
    return Tally(1, seconds, work.ops, work.moved, share.best, seconds, share.name)


def _line(device: str, where: str, tally: Tally, name: str = "") -> str:
    return f"*** {device:6} {where:{WIDTH}} {figures(tally)}  {name}".rstrip()
