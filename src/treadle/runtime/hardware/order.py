"""The order of a device's work over its queues: each piece begins when the one before it has ended.

    order = WorkOrder(timeline, failures, timeout=60.0)
    moment = order.start(compute, words)       # behind what was started on any queue
    order.come_after(other)                    # the next piece waits for another device, too
    order.wait(moment)

A queue does its own work in order. So work waits for a signal only where what came before it is on
another queue, or on another device.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from treadle.runtime.hardware.timeline import Moment, Timeline
from treadle.runtime.presence import Presence

__all__ = ["Queue", "Submission", "WorkOrder"]


class Submission(NamedTuple):
    """Words that begin when the signals at `after` are 0, and end by `moment`.

    `timeout` is in seconds, for room in the queue. `is_timed`: the moment gets its times.
    """

    words: array[int]
    moment: Moment
    after: Sequence[int]
    timeout: float
    is_timed: bool = False


class Queue(Protocol):
    """What hands words to an engine. `limit` is how many one submission may have."""

    limit: int

    @property
    def position(self) -> int:
        """How far the queue has been filled: a submission whose words are in moves it."""
        ...

    def submit(self, given: Submission, /) -> None:
        """Starts work."""
        ...

    def finish(self, moment: Moment, /) -> None:
        """Goes on with a submission that was interrupted when its words were in the queue."""
        ...


class WorkOrder:
    """What one device was given, and what that waits for. `timeout` is in seconds."""

    def __init__(self, timeline: Timeline, failures: Presence, timeout: float) -> None:
        self._timeline, self._failures, self._timeout = timeline, failures, timeout
        self._last: Moment | None = None
        self._last_queue: Queue | None = None
        self._foreign: list[tuple[WorkOrder, Moment]] = []  # of other devices, to wait for next
        self._awaited: list[tuple[WorkOrder, Moment]] = []  # that queues wait for

    def start(self, queue: Queue, words: array[int], is_timed: bool = False) -> Moment:
        """Work behind all that was started before; the moment at which it will have ended."""
        timeline = self._timeline
        after = [other._timeline.value_of(moment) for other, moment in self._foreign]
        last = self._last
        if last is not None and self._last_queue is not queue and not timeline.has_passed(last):
            after.append(timeline.value_of(last))
        moment, before = timeline.next(self._timeout), queue.position
        try:
            queue.submit(Submission(words, moment, after, self._timeout, is_timed))
        except BaseException:  # an interrupt: the work is started, or it is not
            if queue.position != before:
                queue.finish(moment)
            raise
        finally:
            if queue.position == before:
                timeline.give_up(moment)
            else:
                self._await_others()
                self._last, self._last_queue = moment, queue
        return moment

    def _await_others(self) -> None:
        """The moments of others are waited for by a queue now."""
        waiting = [pair for pair in self._awaited if not pair[0]._timeline.has_passed(pair[1])]
        self._awaited = waiting + self._foreign
        self._foreign = []

    def come_after(self, other: WorkOrder) -> None:
        """What is started next waits for what another device was given."""
        if other is not self and other._last is not None:
            self._foreign.append((other, other._last))

    def give_up_lost(self) -> None:
        """What waits for a device that is lost goes on."""
        for other, moment in self._awaited:
            if other._failures.lost is not None:
                other._timeline.give_up(moment)

    def wait_for_all(self) -> None:
        """Returns when all that was started has ended, and what others copy. TimeoutError."""
        if self._last is not None:
            self.wait(self._last)
        for other, moment in self._foreign:
            if other._failures.lost is None:
                other.wait(moment)

    def wait(self, moment: Moment) -> None:
        """Returns when a moment has passed. TimeoutError."""
        self._timeline.wait(moment, self._timeout)
