"""Rows, measured by two processes in turns, and what is to be said of them.

compare(old, new, wanted, Plan(pairs=15, limit=0.97, quick=False))  ->  [Row("matmul 256", ...)]
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...errors import UserError
from .bounds import Bounds, bounds
from .checkout import Checkout, Failed, Process

__all__ = ["Plan", "Row", "compare"]

BURST_SECONDS, MAX_BURST = 0.02, 25
RUNS = 3


@dataclass(frozen=True)
class Plan:
    """How much is measured, and the ratio below which a row falls short."""

    pairs: int
    limit: float
    quick: bool


@dataclass
class Row:
    """One row: the pairs of seconds (old, new) of each run, or why there are none."""

    name: str
    limit: float
    runs: list[list[tuple[float, float]]] = field(default_factory=list)
    failed: str = ""

    @property
    def found(self) -> list[Bounds]:
        """The bounds of each run's ratio, which is OLD's time over NEW's."""
        return [bounds([old / new for old, new in pairs]) for pairs in self.runs]

    @property
    def seconds(self) -> tuple[float, float]:
        """The medians of all runs, of OLD and NEW."""
        pairs = [pair for run in self.runs for pair in run]
        old, new = zip(*pairs, strict=True)
        return statistics.median(old), statistics.median(new)

    @property
    def short(self) -> int:
        """In how many runs even the upper bound is below the limit."""
        return sum(one.high < self.limit for one in self.found)

    @property
    def falls_short(self) -> bool:
        """Whether most of RUNS runs say so."""
        return self.short > RUNS // 2

    @property
    def decided(self) -> bool:
        """Whether no further run can change what is said: the second one often has."""
        most = RUNS // 2 + 1
        return bool(self.failed) or self.short >= most or len(self.runs) - self.short >= most


def compare(
    old: Checkout,
    new: Checkout,
    wanted: Callable[[str, str], bool],
    plan: Plan,
    say: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Every row that both have and `wanted(group, name)` takes, until all are decided.

    Raises UserError if no row is left or a checkout cannot be measured.
    """
    rows: list[Row] | None = None
    for number in range(RUNS):
        left = rows if rows is None else [row for row in rows if not row.decided]
        if left == []:
            break
        with old.process() as first, new.process() as second:
            common = _common(first, second, plan.quick)
            if rows is None:
                names = [name for name, group in common.items() if wanted(group, name)]
                if not names:
                    raise UserError(f"no row is wanted; both have: {', '.join(common)}")
                rows = left = [Row(name, plan.limit) for name in names]
            for row in left or ():
                say(f"run {number + 1}: {row.name}")
                _measure(row, (first, second), plan.pairs)
    return rows or []


def _common(first: Process, second: Process, quick: bool) -> dict[str, str]:
    """The groups of rows that are the same in both, by name."""
    ours, theirs = first.rows(quick), second.rows(quick)
    return {name: row[0] for name, row in ours.items() if theirs.get(name) == row}


def _measure(row: Row, processes: Sequence[Process], pairs: int) -> None:
    """Adds one run to a row."""
    try:
        for process in processes:
            process.ask("prepare", name=row.name)
        longest = max(_seconds(process, 1) for process in processes)
        count = min(MAX_BURST, max(1, int(BURST_SECONDS / longest)))
        row.runs.append([_pair(processes, count, turn) for turn in range(pairs)])
        for process in processes:
            process.ask("drop")
    except Failed as error:
        row.failed = str(error)


def _pair(processes: Sequence[Process], count: int, turn: int) -> tuple[float, float]:
    """(old, new) seconds; who begins changes from pair to pair."""
    first, second = (0, 1) if turn % 2 == 0 else (1, 0)
    times = {first: _seconds(processes[first], count), second: _seconds(processes[second], count)}
    return times[0], times[1]


def _seconds(process: Process, count: int) -> float:
    return process.ask("run", count=count)["seconds"]
