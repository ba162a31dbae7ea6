"""Rows about BEAM: what a search finds beside the heuristic, how long it takes, and what is left.

BEAM: matmul 64x4096x4096    heuristic 6.0 ms, BEAM=4 5.5 ms, 1.09, found in 5.4 s

One process searches; another one, which has nothing but what the first left on disk, replays both
in turns. If that has to compile anything, the row fails.
"""

from __future__ import annotations

import statistics
import tempfile

from ..config import Context
from ..engine.counters import GlobalCounters
from ..errors import UserError
from .peers import PEERS
from .process import numbers
from .results import BeamResult
from .rows import works
from .timing import interleave, median_ratio, timed
from .work import Work

__all__ = ["PREFIX", "compared", "measure_beam", "search_seconds", "searched_rows"]

PREFIX = "BEAM: "
WIDTH = 4
CALLS = 3  # as many as TinyJit needs to replay
ROUNDS, BUDGET = 31, 4.0
QUICK_ROUNDS, QUICK_BUDGET = 3, 0.1
NAMES = (
    "matmul 256", "matmul 1000x999x1001", "matmul 64x4096x4096",
    "conv2d 3x3 64->64 8x56x56, gradient to weight", "conv2d 7x7 stride 2 3->64 8x224x224",
    "conv2d 3x3 in 4 groups 128->128 8x28x28, gradient to input", "attention 8x512x64",
    "softmax 4096x4096", "argmax axis 0 4096x4096", "MLP training, batch 128",
    "LSTM inference, 100 steps", "ResNet-18 inference, batch 1",
)  # fmt: skip
CODE = "from treadle.bench.beam import {what}; print(*{what}({name!r}, {quick}))"


def searched_rows(quick: bool) -> list[str]:
    """The names of the rows; a smoke test has the first."""
    return [PREFIX + work.name for work in works(quick) if work.name in NAMES or quick][
        : 1 if quick else None
    ]


def measure_beam(row: str, quick: bool) -> BeamResult:
    """Search in a fresh process with an empty cache, then measure in another one."""
    name = row.removeprefix(PREFIX)
    with tempfile.TemporaryDirectory() as folder:

        def run(what: str) -> list[float]:
            code = CODE.format(what=what, name=name, quick=quick)
            return numbers(code, False, TREADLE_CACHE_DIR=folder)

        (search,) = run("search_seconds")
        heuristic, beam, ratio, compiled = run("compared")
    if compiled:
        raise UserError(f"[bench] {name}: {compiled:.0f} kernels were not remembered")
    return BeamResult(row, heuristic, beam, ratio, search)


def search_seconds(name: str, quick: bool) -> tuple[float]:
    """What the first calls take longer than with the heuristic's choice, both never seen before."""
    work, library = _work(name, quick), PEERS["treadle"].library()
    seconds = []
    for width in (0, WIDTH):
        run = library.prepare(work)
        with Context(BEAM=width):
            seconds.append(sum(timed(run) for _ in range(CALLS)))
    return (seconds[1] - seconds[0],)


def compared(name: str, quick: bool) -> tuple[float, float, float, int]:
    """The median seconds of both, the ratio, and how many kernels had to be compiled."""
    work, library = _work(name, quick), PEERS["treadle"].library()
    runs = {}
    GlobalCounters.reset()
    for width in (0, WIDTH):
        runs[str(width)] = library.prepare(work)
        with Context(BEAM=width):
            for _ in range(CALLS):
                runs[str(width)]()
    rounds, budget = (QUICK_ROUNDS, QUICK_BUDGET) if quick else (ROUNDS, BUDGET)
    own, found = interleave(runs, rounds, budget).values()
    ratio, count = median_ratio(own, found), GlobalCounters.compile_count
    each = [statistics.median(times) / work.count for times in (own, found)]
    return each[0], each[1], ratio, count


def _work(name: str, quick: bool) -> Work:
    return next(work for work in works(quick) if work.name == name)
