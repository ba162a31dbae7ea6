"""BEAM=n: a search among a kernel's schedules, by measuring them.

    best_schedule(kernel, job, opened, width=4)  ->  Winner(ast, schedule, searched=8, lasts=True)

The heuristic's own choice is the first candidate. In each round what is near the best n so far
(optimize/space.py) is compiled and measured, what is likely to be quick (optimize/cost.py) first,
until a round brings nothing, or time or the number of candidates is used up. Before a candidate's
time counts, its results are compared with those of the heuristic's choice everywhere, and these
with the kernel before any move (see trial.py). At the end the winner runs against the heuristic's
choice once more, in turns, and is taken only if it is clearly quicker.

All of that runs in another process (see remote_measure.py), so that a candidate which crashes, or
never ends, is one candidate less, and nothing here has been touched. One surprise: the engine keeps
the winner as the machine code of the kernel, under a key that holds the width, so a later process
neither searches nor measures; each is kept as soon as it is found.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..backends import backend_of
from ..config import settings
from ..ir.choices import forget_choices
from ..ir.node import Node
from ..optimize.heuristic import replay
from ..optimize.moves import Schedule
from ..optimize.space import Space
from .agreement import can_be_judged
from .measure import SearchTask
from .remote_measure import Ended, NotStarted, RemoteMeasurer
from .translation import Job

if TYPE_CHECKING:
    from ..schedule.kernel import Kernel
    from .devices import Opened

__all__ = ["best_schedule"]

SECONDS = 5.0  # for one kernel: no candidate is begun later
GRACE = 1.0  # seconds behind that, for what was begun before
PATIENCE = 2.0  # seconds for one candidate, or if that is more,
OWN_TIMES = 5  # times those that the heuristic's choice took, both compiled, compared and measured
MAX_CANDIDATES = 64
MAX_ENDED = 3  # processes that candidates may cost
CLEARLY = 0.97  # of the heuristic's time
UNLIKELY = 2.0  # times the least estimate: not measured
LISTING = 0.5  # of the time that is left, at most, goes into listing what is near


class Winner(NamedTuple):
    """A kernel under a schedule, the best of so many `searched`; whether it is worth keeping."""

    ast: Node
    schedule: Schedule
    searched: int
    lasts: bool


_refused: list[str] = []  # why there can be no process for trials here, once that is known


def best_schedule(
    kernel: Kernel,
    job: Job,
    opened: Opened,
    width: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Winner:
    """The quickest schedule that a beam of `width` finds.

    It is the heuristic's where a kernel cannot be tried, and where the search as a whole fails. It
    is not kept where another process may be able to search.
    """
    space = Space(kernel.ast, opened.code_target)
    own = Winner(space.kernel_of(space.own), space.own, 0, lasts=True)
    if not backend_of(opened.name).computes or not can_be_judged(kernel):
        return own
    if _refused:
        return own._replace(lasts=False)
    start = clock()
    try:
        with RemoteMeasurer(SearchTask.of(kernel, job, opened)) as measurer:
            search = _Search(measurer, space, width, clock)
            schedule, said = search.run()
    except NotStarted as why:
        _refused.append(str(why))
        warnings.warn(
            f"BEAM={width} finds nothing here: schedules are tried in a process of their own, and "
            f"that cannot be started ({why}); set BEAM=0, or run Python as a program",
            RuntimeWarning,
            stacklevel=2,
        )
        return own._replace(lasts=False)
    except Warning:  # where they are errors
        raise
    except Exception as error:  # memory, above all: the kernel itself may still run
        schedule, said = None, f"the search ended: {error}"
    _say(1, f"{job.name}: {said}, in {clock() - start:.1f} s")
    if schedule is None:
        return own
    if schedule == space.own:
        return own._replace(searched=search.count)
    forget_choices()
    ast = replay(kernel.ast, opened.code_target, schedule)  # which notes its choices
    return Winner(ast, schedule, search.count, lasts=True)


class _Search:
    """`count` schedules were tried."""

    def __init__(
        self, measurer: RemoteMeasurer, space: Space, width: int, clock: Callable[[], float]
    ) -> None:
        self.measurer, self.space, self.width, self.clock = measurer, space, width, clock
        self.count = self.ended = 0
        self.warned = False
        self.seconds: dict[Schedule, float] = {}  # of those that were measured

    def run(self) -> tuple[Schedule | None, str]:
        """The winner, None where the kernel cannot be tried, and what to say of it."""
        start = self.clock()
        self.end = start + SECONDS
        try:
            own = self.measurer.own(self.space.own, SECONDS + GRACE)
        except Ended as why:
            if why.crashed:
                self._warn(
                    f"the heuristic's schedule of a kernel is not used in BEAM: {why}",
                    self.space.own,
                )
            return None, f"not tried, {why}"
        if own.outcome != "right":
            if own.outcome == "wrong":
                self._warn_of_wrong(self.space.own)
            return None, f"not tried, {own.reason or 'it is wrong'}"
        self.patience = max(PATIENCE, OWN_TIMES * (self.clock() - start))
        self.count += 1
        self.seconds[self.space.own] = own.seconds
        while self._round():
            pass
        return self._winner()

    @property
    def best(self) -> Schedule:
        return min(self.seconds, key=self.seconds.__getitem__)

    def _round(self) -> bool:
        """Measure the neighbours of the best; whether one of them is the best now."""
        before = self.best
        for schedule in self._ranked():
            is_over = self.clock() >= self.end or self.count >= MAX_CANDIDATES
            if is_over or self.ended >= MAX_ENDED:
                return False
            self._try(schedule)
        return self.best != before

    def _ranked(self) -> list[Schedule]:
        """What is near the best, by what it is estimated to take; without what is far behind."""
        starts = sorted(self.seconds, key=self.seconds.__getitem__)[: self.width]
        near = (schedule for start in starts for schedule in self.space.near(start))
        now = self.clock()
        until = now + LISTING * (self.end - now)
        listed = [*itertools.takewhile(lambda _: self.clock() < until, near)]
        least = min(map(self.space.estimate, (*listed, *starts)))
        likely = (one for one in listed if self.space.estimate(one) <= UNLIKELY * least)
        return sorted(likely, key=self.space.estimate)

    def _try(self, schedule: Schedule) -> None:
        """Measure a schedule, if it is right."""
        left = max(0.0, self.end - self.clock()) + GRACE
        changes = self.space.changes(schedule)
        self.count += 1
        try:
            verdict = self.measurer.attempt(
                schedule, self.seconds[self.best], min(self.patience, left)
            )
        except Ended as why:
            self.ended += 1
            _say(3, f"{changes}: dropped, {why}")
            if why.crashed:
                self._warn(f"a schedule is not used: {why}", schedule)
            return
        if verdict.outcome == "right":
            self.seconds[schedule] = verdict.seconds
            _say(3, f"{changes}: {verdict.seconds * 1e6:.1f} us")
        elif verdict.outcome == "failed":  # it cannot be made, or not run: there are others
            _say(3, f"{changes}: dropped, {verdict.reason}")
        elif verdict.outcome == "wrong":
            self._warn_of_wrong(schedule)

    def _winner(self) -> tuple[Schedule, str]:
        """The best, if it is clearly quicker where it and the heuristic's choice run in turns."""
        own, said = self.space.own, f"the heuristic's is the best of {self.count}"
        if self.best == own:
            return own, said
        try:
            verdict = self.measurer.compare(self.best, self.patience)
        except Ended as why:
            return own, f"{said}, since in the end {why}"
        if verdict.outcome != "right" or verdict.seconds >= CLEARLY * verdict.own:
            return own, said
        return self.best, (
            f"{verdict.own / verdict.seconds:.2f} times as fast with "
            f"{self.space.changes(self.best)}, the best of {self.count}"
        )

    def _warn_of_wrong(self, schedule: Schedule) -> None:
        self._warn("a schedule computes something else than its kernel and is not used", schedule)

    def _warn(self, what: str, schedule: Schedule) -> None:
        """Warn, once for each kernel: what is wrong in one schedule is so in its neighbours."""
        said = "; ".join(map(str, schedule))
        _say(3, f"{what}: {said}")
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"{what}; please report it with these moves: {said or 'none'}",
                RuntimeWarning,
                stacklevel=2,
            )


def _say(level: int, what: str) -> None:
    if level <= settings.DEBUG:
        print(f"    beam: {what}", file=sys.stderr)
