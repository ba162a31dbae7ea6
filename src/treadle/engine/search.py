"""BEAM=n: a search among a kernel's schedules, by measuring them.

    best_schedule(kernel, opened, build, width=4)  ->  (ast, moves), as `optimize` gives them

The heuristic's own choice is the first candidate. In each round the neighbours of the best n so
far are compiled and measured, until a round brings nothing, or time or the number of candidates is
used up. Before a candidate's time counts, its results are compared with those of the heuristic's
choice everywhere, and these with the kernel before any move (see trial.py). At the end the winner
runs against the heuristic's choice once more, in turns, and is taken only if it is clearly quicker.

One surprise: the engine keeps the winner as the machine code of the kernel, under a key that holds
the width, so a later process neither searches nor measures.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..config import settings
from ..ir.node import Node
from ..optimize.heuristic import optimize
from ..optimize.knobs import Knobs, neighbours
from ..schedule.kernel import Kernel
from .agreement import can_be_judged
from .trial import Build, Candidate, Trial

if TYPE_CHECKING:
    from .backends import Opened

__all__ = ["best_schedule"]

DEVICES = ("CPU", "CL")
SECONDS = 5.0  # for one kernel: no candidate is begun later
MAX_CANDIDATES = 64
MAX_LAUNCHES = 40  # of each candidate
MEASURING = 0.04  # seconds of them, at most
HOPELESS = 1.5  # times the best so far: not measured any further
DUELS = 20  # pairs of launches
DUELLING = 0.2  # seconds of them, at most
CLEARLY = 0.97  # of the heuristic's time


def best_schedule(
    kernel: Kernel,
    opened: Opened,
    build: Build,
    width: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Node, list[str]]:
    """The quickest schedule that a beam of `width` finds: the kernel with its moves, and these.

    It is the heuristic's where a kernel cannot be tried, and where the search as a whole fails.
    """
    ast, moves = optimize(kernel.ast, opened.target)
    searches = opened.name.partition(":")[0] in DEVICES and opened.target.workgroup is None
    if not searches or not can_be_judged(kernel):
        return ast, moves
    try:
        return _Search(kernel, opened, build, width, clock).run(ast, moves)
    except Exception as error:  # memory, above all: the kernel itself may still run
        _say(f"the search ended: {error}")
        return ast, moves


class _Search:
    def __init__(
        self, kernel: Kernel, opened: Opened, build: Build, width: int, clock: Callable[[], float]
    ) -> None:
        self.kernel, self.target, self.width, self.clock = kernel, opened.target, width, clock
        self.end = clock() + SECONDS
        self.trial = Trial(kernel, opened, build)
        self.seen: set[Node] = set()
        self.seconds: dict[Knobs, float] = {}  # of those that were measured
        self.tried: set[Knobs] = set()

    def run(self, ast: Node, moves: list[str]) -> tuple[Node, list[str]]:
        """The winner, or (`ast`, `moves`), the heuristic's choice."""
        if self.trial.reference is None:
            return ast, moves
        own = self.trial.candidate(ast, moves)
        first, self.expected = self.trial.result(own)
        if not self.trial.matches_reference(self.expected):
            self._warn(moves)
            return ast, moves
        self.winner, self.least = own, self._time(own, first)
        self.seen.add(ast)
        self.tried.add(Knobs())
        self.seconds[Knobs()] = self.least
        while self._round():
            pass
        best = self.winner if self._is_clearly_quicker(self.winner, own) else own
        return best.ast, [*best.moves, f"the best of {len(self.seen)} schedules"]

    def _round(self) -> bool:
        """Measure the neighbours of the best; whether one of them is the best now."""
        before = self.least
        for start in sorted(self.seconds, key=self.seconds.__getitem__)[: self.width]:
            for knobs in neighbours(start, self.target):
                if self.clock() >= self.end or len(self.seen) >= MAX_CANDIDATES:
                    return False
                if knobs not in self.tried:
                    self.tried.add(knobs)
                    self._try(knobs)
        return self.least < before

    def _try(self, knobs: Knobs) -> None:
        """Measure what `knobs` give, if that is new and right."""
        try:
            ast, moves = optimize(self.kernel.ast, self.target, knobs)
            if ast in self.seen:
                return
            self.seen.add(ast)
            candidate = self.trial.candidate(ast, moves)
            first, found = self.trial.result(candidate)
        except Exception as error:  # it cannot be made, or not run: there are others
            _say(f"{knobs}: dropped, {error}")
            return
        if not self.trial.agrees(found, self.expected):
            self._warn(moves)
            return
        seconds = self.seconds[knobs] = self._time(candidate, first, self.least)
        _say(f"{knobs}: {seconds * 1e6:.1f} us")
        if seconds < self.least:
            self.winner, self.least = candidate, seconds

    def _time(self, candidate: Candidate, first: float, best: float | None = None) -> float:
        """The least of several launches, `first` among them; fewer where they are `HOPELESS`."""
        least, total = first, 0.0
        for number in itertools.count(1):
            hopeless = best is not None and number > 2 and least > HOPELESS * best
            if number > MAX_LAUNCHES or total > MEASURING or hopeless:
                return least
            seconds = self.trial.seconds(candidate)
            least, total = min(least, seconds), total + seconds
        raise AssertionError  # the count has no end

    def _is_clearly_quicker(self, one: Candidate, other: Candidate) -> bool:
        """Whether `one` wins where the two run in turns."""
        if one is other:
            return False
        mine, theirs = [], []
        while len(mine) < DUELS and sum(mine) + sum(theirs) < DUELLING:
            mine.append(self.trial.seconds(one))
            theirs.append(self.trial.seconds(other))
        return min(mine) < CLEARLY * min(theirs)

    def _warn(self, moves: list[str]) -> None:
        warnings.warn(
            f"a schedule computes something else than its kernel and is not used; please report it "
            f"with these moves: {'; '.join(moves)}",
            RuntimeWarning,
            stacklevel=2,
        )


def _say(what: str) -> None:
    if settings.DEBUG >= 3:
        print(f"    beam: {what}", file=sys.stderr)
