"""BEAM=n: a search among a kernel's schedules, by measuring them.

    best_schedule(kernel, job, opened, width=4)  ->  ((ast, moves), True), as `optimize` gives them

The heuristic's own choice is the first candidate. In each round the neighbours of the best n so
far are compiled and measured, until a round brings nothing, or time or the number of candidates is
used up. Before a candidate's time counts, its results are compared with those of the heuristic's
choice everywhere, and these with the kernel before any move (see trial.py). At the end the winner
runs against the heuristic's choice once more, in turns, and is taken only if it is clearly quicker.

All of that runs in another process (see remote_measure.py), so that a candidate which crashes, or
never ends, is one candidate less, and nothing here has been touched. One surprise: the engine keeps
the winner as the machine code of the kernel, under a key that holds the width, so a later process
neither searches nor measures; each is kept as soon as it is found.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..backends import backend_of
from ..config import settings
from ..ir.choices import forget_choices
from ..ir.node import Node
from ..optimize.heuristic import optimize
from ..optimize.parameters import Parameters, neighbours
from .agreement import can_be_judged
from .measure import SearchTask, Verdict
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

Schedule = tuple[Node, list[str]]

_refused: list[str] = []  # why there can be no process for trials here, once that is known


def best_schedule(
    kernel: Kernel,
    job: Job,
    opened: Opened,
    width: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Schedule, bool]:
    """The quickest schedule that a beam of `width` finds, and whether that is worth keeping.

    It is the heuristic's where a kernel cannot be tried, and where the search as a whole fails. It
    is not kept where another process may be able to search.
    """
    own = optimize(kernel.ast, opened.code_target)
    searches = backend_of(opened.name).computes and opened.target.workgroup is None
    if not searches or not can_be_judged(kernel):
        return own, True
    if _refused:
        return own, False
    start = clock()
    try:
        with RemoteMeasurer(SearchTask.of(kernel, job, opened)) as measurer:
            search = _Search(measurer, opened, width, clock)
            parameters, said = search.run()
    except NotStarted as why:
        _refused.append(str(why))
        warnings.warn(
            f"BEAM={width} finds nothing here: schedules are tried in a process of their own, and "
            f"that cannot be started ({why}); set BEAM=0, or run Python as a program",
            RuntimeWarning,
            stacklevel=2,
        )
        return own, False
    except Warning:  # where they are errors
        raise
    except Exception as error:  # memory, above all: the kernel itself may still run
        parameters, said = None, f"the search ended: {error}"
    _say(1, f"{job.name}: {said}, in {clock() - start:.1f} s")
    if parameters is None:
        return own, True
    ast, moves = own
    if parameters != Parameters():
        forget_choices()
        ast, moves = optimize(kernel.ast, opened.code_target, parameters)
    return (ast, [*moves, f"the best of {search.count} schedules"]), True


class _Search:
    """`count` schedules were compiled: those that turn out to be another's are not counted."""

    def __init__(
        self, measurer: RemoteMeasurer, opened: Opened, width: int, clock: Callable[[], float]
    ) -> None:
        self.measurer, self.target, self.width, self.clock = measurer, opened.target, width, clock
        self.count = self.ended = 0
        self.warned = False
        self.seconds: dict[Parameters, float] = {}  # of those that were measured
        self.tried: set[Parameters] = {Parameters()}

    def run(self) -> tuple[Parameters | None, str]:
        """The winner, None where the kernel cannot be tried, and what to say of it."""
        start = self.clock()
        self.end = start + SECONDS
        try:
            own = self.measurer.own(SECONDS + GRACE)
        except Ended as why:
            if why.crashed:
                self._warn(f"the heuristic's schedule of a kernel is not used in BEAM: {why}", [])
            return None, f"not tried, {why}"
        if own.outcome != "right":
            if own.outcome == "wrong":
                self._warn_of_wrong(own)
            return None, f"not tried, {own.reason or 'it is wrong'}"
        self.patience = max(PATIENCE, OWN_TIMES * (self.clock() - start))
        self.count += 1
        self.seconds[Parameters()] = own.seconds
        while self._round():
            pass
        return self._winner()

    @property
    def best(self) -> Parameters:
        return min(self.seconds, key=self.seconds.__getitem__)

    def _round(self) -> bool:
        """Measure the neighbours of the best; whether one of them is the best now."""
        before = self.best
        for start in sorted(self.seconds, key=self.seconds.__getitem__)[: self.width]:
            for parameters in neighbours(start, self.target):
                is_over = self.clock() >= self.end or self.count >= MAX_CANDIDATES
                if is_over or self.ended >= MAX_ENDED:
                    return False
                if parameters not in self.tried:
                    self.tried.add(parameters)
                    self._try(parameters)
        return self.best != before

    def _try(self, parameters: Parameters) -> None:
        """Measure what `parameters` give, if that is new and right."""
        left = max(0.0, self.end - self.clock()) + GRACE
        try:
            verdict = self.measurer.attempt(
                parameters, self.seconds[self.best], min(self.patience, left)
            )
        except Ended as why:
            self.ended += 1
            self.count += 1
            _say(3, f"{parameters}: dropped, {why}")
            if why.crashed:
                self._warn(f"a schedule is not used: {why}", [str(parameters)])
            return
        self.count += verdict.outcome != "known"
        if verdict.outcome == "right":
            self.seconds[parameters] = verdict.seconds
            _say(3, f"{parameters}: {verdict.seconds * 1e6:.1f} us")
        elif verdict.outcome == "failed":  # it cannot be made, or not run: there are others
            _say(3, f"{parameters}: dropped, {verdict.reason}")
        elif verdict.outcome == "wrong":
            self._warn_of_wrong(verdict)

    def _winner(self) -> tuple[Parameters, str]:
        """The best, if it is clearly quicker where it and the heuristic's choice run in turns."""
        said = f"the heuristic's is the best of {self.count}"
        if self.best == Parameters():
            return Parameters(), said
        try:
            verdict = self.measurer.compare(self.best, self.patience)
        except Ended as why:
            return Parameters(), f"{said}, since in the end {why}"
        if verdict.outcome != "right" or verdict.seconds >= CLEARLY * verdict.own:
            return Parameters(), said
        return self.best, (
            f"{verdict.own / verdict.seconds:.2f} times as fast with {self.best}, "
            f"the best of {self.count}"
        )

    def _warn_of_wrong(self, verdict: Verdict) -> None:
        what = "a schedule computes something else than its kernel and is not used"
        self._warn(what, verdict.moves)

    def _warn(self, what: str, moves: list[str]) -> None:
        """Warn, once for each kernel: what is wrong in one schedule is so in its neighbours."""
        _say(3, f"{what}: {'; '.join(moves)}")
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"{what}; please report it with these moves: {'; '.join(moves) or 'none'}",
                RuntimeWarning,
                stacklevel=2,
            )


def _say(level: int, what: str) -> None:
    if level <= settings.DEBUG:
        print(f"    beam: {what}", file=sys.stderr)
