"""Measured rows to text and JSON.

work         treadle ms   rate          ceiling   against torch   bar   met
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from .drawn import GROUP, LEAST, PEER, SHORTEST, WANTED
from .machine import Ceilings
from .peers import PEERS
from .results import BeamResult, Footprint, FootprintResult, OverheadResult, WorkResult

__all__ = ["Report", "as_json", "as_text", "markdown"]

# Groups whose rows may be a little slower, or slower here and faster there, but not on the whole.
MEAN_BARS = {"matmul": 1.0, "conv": 1.0}


@dataclass
class Report:
    """Everything that one run has measured."""

    machine: dict[str, str]
    limits: Ceilings
    works: list[WorkResult]
    overheads: list[OverheadResult]
    footprints: list[FootprintResult] = field(default_factory=list)
    beams: list[BeamResult] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether treadle itself could not do a row."""
        fresh = (*self.overheads, *self.footprints, *self.beams)
        return any("treadle" in r.failed for r in self.works) or any(r.failed for r in fresh)

    @property
    def groups(self) -> dict[str, list[WorkResult]]:
        found: dict[str, list[WorkResult]] = {}
        for result in self.works:
            found.setdefault(result.work.group, []).append(result)
        return found


def as_json(report: Report) -> dict[str, object]:
    """Everything that was measured, seconds of each round included."""
    rows = [
        {
            "group": r.work.group, "name": r.work.name,
            "ceiling": r.work.ceiling, "amount": r.work.amount,
            "bars": [{"against": bar.against, "factor": bar.factor,
                      "reached": r.reached(bar, report.limits)} for bar in r.work.bars],
            "share_of_ceiling": r.share(report.limits),
            "median_s": {peer: r.median(peer) for peer in r.times},
            "ratio": {peer: r.ratio(peer) for peer in r.times if peer != "treadle"},
            "times_s": r.times, "failed": r.failed,
        }
        for r in report.works
    ]  # fmt: skip
    costs = [
        {"name": r.overhead.name, "unit": r.overhead.unit, "limit": r.overhead.limit,
         "value": r.value, "failed": r.failed}
        for r in report.overheads
    ]  # fmt: skip
    sizes = [
        {"name": r.name, "bytes": {peer: vars(size) for peer, size in r.peak.items()},
         "ratio": r.ratio, "failed": r.failed}
        for r in report.footprints
    ]  # fmt: skip
    return {"machine": report.machine, "ceilings": vars(report.limits), "work": rows,
            "overheads": costs, "peak_memory": sizes,
            "beam": [vars(r) for r in report.beams]}  # fmt: skip


def as_text(report: Report) -> str:
    """A Markdown document: the machine, a table for each group of work, the other tables."""
    limits = report.limits
    lines = [f"* {name}: {text}" for name, text in report.machine.items()]
    matrix = f", matrix units {limits.matrix * 1e-9:.0f} GFLOP/s" if limits.matrix else ""
    lines.append(
        f"* ceilings in this run: {limits.flops * 1e-9:.0f} GFLOP/s, read "
        f"{limits.read * 1e-9:.1f} GB/s, copy {limits.copy * 1e-9:.1f} GB/s{matrix}"
    )
    for works in report.groups.values():
        lines += ["", *_work_table(limits, works)]
    if any(result.work.bars for result in report.works):
        lines += ["", NOTE, "", *_group_table(report)]
    drawn = [result for result in report.works if result.work.group == GROUP]
    if drawn:
        lines += ["", *_drawn_summary(drawn, limits)]
    if report.overheads:
        lines += ["", *_overhead_table(report.overheads)]
    if report.footprints:
        lines += ["", *_footprint_table(report.footprints)]
    if report.beams:
        lines += ["", *_beam_table(report.beams)]
    failed = _failures(report)
    return "\n".join([*lines, *(["", "Not measured:", "", *failed] if failed else [])])


def _failures(report: Report) -> list[str]:
    """One line for each reason, with the rows that it cost."""
    rows: dict[str, list[str]] = {}
    for result in report.works:
        for peer, why in result.failed.items():
            rows.setdefault(f"{peer}: {why}", []).append(result.work.name)
    for cost in report.overheads:
        if cost.failed:
            rows.setdefault(cost.failed, []).append(cost.overhead.name)
    for size in report.footprints:
        if size.failed:
            rows.setdefault(size.failed, []).append(f"peak memory of {size.name}")
    for beam in report.beams:
        if beam.failed:
            rows.setdefault(beam.failed, []).append(beam.name)
    return [f"* {why} ({', '.join(names)})" for why, names in rows.items()]


def _work_table(limits: Ceilings, works: Sequence[WorkResult]) -> list[str]:
    """The rows of one group, with a column for each peer that has a number in it."""
    order = dict.fromkeys([*PEERS, *(p for r in works for p in r.times)])
    others = [p for p in order if p != "treadle" and any(p in r.times for r in works)]
    header = ["work", "treadle ms", "rate", "of ceiling", *(f"{p} ms (x)" for p in others)]
    rows = [[r.work.name, _ms(r.median("treadle")), _rate(r), _percent(r.share(limits)),
             *(_peer(r, p) for p in others), *_verdict(r, limits)] for r in works]  # fmt: skip
    return markdown([*header, "bar", "met"], rows)


NOTE = (
    "treadle is the TinyJit replay, treadle lazy builds, schedules and realises its graph for "
    "every run. (x) is how many times as fast as that column treadle is, the median over "
    "interleaved rounds. torch out= writes into memory that is there, or is the fused Adam."
)
FOOTPRINT_NOTE = (
    "MB of the whole process at most, and in brackets what comes on top of the imported library: "
    "weights, results, all between them, and what compiling takes."
)


def _peer(result: WorkResult, peer: str) -> str:
    ratio = result.ratio(peer)
    return _ms(result.median(peer)) + (f" ({ratio:.2f})" if ratio else "")


def _verdict(result: WorkResult, limits: Ceilings) -> tuple[str, str]:
    """The bars, and for each whether it is met."""
    bars = result.work.bars
    met = [_met(result.reached(bar, limits), bar.factor) for bar in bars]
    return ", ".join(map(str, bars)), met[0] if len(set(met)) == 1 else ", ".join(met)


def _met(reached: float | None, factor: float) -> str:
    return "-" if reached is None else "yes" if reached >= factor else f"no: {reached:.2f}"


def _group_table(report: Report) -> list[str]:
    """For each group how many rows meet all their bars, and the mean against the first one."""
    rows = []
    for group, every in report.groups.items():
        works = [result for result in every if result.work.bars]
        if not works:
            continue
        mean, bar = _mean(works, report.limits), MEAN_BARS.get(group)
        rows.append([
            group, f"{sum(_all_met(r, report.limits) for r in works)} of {len(works)}",
            "-" if mean is None else f"{mean:.2f} of {_side(works[0])}",
            "-" if bar is None else f"{bar:g}", "-" if bar is None else _met(mean, bar),
        ])  # fmt: skip
    return markdown(["group", "rows that meet their bars", "geometric mean", "bar", "met"], rows)


def _drawn_summary(results: Sequence[WorkResult], limits: Ceilings) -> list[str]:
    """How many random shapes are as fast as PyTorch, and those that fall short, the worst first.

    What PyTorch does in less than SHORTEST is a matter of calls, which other rows measure.
    """
    counted = [
        (ratio, result)
        for result in results
        if (ratio := result.ratio(PEER)) and (result.median(PEER) or 0.0) >= SHORTEST
    ]
    if not counted:
        return [f"no random shape has a time of {PEER} of {SHORTEST * 1e6:.0f} µs or more"]
    reached = [ratio for ratio, _ in counted if ratio >= 1]
    share, least = len(reached) / len(counted), min(ratio for ratio, _ in counted)
    mean = statistics.geometric_mean(ratio for ratio, _ in counted)
    line = (
        f"random shapes: {len(reached)} of {len(counted)} at least as fast as {PEER}, {share:.0%} "
        f"(wanted {WANTED:.0%}); the least {least:.2f} (wanted {LEAST}); geometric mean {mean:.2f}"
    )
    short = sorted((pair for pair in counted if pair[0] < 1), key=lambda pair: pair[0])
    rows = [[r.work.name, f"{ratio:.2f}", _ms(r.median("treadle")), _percent(r.share(limits))]
            for ratio, r in short]  # fmt: skip
    if not rows:
        return [line]
    return [line, "", *markdown(["falls short", "ratio", "treadle ms", "of ceiling"], rows)]


def _side(result: WorkResult) -> str:
    return (*result.work.bars[0].against, "the ceiling")[0]


def _mean(works: Sequence[WorkResult], limits: Ceilings) -> float | None:
    found = [value for r in works if (value := r.reached(r.work.bars[0], limits))]
    return statistics.geometric_mean(found) if found else None


def _all_met(result: WorkResult, limits: Ceilings) -> bool:
    return all((result.reached(bar, limits) or 0.0) >= bar.factor for bar in result.work.bars)


def _overhead_table(overheads: Sequence[OverheadResult]) -> list[str]:
    rows = [
        [r.overhead.name, _amount(r.value, r.overhead.unit),
         _amount(r.overhead.limit, r.overhead.unit),
         "-" if r.value is None else "yes" if r.value <= r.overhead.limit else "no"]
        for r in overheads
    ]  # fmt: skip
    return markdown(["overhead", "measured", "at most", "met"], rows)


def _footprint_table(footprints: Sequence[FootprintResult]) -> list[str]:
    rows = [
        [r.name, *(_megabytes(r.peak.get(peer)) for peer in ("treadle", "torch")),
         "-" if r.ratio is None else f"{r.ratio:.2f}", "1",
         "-" if r.ratio is None else "yes" if r.ratio <= 1 else "no"]
        for r in footprints
    ]  # fmt: skip
    header = [
        "peak memory",
        "treadle MB (program)",
        "torch MB (program)",
        "ratio",
        "at most",
        "met",
    ]
    return [*markdown(header, rows), "", FOOTPRINT_NOTE]


def _beam_table(beams: Sequence[BeamResult]) -> list[str]:
    rows = [
        [r.name, "-", "-", "-", "-"] if r.failed else
        [r.name, _ms(r.heuristic), _ms(r.beam), f"{r.ratio:.2f}", f"{r.search:.1f}"]
        for r in beams
    ]  # fmt: skip
    return markdown(["search", "heuristic ms", "BEAM=4 ms", "times as fast", "search s"], rows)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit != "s":
        return f"{value:.3g}{unit}"
    scale, name = next(
        ((s, n) for s, n in ((1, "s"), (1e3, "ms")) if abs(value) * s >= 0.1), (1e6, "µs")
    )
    return f"{value * scale:.3g} {name}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}"


def _megabytes(size: Footprint | None) -> str:
    return "-" if size is None else f"{size.process * 1e-6:.0f} ({size.program * 1e-6:.0f})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _rate(result: WorkResult) -> str:
    rate, unit = (
        result.rate("treadle"),
        "GB/s" if result.work.ceiling in ("read", "copy") else "GFLOP/s",
    )
    return "-" if rate is None else f"{rate * 1e-9:.1f} {unit}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    lines = [[c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in (header, *rows)]
    lines.insert(1, ["-" * w for w in widths])
    return [f"| {' | '.join(line)} |" for line in lines]
