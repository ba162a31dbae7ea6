"""One row, measured for several libraries in turns."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

from .libraries.base import Library, NotOffered
from .results import WorkResult
from .timing import interleave
from .work import Work

__all__ = ["measure"]

CAPTURED = 3  # calls, behind which a TinyJit replays: what can go wrong has done so by then


def measure(
    work: Work, libraries: Mapping[str, Callable[[], Library]], rounds: int, budget: float
) -> WorkResult:
    """Seconds of each library for one run of `work`, over `rounds` or `budget` seconds.

    A library that has no form of it is left out; one that fails is, with its reason.
    """
    result, runs = WorkResult(work, {}), {}
    for name, library in libraries.items():
        # One peer that cannot do a row, or treadle itself, must not cost all other numbers.
        try:
            prepared = library().prepare(work)
            for _ in range(CAPTURED):
                prepared()
            runs[name] = prepared
        except NotOffered:
            continue
        except Exception as error:
            lines = str(error).strip().splitlines() or ["no message"]
            result.failed[name] = f"{type(error).__name__}: {lines[0]}"
    times = interleave(runs, rounds, budget)
    result.times = {name: [t / work.count for t in found] for name, found in times.items()}
    runs.clear()
    gc.collect()
    return result
