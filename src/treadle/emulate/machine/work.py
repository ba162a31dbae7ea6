"""Work that an engine has taken on and not finished, and in which orders it may get done.

    work = Worklist(random, ordering.stream("copy queue 3"))
    work.add(dispatch)                      # may be done at any time from now on
    work.barrier()                          # what comes later is done after what came before
    work.add(signal, After.ALL, is_urgent=True)

An engine is free to be quick or slow, so each piece of work is one or the other at random. Slow
work is done at the last moment: when something urgent has to come after it, such as a signal that
says that it is finished. That is when its writes reach others.

What may be done in any order may be wrong in some of them. The stream says which work is known to
come after which; what it accesses is checked by that (see ordering).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.emulate.machine.knowledge import Knowledge
    from treadle.emulate.machine.ordering import Stream, Work

__all__ = ["After", "Worklist"]

_MOST = 32  # pieces of work that an engine takes on


class After(enum.Enum):
    """What a piece of work comes after: what is before the last barrier, all, or nothing."""

    BARRIER = enum.auto()
    ALL = enum.auto()
    NOTHING = enum.auto()


@dataclass
class _Item:
    run: Callable[[], None]
    work: Work
    number: int
    needs: int  # all items with a smaller number are done before
    may_start: bool


class Worklist:
    """The work of one queue, which is a stream for others."""

    def __init__(self, random: Random, stream: Stream) -> None:
        self._random, self.stream = random, stream
        stream.ordering.worklists.add(self)
        self._items: list[_Item] = []
        self.count = self._floor = 0  # how many were added, and before the last barrier

    def has_room(self) -> bool:
        """Whether more can be taken on."""
        return len(self._items) < _MOST

    def barrier(self) -> None:
        """What is added from here on is done after everything before."""
        self._floor = self.count
        self.stream.barrier(self.count)

    def add(
        self,
        run: Callable[[], None],
        after: After = After.BARRIER,
        *,
        is_urgent: bool = False,
        what: str = "signals",
    ) -> None:
        """Work that comes after others. `what` it does is what a fault says of it."""
        needs = {After.NOTHING: 0, After.BARRIER: self._floor, After.ALL: self.count}[after]
        work = self.stream.work(self.count, self.before(after), what)
        may_start = is_urgent or self._random.random() < 0.5
        self._items.append(_Item(run, work, self.count, needs, may_start))
        self.count += 1
        if is_urgent:
            self._hurry(needs)
        if not self.has_room():
            self._hurry(self._items[0].number + 1)  # the oldest is done, however slow

    def before(self, after: After) -> Knowledge:
        """What is known to have ended before the next piece of work."""
        match after:
            case After.NOTHING:
                return self.stream.unordered()
            case After.BARRIER:
                return self.stream.before()
            case After.ALL:
                return self.stream.after_all(self.count)

    def hurry(self) -> None:
        """All work may be done from now on, however slow."""
        self._hurry(self.count)

    def _hurry(self, needs: int) -> None:
        """What an urgent piece of work waits for has to be done, and what that waits for."""
        for item in reversed(self._items):
            if item.number < needs:
                item.may_start = True
                needs = max(needs, item.needs)

    def do_one(self) -> bool:
        """Does a piece of work that may be done now. False if there is none."""
        first = self._items[0].number if self._items else 0
        ready = [item for item in self._items if item.may_start and item.needs <= first]
        if not ready:
            return False
        item = self._random.choice(ready)
        self._items.remove(item)
        with self.stream.ordering.doing(item.work):
            item.run()
        return True
