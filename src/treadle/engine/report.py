"""What DEBUG shows of each kernel that runs.

DEBUG=2: the user's lines, time, operations, bytes, share of the roofline, totals
DEBUG=3: buffers and moves
DEBUG=4: source                                              DEBUG=7: assembly

On CUDA, DEBUG=3 shows registers, memory and the blocks that run at a time, too.

Of what the host computes between kernels, DEBUG=2 shows the time and the shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..config import settings
from ..ir.node import toposort
from ..ir.origin import lines_of
from ..ir.text import render
from ..runtime.probe import peaks

if TYPE_CHECKING:
    from ..ir.node import Node
    from ..lower.passes import Lowered
    from .devices import Opened
    from .program import Program
    from .steps import HostCall

__all__ = [
    "report_compilation",
    "report_host_call",
    "report_kernels",
    "report_lines",
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


def report_lines(roots: Iterable[Node], device: str) -> None:
    """Write what the kernels that follow compute, and which of the user's lines asked for it."""
    if settings.DEBUG >= 2:
        lines = lines_of(toposort(roots))
        for number, line in enumerate(lines):
            print(f"*** {device:6} {'for' if not number else 'and'} {line}", file=sys.stderr)


def report_kernels(program: Program, times: list[tuple[int, int]], opened: Opened) -> None:
    """Write a line for each kernel of `program` to standard error, with what DEBUG asks for; for
    several, their total.
    """
    rows = zip(program.kernels, program.choices, times, strict=True)
    for kernel, choices, (start, end) in rows:
        lines = [_line(opened, kernel.name, kernel.ops, kernel.bytes, end - start)]
        if settings.DEBUG >= 3:
            lines.append(f"    why here: {kernel.reason}")
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
        print("\n".join(lines), file=sys.stderr)
    if len(times) > 1:
        ops, nbytes = (sum(getattr(k, name) for k in program.kernels) for name in ("ops", "bytes"))
        elapsed = sum(end - start for start, end in times)
        name = f"total of {len(times)} kernels"
        print(_line(opened, name, ops, nbytes, elapsed), file=sys.stderr)


def _line(opened: Opened, name: str, ops: int, nbytes: int, nanoseconds: int) -> str:
    seconds = max(nanoseconds * 1e-9, 1e-9)
    return (
        f"*** {opened.name:6} {name:40} {seconds * 1e6:10.1f} us "
        f"{ops / seconds * 1e-9:9.2f} GFLOP/s {nbytes / seconds * 1e-9:8.2f} GB/s"
        f"{_share(ops, nbytes, seconds, opened)}"
    )


def report_host_call(call: HostCall, device: str, seconds: float) -> None:
    """Write a line for a function that the host has computed of memory of `device`."""
    if settings.DEBUG >= 2:
        shapes = " and ".join(map(str, call.shapes))
        name = f"host {call.arg.name} of {shapes}"
        print(f"*** {device:6} {name:40} {seconds * 1e6:10.1f} us", file=sys.stderr)


def _share(ops: int, nbytes: int, seconds: float, opened: Opened) -> str:
    """The share of the time that this machine's measured limits would allow at best.

    What is quicker than memory came from caches, whose speed is no limit of this roofline: then
    only the operations count.
    """
    if not opened.name.startswith("CPU"):
        return ""
    flops, bandwidth = peaks()
    from_cache = nbytes / bandwidth > seconds
    best = ops / flops if from_cache else max(ops / flops, nbytes / bandwidth)
    served = ", served by caches" if from_cache else ""
    return f" {min(best / seconds, 1.0):5.0%} of the roofline{served}"
