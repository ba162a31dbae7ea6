"""Events of /dev/kfd: what a program waits for, and how it hears of faults.

A signal event has a slot of 8 bytes in a page that program and GPU share. The GPU writes the
event's number there and interrupts; the driver takes an interrupt for an event only if its slot is
written, and clears the slot.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from treadle.emulate.kfd import tables
from treadle.emulate.machine.memory import AddressSpace, MemoryFault
from treadle.emulate.machine.platform import refusal

__all__ = ["HW_EXCEPTION", "MEMORY", "SIGNAL", "Events", "Wait"]

SIGNAL, HW_EXCEPTION, MEMORY = 0, 3, 8
_MOST = 4096
_UNSIGNALED = (1 << 64) - 1


@dataclass
class _Event:
    kind: int
    is_reset_by_wait: bool
    is_set: bool = False
    data: bytearray = field(default_factory=lambda: bytearray(32))


class Wait:
    """One who waits for events, for all of them or for any.

    `happened` has the data of those that have happened. `is_broken`: one of them was destroyed.
    """

    def __init__(self, numbers: list[int], wants_all: bool) -> None:
        self.numbers, self.happened = numbers, dict[int, bytes]()
        self.is_broken = False
        self._wants_all = wants_all

    @property
    def is_over(self) -> bool:
        needed = len(set(self.numbers)) if self._wants_all else 1
        return self.is_broken or len(self.happened) >= needed


class Events:
    """The events of one process."""

    def __init__(self) -> None:
        self._events: dict[int, _Event] = {}
        self._page: tuple[AddressSpace, int] | None = None
        self._waits: list[Wait] = []

    def has_page(self) -> bool:
        """Whether the program has given a page for signals."""
        return self._page is not None

    def set_page(self, space: AddressSpace, address: int, nbytes: int) -> None:
        """The page of slots. EINVAL if it is too small, or not mapped to the GPU."""
        try:
            space.write(address, b"\xff" * nbytes)
        except MemoryFault as fault:
            raise refusal(errno.EINVAL, "the event page is not mapped to the GPU") from fault
        if nbytes < 8 * _MOST:
            raise refusal(errno.EINVAL, f"an event page of {nbytes} bytes")
        self._page = space, address

    def create(self, kind: int, is_reset_by_wait: bool) -> int:
        """A new event's number. EINVAL for a kind that a program cannot make."""
        if kind not in (SIGNAL, HW_EXCEPTION, MEMORY):
            raise refusal(errno.EINVAL, f"events of type {kind} are not emulated")
        if kind == SIGNAL and self._page is None:
            raise refusal(errno.EINVAL, "a signal event needs an event page")
        number = next(n for n in range(1, _MOST + 1) if n not in self._events)
        self._events[number] = _Event(kind, is_reset_by_wait)
        return number

    def get(self, number: int) -> _Event:
        """An event. EINVAL if there is none."""
        if number not in self._events:
            raise refusal(errno.EINVAL, f"there is no event {number}")
        return self._events[number]

    def destroy(self, number: int) -> None:
        """The event is no more: waits for it fail."""
        self.get(number)
        del self._events[number]
        for wait in self._waits:
            wait.is_broken |= number in wait.numbers

    def set(self, number: int) -> None:
        """The event happens: all who wait for it hear of it, or else whoever waits next."""
        event = self.get(number)
        waits = [wait for wait in self._waits if number in wait.numbers]
        for wait in waits:
            wait.happened[number] = bytes(event.data)
        event.is_set = not (event.is_reset_by_wait and waits)

    def reset(self, number: int) -> None:
        self.get(number).is_set = False

    def interrupt(self, number: int) -> None:
        """The GPU interrupts for an event."""
        event = self._events.get(number)
        if event is None or event.kind != SIGNAL or self._page is None:
            return
        space, page = self._page
        if space.read64(page + 8 * number) != _UNSIGNALED:
            space.write_past(page + 8 * number, _UNSIGNALED.to_bytes(8, "little"))
            self.set(number)

    def memory_fault(self, gpu_id: int, address: int, reason: str) -> None:
        """All memory events hear of a fault."""
        data = tables.layout("kfd_hsa_memory_exception_data")
        failure = tables.layout("kfd_memory_exception_failure")
        block = bytearray(data.nbytes)
        failure.put(block, "NotPresent", reason == "unmapped")
        failure.put(block, "ReadOnly", reason == "read-only")
        failure.put(block, "NoExecute", reason == "no execute")
        data.put(block, "va", address & -4096)
        data.put(block, "gpu_id", gpu_id)
        self._tell(MEMORY, block)

    def hw_exception(self, gpu_id: int, memory_lost: bool) -> None:
        """All exception events hear that a GPU hangs or was reset."""
        data = tables.layout("kfd_hsa_hw_exception_data")
        block = bytearray(32)
        data.put(block, "memory_lost", memory_lost)
        data.put(block, "gpu_id", gpu_id)
        self._tell(HW_EXCEPTION, block)

    def _tell(self, kind: int, block: bytearray) -> None:
        for number, event in self._events.items():
            if event.kind == kind:
                event.data = block
                self.set(number)

    def wait(self, numbers: list[int], wants_all: bool) -> Wait:
        """Begins to wait: what has happened counts, and is reset where a wait resets it."""
        wait = Wait(numbers, wants_all)
        for number, event in {number: self.get(number) for number in numbers}.items():
            if event.is_set:
                wait.happened[number] = bytes(event.data)
                event.is_set = not event.is_reset_by_wait
        self._waits.append(wait)
        return wait

    def leave(self, wait: Wait) -> None:
        """Ends a wait, however it went."""
        self._waits.remove(wait)
