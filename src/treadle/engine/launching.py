"""Programs as they run: launched on memory, counted, reported, and told to who listens.

run_program(program, inputs, outputs, [{}])
run_program(program, inputs, [], [{"n": 0}, {"n": 1}], filled)     a loop of two rounds
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain, islice

from ..config import settings
from ..ir.choices import is_observed, note_kernel
from ..runtime.base import Buffer, CallList
from .check_kernels import check_again, check_launches
from .counters import count
from .devices import Device, Opened
from .memory import Memory
from .prepacked import Kept, Room
from .program import Program
from .provenance import Origins
from .report import report_host_call, report_kernels
from .steps import AS_THEY_ARE, BetweenRuns, HostCall, Moved, Run, listeners

__all__ = ["run_in_parts", "run_program", "run_reported", "run_step"]


def run_program(
    program: Program,
    inputs: list[Memory],
    outputs: list[Memory],
    rounds: Sequence[dict[str, int]],
    filled: Sequence[Memory] = (),
    origins: Sequence[Origins] = (),
) -> None:
    """Launch every kernel of `program` on these buffers for each of `rounds`, and count it.

    `filled` are the inputs that are assigned to and that nobody else knows yet; `origins` says who
    made what each kernel computes.
    """
    _take(Run(program, inputs, outputs, _scratch(program), rounds, filled, origins))


def run_in_parts(
    program: Program,
    inputs: list[Memory],
    outputs: list[Memory],
    values: dict[str, int],
    calls: Sequence[tuple[int, Callable[[], None]]],
    origins: Sequence[Origins] = (),
) -> None:
    """The same, once; after so many kernels as `calls` say, those are called.

    What they begin goes on while later kernels run. A program whose kernels are checked is run
    as a whole first.
    """
    scratch, begin = _scratch(program), 0
    last = len(program.kernels)
    ends = [last if program.schedule is not None else end for end, _ in calls]
    for end, (_, call) in zip([*ends, last], [*calls, (last, _nothing)], strict=True):
        if begin < end:
            part, read, made = program.part(begin, end)
            memory = [inputs[n] for n in read], [outputs[n] for n in made]
            _take(Run(part, *memory, scratch, [values], (), origins[begin:end]))
            begin = end
        call()


def _nothing() -> None:
    """Nothing is left to call."""


def _scratch(program: Program) -> list[Buffer]:
    allocator = Device[program.device].allocator
    return [
        allocator.alloc(block) if isinstance(block, int) else allocator.alloc_image(block)
        for block in program.scratch
    ]


def _take(run: Run) -> None:
    """Run it, count it, and tell who listens."""
    program, filled, opened = run.program, run.filled, Device[run.program.device]
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
    rounds, runtime = run.rounds, opened.runtime
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
        run_reported(runtime.call_list(launches), [run])
    elif launches:
        runtime.run(launches)


def run_reported(calls: CallList, runs: Sequence[Run]) -> None:
    """Run the launches of `runs`, which are `calls`, and report each."""
    times = iter(calls.run_timed())
    for run in runs:
        program, opened = run.program, Device[run.program.device]
        for _ in run.rounds:
            mine = list(islice(times, len(program.kernels)))
            report_kernels(program, mine, opened, run.origins)


def run_step(step: BetweenRuns, moved: Moved = AS_THEY_ARE) -> None:
    """Run a step that is no kernels, on the memory that is `moved`, and report it."""
    if settings.DEBUG < 2 or not isinstance(step, HostCall):
        step.run(moved)
        return
    start = time.perf_counter()
    step.run(moved)
    report_host_call(step, time.perf_counter() - start)


def _run_checked(run: Run) -> None:
    """The same with every kernel checked; rounds that share what they pack run as ever first."""
    opened = Device[run.program.device]
    if len(run.rounds) == 1:
        check_launches(run, opened)
        return
    memory = [*{id(m): m for m in (*run.overwritten, *run.filled)}.values()]
    quick = lambda: _run(run, run.filled, opened)
    check_again([run], memory, {}, [], quick, "a loop")
