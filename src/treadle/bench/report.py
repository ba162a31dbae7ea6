"""Measured rows to text and JSON.

work         treadle ms   rate          ceiling   against torch   bar   met
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .machine import Ceilings
from .process import Overhead
from .timing import median_ratio
from .work import Work

__all__ = ["OverheadResult", "WorkResult", "as_json", "as_text"]

TORCH = ("torch", "torch out=")


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
        """Treadle's share of the ceiling that bounds this row, the fastest peer included."""
        rates = [rate for peer in self.times if (rate := self.rate(peer))]
        mine = self.rate("treadle")
        return None if mine is None else mine / max(limit(self.work, limits), *rates, 1e-9)

    def reached(self, limits: Ceilings) -> float | None:
        """What is compared with the bar's factor; None where its side is missing."""
        if self.work.bar.against == "bandwidth":
            return self.share(limits)
        return min((r for peer in TORCH if (r := self.ratio(peer))), default=None)


@dataclass
class OverheadResult:
    """The number of one overhead row, or why there is none."""

    overhead: Overhead
    value: float | None
    failed: str = ""


def limit(work: Work, limits: Ceilings) -> float:
    """The ceiling of a row: arithmetic, reading, or reading and writing."""
    if work.unit == "flop":
        return limits.flops
    return (
        limits.copy if work.bar.against == "torch" or work.name.startswith("copy") else limits.read
    )


def as_json(
    machine: dict[str, str],
    limits: Ceilings,
    works: Sequence[WorkResult],
    overheads: Sequence[OverheadResult],
) -> dict[str, Any]:
    """Everything that was measured, seconds of each round included."""
    rows = [
        {
            "name": r.work.name, "unit": r.work.unit, "amount": r.work.amount,
            "bar": {"against": r.work.bar.against, "factor": r.work.bar.factor},
            "reached": r.reached(limits), "share_of_ceiling": r.share(limits),
            "median_s": {peer: r.median(peer) for peer in r.times},
            "ratio": {peer: r.ratio(peer) for peer in r.times if peer != "treadle"},
            "times_s": r.times, "failed": r.failed,
        }
        for r in works
    ]  # fmt: skip
    costs = [
        {"name": r.overhead.name, "unit": r.overhead.unit, "limit": r.overhead.limit,
         "value": r.value, "failed": r.failed}
        for r in overheads
    ]  # fmt: skip
    return {"machine": machine, "ceilings": vars(limits), "work": rows, "overheads": costs}


def as_text(
    machine: dict[str, str],
    limits: Ceilings,
    works: Sequence[WorkResult],
    overheads: Sequence[OverheadResult],
    peers: Sequence[str],
) -> str:
    """A Markdown document: the machine, the table of work, the table of overheads."""
    lines = [f"* {name}: {text}" for name, text in machine.items()]
    lines.append(
        f"* ceilings in this run: {limits.flops * 1e-9:.0f} GFLOP/s, read "
        f"{limits.read * 1e-9:.1f} GB/s, copy {limits.copy * 1e-9:.1f} GB/s"
    )
    if works:
        lines += ["", *_work_table(limits, works, peers)]
    if overheads:
        lines += ["", *_overhead_table(overheads)]
    failed = _failures(works, overheads)
    return "\n".join([*lines, *(["", "Not measured:", "", *failed] if failed else [])])


def _failures(works: Sequence[WorkResult], overheads: Sequence[OverheadResult]) -> list[str]:
    """One line for each reason, with the rows that it cost."""
    rows: dict[str, list[str]] = {}
    for result in works:
        for peer, why in result.failed.items():
            rows.setdefault(f"{peer}: {why}", []).append(result.work.name)
    for cost in overheads:
        if cost.failed:
            rows.setdefault(cost.failed, []).append(cost.overhead.name)
    return [f"* {why} ({', '.join(names)})" for why, names in rows.items()]


def _work_table(limits: Ceilings, works: Sequence[WorkResult], peers: Sequence[str]) -> list[str]:
    others = [peer for peer in peers if peer != "treadle"]
    header = ["work", "treadle ms", "rate", "of ceiling", *(f"{p} ms (x)" for p in others)]
    rows = [[r.work.name, _ms(r.median("treadle")), _rate(r), _percent(r.share(limits)),
             *(_peer(r, p) for p in others), *_verdict(r, limits)] for r in works]  # fmt: skip
    return [*_markdown([*header, "bar", "met"], rows), "", NOTE]


NOTE = (
    "treadle is the TinyJit replay, treadle lazy builds, schedules and realises its graph for "
    "every run. (x) is how many times as fast as that column treadle is, the median over "
    "interleaved rounds."
)


def _peer(result: WorkResult, peer: str) -> str:
    ratio = result.ratio(peer)
    return _ms(result.median(peer)) + (f" ({ratio:.2f})" if ratio else "")


def _verdict(result: WorkResult, limits: Ceilings) -> tuple[str, str]:
    bar, reached = result.work.bar, result.reached(limits)
    text = (
        f"{bar.factor:.0%} of ceiling" if bar.against == "bandwidth" else f"{bar.factor:g}x torch"
    )
    return (
        text,
        "-" if reached is None else "yes" if reached >= bar.factor else f"no: {reached:.2f}",
    )


def _overhead_table(overheads: Sequence[OverheadResult]) -> list[str]:
    rows = [
        [r.overhead.name, _amount(r.value, r.overhead.unit),
         _amount(r.overhead.limit, r.overhead.unit),
         "-" if r.value is None else "yes" if r.value <= r.overhead.limit else "no"]
        for r in overheads
    ]  # fmt: skip
    return _markdown(["overhead", "measured", "at most", "met"], rows)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit != "s":
        return f"{value:.3g}{unit}"
    scale, name = next((s, n) for s, n in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if value * s >= 0.1)
    return f"{value * scale:.3g} {name}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _rate(result: WorkResult) -> str:
    rate, unit = result.rate("treadle"), "GFLOP/s" if result.work.unit == "flop" else "GB/s"
    return "-" if rate is None else f"{rate * 1e-9:.1f} {unit}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    lines = [[c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in (header, *rows)]
    lines.insert(1, ["-" * w for w in widths])
    return [f"| {' | '.join(line)} |" for line in lines]
