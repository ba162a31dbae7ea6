"""Processes of a group as threads of this one: what they tell each other, and nothing else.

together(3, lambda group: group.tell(str(group.rank)))      what each returns, or raises
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from treadle.distributed import Group
from treadle.errors import DistributedError

__all__ = ["together"]

T = TypeVar("T")
_TIME = 30.0  # seconds


class _Meeting:
    """A barrier that says who is gone to those alone whom it keeps."""

    def __init__(self, size: int) -> None:
        self._size, self._here, self._round, self._is_gone = size, 0, 0, False
        self._changed = threading.Condition()

    def wait(self) -> None:
        with self._changed:
            mine = self._round
            self._here += 1
            if self._here == self._size:
                self._here, self._round = 0, mine + 1
                self._changed.notify_all()
            over = lambda: self._round != mine or self._is_gone
            if not self._changed.wait_for(over, _TIME) or self._round == mine:
                raise DistributedError("[distributed] another one is gone")

    def leave(self) -> None:
        with self._changed:
            self._is_gone = True
            self._changed.notify_all()


class _Thread:
    """One of the threads, as a Communicator that can gather."""

    name = "world"

    def __init__(self, rank: int, arrays: list[np.ndarray], meeting: _Meeting) -> None:
        self.rank, self.size = rank, len(arrays)
        self._arrays, self._meeting = arrays, meeting

    def steps(self, call, given, result):
        assert call.kind == "all_gather", call
        self._arrays[self.rank] = given
        self._meeting.wait()
        result[...] = np.stack(self._arrays)
        self._meeting.wait()
        yield from ()


def together(size: int, function: Callable[[Group], T]) -> list[T | BaseException]:
    """What each thread's `function` returns or raises. Who raises is gone for those who wait."""
    arrays = [np.empty(0)] * size
    meeting = _Meeting(size)
    found: list[T | BaseException] = [RuntimeError("not over")] * size

    def run(rank: int) -> None:
        try:
            found[rank] = function(Group(_Thread(rank, arrays, meeting)))
        except BaseException as error:
            found[rank] = error
            meeting.leave()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_TIME)
    return found
