"""One emulated GPU: its page tables, its queues, and what becomes of it after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.kfd.aql import AQLQueue
from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.kfd.pm4 import PM4Queue
from treadle.emulate.kfd.sdma import SDMAQueue
from treadle.emulate.machine.memory import AddressSpace, MemoryFault

if TYPE_CHECKING:
    from random import Random

    from treadle.emulate.kfd.chips import Chip
    from treadle.emulate.kfd.dispatch import Execute
    from treadle.emulate.kfd.events import Events
    from treadle.emulate.kfd.injection import Injection
    from treadle.emulate.kfd.queue import Queue, QueueFacts
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["CLOCK_HZ", "QUEUE_TYPES", "EmulatedGPU"]

CLOCK_HZ = 100_000_000
QUEUE_TYPES: dict[int, type[Queue]] = {0: PM4Queue, 1: SDMAQueue, 2: AQLQueue, 3: SDMAQueue}


class EmulatedGPU:
    """A GPU. `used` counts the bytes of its memory that are allocated.

    `is_halted`: after a fault none of its queues goes on. `is_lost`: the driver refuses all calls.
    """

    def __init__(
        self,
        platform: EmulatedPlatform,
        chip: Chip,
        gpu_id: int,
        minor: int,
        execute: Execute,
        events: Events,
    ) -> None:
        self.chip, self.gpu_id, self.minor, self.execute = chip, gpu_id, minor, execute
        self.space = AddressSpace()
        self.used = 0
        self.is_halted = self.is_lost = False
        self.injection: Injection | None = None
        self._platform, self._events = platform, events
        self._queues: dict[int, Queue] = {}

    @property
    def random(self) -> Random:
        return self._platform.scheduler.random

    def drops(self, kind: str) -> bool:
        """Whether a command is passed over on purpose."""
        return self.injection is not None and self.injection.drops(kind)

    def clock(self) -> int:
        """Ticks of the GPU's clock."""
        return self._platform.now() * CLOCK_HZ // 10**9

    # -- queues -----------------------------------------------------------------------------------

    def add_queue(self, number: int, kind: int, facts: QueueFacts) -> None:
        """A new queue, which runs from now on."""
        queue = QUEUE_TYPES[kind](self, facts)
        self._queues[number] = queue
        for engine in queue.engines:
            self._platform.scheduler.add(engine)

    def remove_queue(self, number: int) -> None:
        """A queue that is destroyed; what it has not done is not done."""
        for engine in self._queues.pop(number).engines:
            self._platform.scheduler.remove(engine)

    def rung(self, number: int, value: int) -> None:
        """A doorbell."""
        if number in self._queues and not self.is_halted:
            try:
                self._queues[number].ring(value)
            except KernelFault as fault:
                self.halt(str(fault))

    # -- faults -----------------------------------------------------------------------------------

    def interrupt(self, event: int) -> None:
        """A queue interrupts the host for an event."""
        self._events.interrupt(event)

    def memory_fault(self, fault: MemoryFault) -> None:
        """A queue or a kernel used an address that it may not."""
        self.is_halted = True
        self._platform.failure = str(fault)
        self._events.memory_fault(self.gpu_id, fault.address, fault.reason)

    def halt(self, why: str) -> None:
        """A queue or a kernel met what it cannot do."""
        self.is_halted = True
        self._platform.failure = why
        self._events.hw_exception(self.gpu_id, memory_lost=False)

    def lose(self) -> None:
        """The GPU falls off the bus, or is reset."""
        self.is_halted = self.is_lost = True
        self._events.hw_exception(self.gpu_id, memory_lost=True)
