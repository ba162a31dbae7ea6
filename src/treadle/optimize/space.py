"""The space of a kernel's schedules: the heuristic's choice, and what is near a schedule.

    space = Space(ast, target)
    space.own, space.kernel_of(space.own)      the heuristic's schedule, and the kernel under it
    [*space.near(space.own)]                   other schedules, each given once
    space.estimate(schedule)                   what it takes, by cost.py

Near a schedule are those that the heuristic makes with one of its numbers changed (parameters.py),
and those with one move in another of its forms, if all moves after it are still possible.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..ir.choices import choices_of
from ..ir.node import Node
from ..ir.verify import shared_by_lanes
from ..target import Target
from .cost import seconds
from .heuristic import optimize, replay
from .moves import NEW, Move, Schedule
from .parameters import Parameters, neighbours, noting
from .records import Loop

__all__ = ["Space"]

ROOM = 1 << 10  # names of loops that a move in another form may make more


class _Made(NamedTuple):
    """A kernel, the heuristic's numbers by which it was made, and which of them it asked for."""

    ast: Node
    parameters: Parameters
    asked: set[str]


class Space:
    """Raises what the heuristic raises; other schedules that cannot be made are left out."""

    def __init__(self, ast: Node, target: Target) -> None:
        self._ast, self._target = ast, target
        self.own, own = self._optimized(Parameters())
        self._made = {self.own: own}
        self._seen = {own.ast}  # several schedules can give one kernel
        self._tried = {own.parameters}
        self._estimates: dict[Schedule, float] = {}

    def kernel_of(self, schedule: Schedule) -> Node:
        """The kernel under a schedule of this space."""
        return self._made[schedule].ast

    def estimate(self, schedule: Schedule) -> float:
        """What a schedule of this space takes, by the target's prices."""
        if schedule not in self._estimates:
            self._estimates[schedule] = seconds(self.kernel_of(schedule), self._target)
        return self._estimates[schedule]

    def near(self, schedule: Schedule) -> Iterator[Schedule]:
        """Schedules near one of this space, but for those of kernels that were given before."""
        _, parameters, asked = self._made[schedule]
        for other in neighbours(parameters, self._target):
            matters = any(getattr(other, name) != getattr(parameters, name) for name in asked)
            if matters and other not in self._tried:
                self._tried.add(other)
                yield from self._new(functools.partial(self._optimized, other))
        for place, move in enumerate(schedule):
            for form in move.forms():
                later = _with_room(schedule[place + 1 :])
                changed = Schedule((*schedule[:place], form, *later))
                yield from self._new(functools.partial(self._replayed, changed, parameters, asked))

    def changes(self, schedule: Schedule) -> str:
        """What a schedule has that the heuristic's has not."""
        return "; ".join(str(move) for move in schedule if move not in self.own) or "fewer moves"

    def _optimized(self, parameters: Parameters) -> tuple[Schedule, _Made]:
        noted, asked = noting(parameters)
        ast, schedule = optimize(self._ast, self._target, noted)
        return schedule, _Made(ast, parameters, asked)

    def _replayed(
        self, schedule: Schedule, parameters: Parameters, asked: set[str]
    ) -> tuple[Schedule, _Made]:
        ast = replay(self._ast, self._target, schedule)
        return schedule, _Made(ast, parameters, asked)

    def _new(self, make: Callable[[], tuple[Schedule, _Made]]) -> Iterator[Schedule]:
        try:
            with choices_of():
                schedule, made = make()
        except Exception:  # a move does not fit what others have made: there are other schedules
            return
        if made.ast not in self._seen and not shared_by_lanes(made.ast):
            self._seen.add(made.ast)
            self._made[schedule] = made
            yield schedule


def _with_room(later: tuple[Move, ...]) -> tuple[Move, ...]:
    """Moves with other names for the loops that they make, so that those before may make more."""
    first = min((one.names_from for one in later if one.names_from != NEW), default=NEW)
    if first == NEW:
        return later
    return tuple(one.renamed(lambda r: Loop(r + ROOM) if r >= first else r) for one in later)
