"""One emulated GPU: its page tables, its queues, and what becomes of it after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.kfd.aql import AQLQueue
from treadle.emulate.kfd.pm4 import PM4Queue
from treadle.emulate.kfd.sdma import SDMAQueue
from treadle.emulate.machine.faults import EngineFault
from treadle.emulate.machine.gpu import GPU
from treadle.emulate.machine.memory import AddressSpace, MemoryFault

if TYPE_CHECKING:
    from treadle.emulate.kfd.chips import Chip
    from treadle.emulate.kfd.dispatch import Execute
    from treadle.emulate.kfd.events import Events
    from treadle.emulate.kfd.queue import Queue, QueueFacts
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["CLOCK_HZ", "QUEUE_TYPES", "EmulatedGPU"]

CLOCK_HZ = 100_000_000
QUEUE_TYPES: dict[int, type[Queue]] = {0: PM4Queue, 1: SDMAQueue, 2: AQLQueue, 3: SDMAQueue}


class EmulatedGPU(GPU):
    """A GPU, by the number that the driver shows and by that of its render node."""

    def __init__(
        self,
        platform: EmulatedPlatform,
        chip: Chip,
        gpu_id: int,
        minor: int,
        execute: Execute,
        events: Events,
    ) -> None:
        super().__init__(platform)
        self.chip, self.gpu_id, self.minor, self.execute = chip, gpu_id, minor, execute
        self.space = AddressSpace(platform.ordering)
        self._events = events
        self._queues: dict[int, Queue] = {}

    def clock(self) -> int:
        """Ticks of the GPU's clock."""
        return self._platform.now() * CLOCK_HZ // 10**9

    # -- queues -----------------------------------------------------------------------------------

    def add_queue(self, number: int, kind: int, facts: QueueFacts) -> None:
        """A new queue, which runs from now on."""
        queue = QUEUE_TYPES[kind](self, facts)
        self._queues[number] = queue
        self.run(queue.engines)

    def remove_queue(self, number: int) -> None:
        """A queue that is destroyed; what it has not done is not done."""
        queue = self._queues.pop(number)
        queue.work.stream.is_over = True
        self.end(queue.engines)

    def rung(self, number: int, value: int) -> None:
        """A doorbell."""
        if number in self._queues and not self.is_halted:
            try:
                self._queues[number].ring(value)
            except EngineFault as fault:
                self.fail(fault)

    # -- faults -----------------------------------------------------------------------------------

    def interrupt(self, event: int) -> None:
        """A queue interrupts the host for an event."""
        self._events.interrupt(event)

    def fail(self, fault: MemoryFault | EngineFault) -> None:
        """A queue or a kernel used an address that it may not, or met what it cannot do."""
        self._halt()
        self.explain(str(fault))
        if isinstance(fault, MemoryFault):
            self._events.memory_fault(self.gpu_id, fault.address, fault.reason)
        else:
            self._events.hw_exception(self.gpu_id, memory_lost=False)

    def _halt(self) -> None:
        """Nothing that its queues have not done is ever done."""
        self.is_halted = True
        for queue in self._queues.values():
            queue.work.stream.is_over = True

    def lose(self) -> None:
        """The GPU falls off the bus, or is reset."""
        self._halt()
        self.is_lost = True
        self._events.hw_exception(self.gpu_id, memory_lost=True)
