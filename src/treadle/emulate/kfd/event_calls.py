"""Calls of /dev/kfd about events: they are made, set, and waited for."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from treadle.emulate.kfd import tables
from treadle.emulate.kfd.events import SIGNAL, Events, Wait
from treadle.emulate.machine.layout import Given
from treadle.emulate.machine.platform import refusal

if TYPE_CHECKING:
    from treadle.emulate.kfd.allocations import Allocations
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["EventCalls"]

_EVENTS = 2 << 62  # where the page of events is, if the driver makes it
_NEVER = 0xFFFFFFFF  # a timeout in ms
_COMPLETE, _TIMEOUT, _FAIL = 0, 1, 2  # the result of a wait
_WAIT_EVENTS = tables.layout("kfd_ioctl_wait_events_args")


class EventCalls:
    """The events of one process, whose page is in its memory."""

    def __init__(
        self, platform: EmulatedPlatform, events: Events, allocations: Allocations
    ) -> None:
        self._platform, self._events, self._allocations = platform, events, allocations

    def call_create_event(self, given: Given) -> None:
        page = given["event_page_offset"]
        if page and not self._events.has_page():
            allocation = self._allocations.find(page)
            gpu = allocation.gpu
            self._events.set_page(gpu.space, allocation.start, allocation.nbytes)
        number = self._events.create(given["event_type"], bool(given["auto_reset"]))
        given["event_id"] = given["event_trigger_data"] = number
        if given["event_type"] == SIGNAL:  # by the offset a program knows that it has a slot
            given["event_slot_index"], given["event_page_offset"] = number, _EVENTS

    def call_destroy_event(self, given: Given) -> None:
        self._events.destroy(given["event_id"])

    def call_set_event(self, given: Given) -> None:
        self._events.set(given["event_id"])

    def call_reset_event(self, given: Given) -> None:
        self._events.reset(given["event_id"])

    def call_wait_events(self, given: Given) -> None:
        wait = self._begin(given)
        try:
            if not wait.is_over and given["timeout"]:
                self._platform.run_engines(lambda: self._go_on(wait, given["timeout"]))
        finally:
            self._end(wait, given)

    def begin_wait(self, argument: bytearray) -> Wait:
        """Begins a call of wait_events; `end_wait` ends it, when the wait is over or nobody waits.

        For those who have other things to do meanwhile. The timeout is theirs.
        """
        return self._begin(Given(_WAIT_EVENTS, argument))

    def end_wait(self, wait: Wait, argument: bytearray) -> None:
        self._end(wait, Given(_WAIT_EVENTS, argument))

    def _begin(self, given: Given) -> Wait:
        data, start = tables.layout("kfd_event_data"), given["events_ptr"]
        block = self._platform.program.read(start, given["num_events"] * data.nbytes)
        numbers = [
            data.get(block[at : at + data.nbytes], "event_id")
            for at in range(0, len(block), data.nbytes)
        ]
        return self._events.wait(numbers, bool(given["wait_for_all"]))

    def _end(self, wait: Wait, given: Given) -> None:
        self._events.leave(wait)
        result = _FAIL if wait.is_broken else _COMPLETE if wait.is_over else _TIMEOUT
        given["wait_result"] = result
        nbytes, start = tables.layout("kfd_event_data").nbytes, given["events_ptr"]
        for place, number in enumerate(wait.numbers):
            if result == _COMPLETE and number in wait.happened:
                self._platform.program.write(start + place * nbytes, wait.happened[number])

    def _go_on(self, wait: Wait, timeout: int) -> None:
        """Until the wait is over. Where nothing can happen the clock moves by the timeout."""
        end = self._platform.now() + timeout * 10**6
        while not wait.is_over:
            now = self._platform.now()
            if timeout != _NEVER and now >= end:
                return
            if not self._platform.scheduler.step():
                self._platform.skip(end - now)
                if timeout == _NEVER:
                    raise refusal(errno.EDEADLK, "nothing can happen any more")
