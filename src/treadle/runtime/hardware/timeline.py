"""The order of a device's work, as signals in memory: a row of moments, each with its own.

    moment = timeline.next()          # its signal is 1
    ...                               # the device is told to make it 0 when the work is done
    timeline.wait(moment, 30.0)

A signal that is 0 stands for all before it, too: work is given to the device in order, and whoever
uses several queues lets each wait for the one before. A signal is used again when half of the row
has passed since, so nobody can still be waiting for what it meant before.

Where a signal lies in its slot, and its two timestamps, says a SlotLayout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .platform import Platform

__all__ = ["Moment", "SlotLayout", "Timeline"]

_SPINS = 64  # looks at a signal before the thread sleeps


class SlotLayout(NamedTuple):
    """Where in a slot of `nbytes` the 64 bits of the signal and of its timestamps are."""

    nbytes: int
    value: int
    start: int
    end: int


class Moment(NamedTuple):
    """The end of a piece of work: number `number` of all, with its slot at `address`."""

    number: int
    address: int


class Timeline:
    """The moments of one device, in `count` slots from `address` on.

    `sleep(nanoseconds)` lets the thread sleep until the device has something to tell, or for so
    long; it raises what the device has to complain of.
    """

    def __init__(
        self,
        platform: Platform,
        layout: SlotLayout,
        address: int,
        count: int,
        sleep: Callable[[int], None],
    ) -> None:
        self._platform, self._layout, self._address = platform, layout, address
        self._count, self._sleep = count, sleep
        self._made = 0
        self._passed = 0  # all with a smaller number have happened

    def next(self, timeout: float) -> Moment:
        """A new moment, which has not happened."""
        number = self._made
        oldest = number - self._count // 2
        if oldest >= self._passed:
            self.wait(Moment(oldest, self._slot(oldest)), timeout)
        address = self._slot(number)
        self._platform.store64(address + self._layout.value, 1)
        self._made += 1
        return Moment(number, address)

    def _slot(self, number: int) -> int:
        return self._address + number % self._count * self._layout.nbytes

    def value_of(self, moment: Moment) -> int:
        """The address of its signal."""
        return moment.address + self._layout.value

    def start_of(self, moment: Moment) -> int:
        """The address of the time at which its work began."""
        return moment.address + self._layout.start

    def end_of(self, moment: Moment) -> int:
        """The address of the time at which it happened."""
        return moment.address + self._layout.end

    def has_passed(self, moment: Moment) -> bool:
        """Whether it has happened."""
        if moment.number >= self._passed:
            if self._platform.load64(self.value_of(moment)):
                return False
            self._passed = moment.number + 1
        return True

    def give_up(self, moment: Moment) -> None:
        """Lets a moment pass whose work was never given to the device."""
        self._platform.store64(self.value_of(moment), 0)

    def wait(self, moment: Moment, timeout: float) -> None:
        """Returns when it has happened. TimeoutError when for `timeout` seconds nothing has."""
        for _ in range(_SPINS):
            if self.has_passed(moment):
                return
            self._platform.pause()
        end = self._platform.now() + int(timeout * 1e9)
        while not self.has_passed(moment):
            if self._has_gone_on(moment):  # many pieces of work may be before it
                end = self._platform.now() + int(timeout * 1e9)
            left = end - self._platform.now()
            if left <= 0:
                raise TimeoutError(f"nothing has happened for {timeout:g} seconds")
            self._sleep(left)

    def _has_gone_on(self, moment: Moment) -> bool:
        """Whether something before it has happened that was not known to have."""
        known = self._passed
        while self._passed < moment.number:
            if not self.has_passed(Moment(self._passed, self._slot(self._passed))):
                break
        return self._passed > known

    def times(self, moment: Moment) -> tuple[int, int]:
        """When its work began and ended, in ticks of the device."""
        load = self._platform.load64
        return load(self.start_of(moment)), load(self.end_of(moment))
