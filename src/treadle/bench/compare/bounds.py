"""The median of measured ratios, and bounds that the true median lies within.

    bounds([0.97, 1.01, 0.99, ...])  ->  Bounds(low=0.97, median=0.99, high=1.01)

They are order statistics (the sign test): whether one ratio is above the true median is the toss of
a coin, so how many are is binomial. Nothing is assumed of how the ratios are spread.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LEAST", "Bounds", "bounds"]

ERROR = 0.05  # of each bound
LEAST = 5  # fewer pairs have no bound: five tosses of a coin are alike once in 32


@dataclass(frozen=True)
class Bounds:
    """The median of a sample. Each bound is wrong for the true one once in twenty at most."""

    low: float
    median: float
    high: float


def bounds(ratios: Sequence[float]) -> Bounds:
    """Raises ValueError for fewer than LEAST ratios."""
    if len(ratios) < LEAST:
        raise ValueError(f"bounds of a median take {LEAST} ratios or more, not {len(ratios)}")
    ordered, beyond = sorted(ratios), _beyond(len(ratios))
    return Bounds(ordered[beyond], statistics.median(ordered), ordered[-1 - beyond])


def _beyond(count: int) -> int:
    """How many of `count` ratios lie beyond a bound.

    The largest number for which so few heads of `count` coins come up once in twenty at most.
    """
    chance, number = 0.0, 0
    while True:
        chance += math.comb(count, number) / 2**count
        if chance > ERROR:
            return number - 1
        number += 1
