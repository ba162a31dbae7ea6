"""Programs as they run: launched on memory, counted, reported, and told to who listens.

run_program(program, inputs, outputs, [{}])
run_program(program, inputs, [], [{"n": 0}, {"n": 1}], filled)     a loop of two rounds
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain

from ..config import settings
from ..ir.choices import is_observed, note_kernel
from .check_kernels import check_again, check_launches
from .counters import count
from .devices import Device, Opened
from .memory import Memory
from .prepacked import Kept, Room
from .program import Program
from .report import report_kernels
from .steps import Run, listeners

__all__ = ["run_program"]


def run_program(
    program: Program,
    inputs: list[Memory],
    outputs: list[Memory],
    rounds: Sequence[dict[str, int]],
    filled: Sequence[Memory] = (),
) -> None:
    """Launch every kernel of `program` on these buffers for each of `rounds`, and count it.

    `filled` are the inputs that are assigned to and that nobody else knows yet.
    """
    opened = Device[program.device]
    allocator = opened.allocator
    scratch = [
        allocator.alloc(block) if isinstance(block, int) else allocator.alloc_image(block)
        for block in program.scratch
    ]
    run = Run(program, inputs, outputs, scratch, rounds, filled)
    for memory in (*run.overwritten, *filled):
        memory.written()
    start = time.perf_counter()
    if program.schedule is not None:
        _run_checked(run)
    else:
        _run(run, filled, opened)
    seconds = time.perf_counter() - start
    if is_observed():
        for choices in program.choices:
            note_kernel(choices)
    count(run.work, seconds)
    for listen in listeners:
        listen(run)


def _run(run: Run, filled: Sequence[Memory], opened: Opened) -> None:
    program, rounds, runtime = run.program, run.rounds, opened.runtime
    kept = Kept()
    if len(rounds) > 1:
        changing = set(map(id, filled))
        launches = kept.split([run], lambda memory: id(memory) not in changing, Room())
        kept.refresh()
        if is_observed():
            kept.note(run)
    else:
        launches = list(chain.from_iterable(run.launches()))
    if settings.DEBUG >= 2:
        times, size = runtime.call_list(launches).run_timed(), len(program.kernels)
        for first in range(0, len(times), size):
            report_kernels(program, times[first : first + size], opened)
    elif launches:
        runtime.run(launches)


def _run_checked(run: Run) -> None:
    """The same with every kernel checked; rounds that share what they pack run as ever first."""
    opened = Device[run.program.device]
    if len(run.rounds) == 1:
        check_launches(run, opened)
        return
    memory = [*{id(m): m for m in (*run.overwritten, *run.filled)}.values()]
    quick = lambda: _run(run, run.filled, opened)
    check_again([run], memory, {}, [], quick, "a loop")
