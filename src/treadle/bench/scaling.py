"""Rows about threads: how much of the ceiling's gain from more cores compute-bound work has.

matmul 1024: 10.4 ms on two cores, 20.3 on one; multiply-adds in registers: 2.0 times as many
  ->  1.02: the work takes 2% longer than the ceiling's gain would let it

A kernel on one core that is 90% of the peak and one on all cores that is as well count as 1.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from ..target import available_cores
from .machine import peak_flops
from .peers import PEERS
from .process import Overhead, printed
from .rows import works
from .timing import timed

__all__ = ["peak_work", "scaling"]

SHARE = 0.9  # of the ceiling's gain from more cores, at least
ROUNDS = 15
WORDS = ("matmul 1024", "conv2d 3x3 64->64", "attention 8x1024x64")
QUICK_WORDS = ("matmul",)
CODE = """
import os
if {one} and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
from treadle.bench.scaling import peak_work
print(peak_work({name!r}, {quick}))
"""


def scaling(quick: bool) -> list[Overhead]:
    """The rows; none on a machine of one core."""
    if available_cores() < 2:
        return []
    names = [_name(word, quick) for word in (QUICK_WORDS if quick else WORDS)]
    return [
        Overhead(
            f"all cores over the ceiling's gain: {name}", "x", 1 / SHARE, _measure(name, quick)
        )
        for name in names
    ]


def _name(word: str, quick: bool) -> str:
    """The name of the first row that begins so."""
    return next(work.name for work in works(quick) if work.name.startswith(word))


def _measure(name: str, quick: bool) -> Callable[[], float]:
    def measure() -> float:
        every = printed(CODE.format(one=False, name=name, quick=quick))
        return every / printed(CODE.format(one=True, name=name, quick=quick), CPU_COUNT="1")

    return measure


def peak_work(name: str, quick: bool) -> float:
    """The operations that the ceiling would do in the time of a row, with this process's cores."""
    work = next(work for work in works(quick) if work.name == name)
    run = PEERS["treadle"].library().prepare(work)
    steps = 1 << (14 if quick else 19)
    for _ in range(3):
        run()
    rounds = range(3 if quick else ROUNDS)
    return statistics.median(timed(run) * peak_flops(steps) for _ in rounds)
