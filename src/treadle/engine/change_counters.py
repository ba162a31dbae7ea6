"""Counters of changes: what could make a replay differ from the last one counts here.

    changes.meaning     another number whenever a tensor has got another node or is gone, a setting
                        is another, or a function is being captured
    changes.memory      another number whenever memory that was there before was written
    changes.captures    which functions are being captured

A captured model reads tens of weights. To look at each in each call costs more than the rest of the
call: after a kernel that streamed through the caches, every one of them comes from memory.
"""

from __future__ import annotations

import itertools
import threading

from ..config import on_change
from ..forks import fork_safe

__all__ = ["changes"]


class _Changes:
    """The numbers only tell whether they are those of before; none comes twice."""

    __slots__ = ("_lock", "_next", "captures", "meaning", "memory")

    def __init__(self) -> None:
        self._next = itertools.count(1).__next__
        self._lock = fork_safe(threading.RLock())
        self.meaning = self.memory = 0
        self.captures: set[object] = set()

    def of_meaning(self, *_: object) -> None:
        """Called after the change: who has seen the new number sees the change, too."""
        self.meaning = self._next()

    def of_memory(self) -> None:
        """Called where memory is assigned to."""
        self.memory = self._next()

    def begin(self, capture: object) -> None:
        """A function begins being captured."""
        with self._lock:
            self.captures.add(capture)
        self.of_meaning()

    def end(self, capture: object) -> None:
        """That function is not captured any more, if it was."""
        with self._lock:
            self.captures.discard(capture)
        self.of_meaning()


changes = _Changes()
on_change.append(changes.of_meaning)
