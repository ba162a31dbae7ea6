"""Rows that are whole processes or the engine's own overheads: seconds against a stated limit.

import treadle                     at most 0.2 s, the interpreter's start included
first result, empty cache          at most 0.5 s
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import UserError
from .timing import timed

__all__ = ["Overhead", "overheads", "printed"]

RUNS = 5

IMPORT = "import treadle"
SIMPLE = """
from treadle import Tensor
for n in range({count}):
    (Tensor([1.0, 2.0, 3.0]) * (n + 2) + n).exp().numpy() if n % 2 else (
        Tensor([[1.0] * (n + 2)]) - n).sum().numpy()
"""
REPLAY = """
import time
from treadle import Tensor, TinyJit
def chain(x):
    for _ in range({count}):
        x = (x + 1).contiguous()
    return x.realize()
step, x = TinyJit(chain), Tensor([0.0] * 16).realize()
for _ in range(4):
    step(x)
best = float("inf")
for _ in range(20):
    start = time.perf_counter()
    step(x).numpy()
    best = min(best, time.perf_counter() - start)
print(best / {count})
"""
SCHEDULE = """
import time
from treadle import Tensor
def graph(layers):
    x, w = Tensor.empty(8, 8), Tensor.empty(8, 8)
    for _ in range(layers):
        x = (x @ w).relu().contiguous()
    return x
graph(3).schedule()
def seconds(layers):
    x = graph(layers)
    start = time.perf_counter()
    x.schedule()
    return time.perf_counter() - start
print(seconds({count} * 10) / seconds({count}))
"""


@dataclass(frozen=True)
class Overhead:
    """One row: `measure` gives a number in `unit`, which may be at most `limit`."""

    name: str
    unit: str
    limit: float
    measure: Callable[[], float]


def overheads(quick: bool) -> list[Overhead]:
    """Every row; `quick` takes one run of each instead of the best of several."""
    runs, size = (1, 20) if quick else (RUNS, 1000)
    return [
        Overhead("import treadle, whole process", "s", 0.2, lambda: _best(IMPORT, runs)),
        Overhead("first result, empty cache", "s", 0.5, lambda: _best(_simple(1), runs)),
        Overhead("each further simple kernel", "s", 0.03, lambda: _further(runs)),
        Overhead(f"replay, a kernel of {size}", "s", 2e-6, lambda: _least(REPLAY, size, runs)),
        Overhead("scheduling 10x the nodes", "x", 12.0, lambda: _least(SCHEDULE, size // 10, runs)),
    ]


def _simple(count: int) -> str:
    return SIMPLE.format(count=count)


def _further(runs: int) -> float:
    extra = 10
    return (_best(_simple(1 + extra), runs) - _best(_simple(1), runs)) / extra


def _best(code: str, runs: int) -> float:
    """The least wall time of a fresh process with an empty cache that runs `code`."""
    return min(timed(lambda: _python(code)) for _ in range(runs))


def _least(code: str, count: int, runs: int) -> float:
    """The least of the numbers that fresh processes print."""
    return min(printed(code.format(count=count)) for _ in range(runs))


def printed(code: str, **variables: str) -> float:
    """The number that a fresh process with these environment variables prints."""
    return float(_python(code, **variables))


def _python(code: str, **given: str) -> str:
    """What a fresh interpreter prints for `code`. Raises UserError where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "TREADLE_CACHE_DIR": os.path.join(folder, "cache"), **given}
        done = subprocess.run(
            [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False
        )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"[bench] a fresh process failed: {reason}")
    return done.stdout
