"""Functions in, seconds out: every peer takes its turn in each round, so that noise hits all alike.

interleave({"a": f, "b": g}, rounds=9)  ->  {"a": [0.011, ...], "b": [0.012, ...]}
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

__all__ = ["interleave", "median_ratio", "timed"]

SETTLE_SECONDS = 0.1  # the BLAS of NumPy spins for 50 to 100 ms
MIN_ROUNDS = 3
MAX_BURST, BURST_SECONDS = 9, 0.01
SLOW = 0.25  # seconds; nothing that wakes up matters here


def timed(function: Callable[[], object]) -> float:
    """The wall time of one call, in seconds."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def interleave(
    runs: Mapping[str, Callable[[], object]], rounds: int, budget: float = 2.0
) -> dict[str, list[float]]:
    """Seconds a call of each run in each round.

    Stops after `rounds`, or after MIN_ROUNDS once `budget` seconds are spent. The order turns
    from round to round, so that nobody always follows the same neighbour's caches.
    """
    names, times = list(runs), {name: [] for name in runs}
    end = time.perf_counter() + budget
    for turn in range(rounds):
        if turn >= MIN_ROUNDS and time.perf_counter() > end:
            break
        for position in range(len(names)):
            name = names[(position + turn) % len(names)]
            times[name].append(_burst(runs[name]))
    return times


def _burst(run: Callable[[], object]) -> float:
    """The median time of some calls in a row, after one that is not counted.

    First the neighbour's worker threads get the time to fall asleep: some spin for milliseconds,
    on a core that a quick run needs. A slow run counts at once.
    """
    time.sleep(SETTLE_SECONDS)
    first = timed(run)
    if first >= SLOW:
        return first
    count = min(MAX_BURST, max(1, int(BURST_SECONDS / max(first, 1e-9))))
    return statistics.median(timed(run) for _ in range(count))


def median_ratio(slow: list[float], fast: list[float]) -> float:
    """How many times `fast` is as fast as `slow`: the median over rounds of their quotient."""
    return statistics.median(s / f for s, f in zip(slow, fast, strict=True))
