"""What was measured, before it is printed: seconds into medians, ratios, and bars reached."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from .machine import Ceilings
from .process import Overhead
from .timing import median_ratio
from .work import Bar, Work

__all__ = ["BeamResult", "Footprint", "FootprintResult", "OverheadResult", "WorkResult"]


@dataclass
class WorkResult:
    """Seconds of each peer in each round of one row, and why a peer has none."""

    work: Work
    times: dict[str, list[float]]
    failed: dict[str, str] = field(default_factory=dict)

    def median(self, peer: str) -> float | None:
        return statistics.median(self.times[peer]) if peer in self.times else None

    def rate(self, peer: str) -> float | None:
        """Flops or bytes a second."""
        seconds = self.median(peer)
        return self.work.amount / seconds if seconds else None

    def ratio(self, peer: str) -> float | None:
        """How many times as fast as `peer` treadle is."""
        if peer not in self.times or "treadle" not in self.times:
            return None
        return median_ratio(self.times[peer], self.times["treadle"])

    def share(self, limits: Ceilings) -> float | None:
        """Treadle's share of the ceiling that bounds this row, the fastest peer included.

        That is memory's bandwidth in its best quarter of rounds where it took its turns in the row.
        """
        rates = [rate for peer in self.times if (rate := self.rate(peer))]
        mine, limit = self.rate("treadle"), getattr(limits, self.work.ceiling)
        if "bandwidth" in self.times:
            limit = self.work.amount / _best_quarter(self.times["bandwidth"])
        return None if mine is None else mine / max(limit, *rates, 1e-9)

    def reached(self, bar: Bar, limits: Ceilings) -> float | None:
        """What is compared with the bar's factor; None where its side is missing."""
        if not bar.against:
            return self.share(limits)
        return min((r for peer in bar.against if (r := self.ratio(peer))), default=None)


def _best_quarter(times: list[float]) -> float:
    """The slowest of the quickest quarter: one lucky round of a shared machine is no ceiling."""
    return sorted(times)[(len(times) - 1) // 4]


@dataclass
class OverheadResult:
    """The number of one overhead row, or why there is none."""

    overhead: Overhead
    value: float | None
    failed: str = ""


@dataclass(frozen=True)
class Footprint:
    """The most bytes of a process, and how many of them the imported library did not take yet."""

    process: float
    program: float


@dataclass
class FootprintResult:
    """What a program took at most in each library, or why that is not known."""

    name: str
    peak: dict[str, Footprint]
    failed: str = ""

    @property
    def ratio(self) -> float | None:
        """The bytes of treadle's process over those of PyTorch's."""
        theirs = self.peak.get("torch")
        return self.peak["treadle"].process / theirs.process if theirs else None


@dataclass
class BeamResult:
    """Seconds of a row by the heuristic's choices and by those that a search found before.

    `ratio` is how many times as fast these are, `search` how many seconds that took, and `found`
    what it said of each kernel. So many kernels have a schedule other than the heuristic's:
    `others`. Where none has, both run the same code, and the ratio says how steady the machine is.
    """

    name: str
    heuristic: float = 0.0
    beam: float = 0.0
    ratio: float = 0.0
    search: float = 0.0
    found: list[str] = field(default_factory=list)
    others: int = 0
    failed: str = ""
