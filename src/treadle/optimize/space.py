"""The space of a kernel's schedules: the heuristic's choice, and what is near a schedule.

    space = Space(ast, target)
    space.own, space.kernel      the heuristic's schedule, and the kernel under it
    [*space.near(space.own)]     other schedules, each given once

Near a schedule are those that the heuristic makes with one of its numbers changed (parameters.py),
and those with one move in another of its forms, if all moves after it are still possible.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.choices import choices_of
from ..ir.node import Node
from ..ir.verify import shared_by_lanes
from ..target import Target
from .heuristic import optimize
from .moves import NEW, Move, Schedule
from .parameters import Parameters, neighbours
from .records import Loop
from .replay import replay

__all__ = ["Space"]

ROOM = 1 << 10  # names of loops that a move in another form may make more


class Space:
    """Raises what the heuristic raises; other schedules that cannot be made are left out."""

    def __init__(self, ast: Node, target: Target) -> None:
        self._ast, self._target = ast, target
        self.kernel, self.own = optimize(ast, target)
        self._seen = {self.kernel}  # several schedules can give one kernel
        self._made_with = {self.own: Parameters()}
        self._tried = {Parameters()}

    def near(self, schedule: Schedule) -> Iterator[Schedule]:
        """Schedules near one of this space, but for those of kernels that were given before."""
        parameters = self._made_with[schedule]
        for other in neighbours(parameters, self._target):
            if other not in self._tried:
                self._tried.add(other)
                yield from self._new(self._chosen(other), other)
        for place, move in enumerate(schedule):
            for form in move.forms():
                later = _with_room(schedule[place + 1 :])
                changed = Schedule((*schedule[:place], form, *later))
                yield from self._new(self._replayed(changed), parameters)

    def changes(self, schedule: Schedule) -> str:
        """What a schedule has that the heuristic's has not."""
        return "; ".join(str(move) for move in schedule if move not in self.own) or "fewer moves"

    def _chosen(self, parameters: Parameters) -> tuple[Node, Schedule] | None:
        try:
            with choices_of():
                return optimize(self._ast, self._target, parameters)
        except Exception:  # there are others
            return None

    def _replayed(self, schedule: Schedule) -> tuple[Node, Schedule] | None:
        try:
            with choices_of():
                found = replay(self._ast, self._target, schedule)
        except Exception:  # a move does not fit what others have made: there are other schedules
            return None
        return None if shared_by_lanes(found) else (found, schedule)

    def _new(
        self, found: tuple[Node, Schedule] | None, parameters: Parameters
    ) -> Iterator[Schedule]:
        if found is not None and found[0] not in self._seen:
            ast, schedule = found
            self._seen.add(ast)
            self._made_with[schedule] = parameters
            yield schedule


def _with_room(later: tuple[Move, ...]) -> tuple[Move, ...]:
    """Moves with other names for the loops that they make, so that those before may make more."""
    first = min((one.names_from for one in later if one.names_from != NEW), default=NEW)
    if first == NEW:
        return later
    return tuple(one.renamed(lambda r: Loop(r + ROOM) if r >= first else r) for one in later)
