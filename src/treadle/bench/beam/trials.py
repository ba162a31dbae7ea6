"""python -m treadle.bench.beam.trials: schedules near the heuristic's, what each takes and why.

    CPU_COUNT=1 python -m treadle.bench.beam.trials --keep trials.jsonl --seconds 100    and again

FILE gets a line of JSON for each row of `treadle.bench.beam`: for each kernel schedules with
their seconds of one core, and their effort by optimize/cost.py, the heuristic's first.
scripts/fit_costs.py fits prices to that.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ...engine.agreement import can_be_judged
from ...engine.devices import Device
from ...engine.loading import load
from ...engine.program import CompiledKernel
from ...engine.run import scheduled
from ...engine.translation import Job, Translator
from ...engine.trial import Candidate, Trial
from ...engine.work import work_of
from ...ir.node import Node
from ...ir.remembered import remembered
from ...ir.text import render
from ...optimize.cost import effort
from ...optimize.heuristic import parsed, replay
from ...optimize.moves import Schedule
from ...optimize.space import Space
from ...schedule.kernel import Kernel
from ...target import Target
from ..drawn import drawn_rows
from ..libraries.tensor import TensorLibrary
from ..rows import works
from ..work import Work
from . import EACH, NAMES

MOST = 48  # schedules of a kernel
LEAST, TURNS, LAUNCHES = 3, 40, 3  # turns at least and at most, launches in each
ENOUGH = 3.0  # seconds of them for a kernel


def main(arguments: Sequence[str] | None = None) -> int:
    """3 where rows are left, else 0."""
    options = _parser().parse_args(arguments)
    end, device = time.monotonic() + options.seconds, Device.DEFAULT
    lines = options.keep.read_text().splitlines() if options.keep.exists() else []
    kept = {(line["device"], line["row"]): line for line in map(json.loads, lines)}
    works_of = drawn_rows(options.seed, EACH) if options.seed else works(quick=False)
    for work in works_of:
        line = kept.get((device, work.name))
        if (not options.seed and work.name not in NAMES) or (line and not options.recount):
            continue
        if time.monotonic() > end:
            return 3
        kernels = kernels_of(work)
        if line is None:
            found = [_tried(kernel, device) for kernel in kernels]
        else:
            found = [_recounted(*both) for both in zip(kernels, line["kernels"], strict=True)]
        kept[device, work.name] = {"device": device, "row": work.name, "kernels": found}
        options.keep.write_text("".join(f"{json.dumps(line)}\n" for line in kept.values()))
    return 0


def kernels_of(work: Work) -> list[Kernel]:
    """The kernels that compute a row, with its gradients if it asks for them."""
    library = TensorLibrary("treadle", captured=False)
    tensors = [library.tensor(each.array(seed)) for seed, each in enumerate(work.inputs)]
    if work.task == "gradients":
        result = work.call(library, {}, tensors[:-1])
        wanted = [tensors[place] for place in work.wanted]
        made = [result, *result.gradient(*wanted, gradient=tensors[-1])]
    else:
        result = work.call(library, {}, tensors)
        made = [*result] if isinstance(result, tuple) else [result]
    return list(scheduled([(one.node, one.device) for one in made]))


Tried = list[tuple[float, list[float], str]]  # seconds, effort and schedule


def _tried(kernel: Kernel, device: str) -> Tried:
    """The heuristic's schedule, then others that are right."""
    opened = Device[device]
    translator, target = Translator.of(opened), opened.code_target
    made = work_of(kernel.ast, kernel.buffers)
    job = Job("tried", render(kernel.ast), len(kernel.buffers), made)

    def build(ast: Node, schedule: Schedule) -> CompiledKernel:
        return load("tried", *translator.finished(job, ast, schedule), "tried", opened)

    with remembered():
        space, trial = Space(kernel.ast, target), Trial(kernel.ast, kernel.writes, opened, build)
    if trial.reference is None or not can_be_judged(kernel):
        return []
    tried: list[tuple[Candidate, list[float], str]] = []
    for schedule in itertools.islice(itertools.chain([space.own], space.near(space.own)), MOST):
        with remembered():
            counted = _counted(space.kernel_of(schedule), target)
            candidate = trial.candidate(space.kernel_of(schedule), schedule)
        if trial.matches_reference(trial.result(candidate)[1]):
            tried.append((candidate, counted, str(schedule)))
    least = _processor_seconds(trial, [candidate for candidate, *_ in tried])
    return [(seconds, *one[1:]) for seconds, one in zip(least, tried, strict=True)]


def _recounted(kernel: Kernel, tried: Tried) -> Tried:
    """The same seconds of the same schedules, with the effort as it is counted now."""
    target = Device[Device.DEFAULT].code_target
    found: Tried = []
    for seconds, _, text in tried:
        with remembered():
            ast = replay(kernel.ast, target, parsed(text))
            found.append((seconds, _counted(ast, target), text))
    return found


def _counted(ast: Node, target: Target) -> list[float]:
    return [float(f"{number:.4g}") for number in effort(ast, target)]


def _processor_seconds(trial: Trial, candidates: Sequence[Candidate]) -> list[float]:
    """The least of some launches of each, in turns: other work costs them little."""
    least, end = [math.inf] * len(candidates), time.perf_counter() + ENOUGH
    for turn in range(TURNS):
        for place, candidate in enumerate(candidates):
            for _ in range(LAUNCHES):
                start = time.process_time()
                trial.seconds(candidate)
                least[place] = min(least[place], time.process_time() - start)
        if turn >= LEAST and time.perf_counter() > end:
            break
    return [float(f"{seconds:.4g}") for seconds in least]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m treadle.bench.beam.trials", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--keep", type=Path, required=True, metavar="FILE", help="what is measured")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no kernel after so long")
    parser.add_argument("--recount", action="store_true", help="effort anew, of kept schedules")
    parser.add_argument("--seed", metavar="TEXT", help="rows that it draws")
    return parser


if __name__ == "__main__":
    sys.exit(main())
