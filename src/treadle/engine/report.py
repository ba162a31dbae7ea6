"""What DEBUG shows of each kernel that runs.

DEBUG=2: time, operations, bytes, share of the roofline     DEBUG=3: buffers and moves
DEBUG=4: source                                              DEBUG=7: assembly

On CUDA, DEBUG=3 shows registers, memory and the blocks that run at a time, too.

Of what the host computes between kernels, DEBUG=2 shows the time and the shapes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..config import settings
from ..ir.text import render
from ..runtime.probe import peaks

if TYPE_CHECKING:
    from ..ir.node import Node
    from ..lower.passes import Lowered
    from .backends import Opened
    from .program import Program
    from .steps import HostCall

__all__ = ["report_compilation", "report_host_call", "report_kernels", "report_search"]


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


def report_kernels(program: Program, times: list[tuple[int, int]], opened: Opened) -> None:
    """Write a line for each kernel of `program` to standard error, with what DEBUG asks for."""
    for kernel, (start, end) in zip(program.kernels, times, strict=True):
        seconds = max((end - start) * 1e-9, 1e-9)
        line = (
            f"*** {opened.name:6} {kernel.name:40} {seconds * 1e6:10.1f} us "
            f"{kernel.ops / seconds * 1e-9:9.2f} GFLOP/s {kernel.bytes / seconds * 1e-9:8.2f} GB/s"
            f"{_share(kernel.ops, kernel.bytes, seconds, opened)}"
        )
        lines = [line]
        if settings.DEBUG >= 3:
            lines.append(f"    why here: {kernel.reason}; moves: {'; '.join(kernel.moves)}")
            if hasattr(opened.runtime, "describe"):
                lines += [f"    {line}" for line in opened.runtime.describe(kernel.library)]
        if settings.DEBUG >= 4:
            lines.append(kernel.source)
        if settings.DEBUG >= 7 and hasattr(opened.compiler, "assembly"):
            lines.append(opened.compiler.assembly(kernel.source))
        print("\n".join(lines), file=sys.stderr)


def report_host_call(call: HostCall, device: str, seconds: float) -> None:
    """Write a line for a function that the host has computed of memory of `device`."""
    if settings.DEBUG >= 2:
        shapes = " and ".join(map(str, call.shapes))
        name = f"host {call.arg.name} of {shapes}"
        print(f"*** {device:6} {name:40} {seconds * 1e6:10.1f} us", file=sys.stderr)


def _share(ops: int, nbytes: int, seconds: float, opened: Opened) -> str:
    """The share of the time that this machine's measured limits would allow at best."""
    if not opened.name.startswith("CPU"):
        return ""
    flops, bandwidth = peaks()
    best = max(ops / flops, nbytes / bandwidth)
    return f" {best / seconds:5.0%} of the roofline"
