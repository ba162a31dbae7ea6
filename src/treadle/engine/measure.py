"""Measurements: schedules of one kernel beside the heuristic's, compiled, checked and timed.

    measurer = Measurer(task)
    measurer.own(schedule)                Verdict("right", 0.0041): the heuristic's choice
    measurer.attempt(schedule, 0.0041)    Verdict("right", 0.0039), "wrong" or "failed"
    measurer.compare(schedule)            both once more, in turns

It runs code that nobody has seen run before, so the search has it in another process (see
remote_measure.py). What it is told is a SearchTask, which says all there is to know of a kernel.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..config import settings
from ..errors import InternalError
from ..ir.node import Node
from ..ir.remembered import remembered
from ..ir.text import parse
from ..optimize.heuristic import replay
from ..optimize.moves import Schedule
from .devices import Device, Opened
from .loading import digest, load
from .translation import Job, Translator
from .trial import Arrays, Candidate, Trial

if TYPE_CHECKING:
    from ..schedule.kernel import Kernel
    from .program import CompiledKernel

__all__ = ["Measurer", "SearchTask", "Verdict"]

MAX_LAUNCHES = 40  # of each candidate
MEASURING = 0.04  # seconds of them, at most
HOPELESS = 1.5  # times the best so far: not measured any further
DUELS = 20  # pairs of launches
DUELLING = 0.2  # seconds of them, at most


@dataclass(frozen=True)
class SearchTask:
    """A kernel whose schedules are wanted: `writes` are the slots that it stores into.

    `made_by` says who compiles for `device`, which has to be the same in each process, and
    `options` are the settings that this depends on.
    """

    job: Job
    writes: tuple[int, ...]
    device: str
    made_by: str
    options: dict[str, object]

    @classmethod
    def of(cls, kernel: Kernel, job: Job, opened: Opened) -> SearchTask:
        """The task that `kernel` is on a device."""
        options = {
            "CACHE": settings.CACHE,
            "CPU_COUNT": getattr(opened.runtime, "threads", 0),
            "REPRODUCIBLE": settings.REPRODUCIBLE,
            "ALLOW_TF32": settings.ALLOW_TF32,
            "KEEP_PACKED": settings.KEEP_PACKED,
        }
        return cls(job, kernel.writes, opened.name, digest(opened), options)


@dataclass(frozen=True)
class Verdict:
    """What came of a schedule: `seconds` of a launch, and of the heuristic's where they ran in
    turns.
    """

    outcome: Literal["right", "wrong", "failed"]
    seconds: float = 0.0
    own: float = 0.0
    reason: str = ""


class Measurer:
    """Memory of a kernel, and the schedules that have run on it. Raises what making it raises."""

    def __init__(self, task: SearchTask) -> None:
        opened = Device[task.device]
        if digest(opened) != task.made_by:
            raise InternalError(f"{task.device} is another device in this process")
        self._job, self._opened = task.job, opened
        self._translator = Translator.of(opened)
        with remembered():
            self._ast = parse(task.job.text)
            self._trial = Trial(self._ast, task.writes, opened, self._build)

    def _build(self, ast: Node, schedule: Schedule) -> CompiledKernel:
        made = self._translator.finished(self._job, ast, schedule)
        return load("tried", *made, "tried", self._opened)

    def _candidate(self, schedule: Schedule) -> Candidate:
        with remembered():
            return self._trial.candidate(self._replayed(schedule), schedule)

    def _replayed(self, schedule: Schedule) -> Node:
        return replay(self._ast, self._translator.target, schedule)

    def own(self, schedule: Schedule) -> Verdict:
        """The heuristic's choice, compared with the kernel before any move."""
        if self._trial.reference is None:
            return Verdict("failed", reason="nothing can tell whether its results are right")
        self._own = self._candidate(schedule)
        first, self._expected = self._trial.result(self._own)
        if not self._trial.matches_reference(self._expected):
            return Verdict("wrong")
        return Verdict("right", self._time(self._own, first))

    def attempt(self, schedule: Schedule, best: float) -> Verdict:
        """A schedule beside the heuristic's; `best` is the least time so far."""
        candidate = self._candidate(schedule)
        first, found = self._trial.result(candidate)
        if not self._trial.agrees(found, self._expected):
            return Verdict("wrong")
        return Verdict("right", self._time(candidate, first, best))

    def compare(self, schedule: Schedule) -> Verdict:
        """A schedule and the heuristic's, in turns: the least of each."""
        candidate = self._candidate(schedule)
        mine: list[float] = []
        theirs: list[float] = []
        while len(mine) < DUELS and sum(mine) + sum(theirs) < DUELLING:
            mine.append(self._trial.seconds(candidate))
            theirs.append(self._trial.seconds(self._own))
        return Verdict("right", min(mine), min(theirs))

    def _time(self, candidate: Candidate, first: float, best: float | None = None) -> float:
        """The least of several launches, `first` among them; fewer where they are `HOPELESS`."""
        least, total = first, 0.0
        for number in itertools.count(1):
            hopeless = best is not None and number > 2 and least > HOPELESS * best
            if number > MAX_LAUNCHES or total > MEASURING or hopeless:
                return least
            seconds = self._trial.seconds(candidate)
            least, total = min(least, seconds), total + seconds
        raise AssertionError  # the count has no end

    _own: Candidate
    _expected: Arrays
