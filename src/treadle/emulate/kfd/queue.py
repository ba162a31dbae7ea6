"""What the queues of an emulated AMD GPU have in common: a ring, and packets that wait for memory.

A fault ends all queues of the GPU, and the driver tells the program of it by an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.machine import queue

if TYPE_CHECKING:
    from treadle.emulate.kfd.chips import Chip
    from treadle.emulate.kfd.dispatch import Execute
    from treadle.emulate.machine.memory import AddressSpace, MemoryFault
    from treadle.emulate.machine.queue import EngineFault

__all__ = ["COMPARISONS", "GPU", "Queue", "QueueFacts"]

# What a wait compares memory with its reference by, by the numbers that both kinds of queue use.
COMPARISONS = {
    0: lambda value, reference: True,
    1: lambda value, reference: value < reference,
    2: lambda value, reference: value <= reference,
    3: lambda value, reference: value == reference,
    4: lambda value, reference: value != reference,
    5: lambda value, reference: value >= reference,
    6: lambda value, reference: value > reference,
}


class GPU(queue.GPU, Protocol):
    """What a queue asks of its GPU, an EmulatedGPU."""

    chip: Chip
    space: AddressSpace
    execute: Execute

    def interrupt(self, event: int) -> None: ...
    def fail(self, fault: MemoryFault | EngineFault) -> None: ...


@dataclass(frozen=True)
class QueueFacts:
    """What the program said when it made the queue. Sizes in bytes."""

    ring: int
    ring_bytes: int
    read_pointer: int
    write_pointer: int


class Queue(queue.Queue[GPU]):
    """One queue. `ring` tells it of a doorbell."""

    def __init__(self, gpu: GPU, facts: QueueFacts) -> None:
        self.facts = facts
        super().__init__(gpu)

    def fail(self, fault: MemoryFault | EngineFault) -> None:
        """All queues of the GPU end, and the program is told."""
        self.gpu.fail(fault)

    def ring(self, value: int) -> None:
        """The program has stored to the doorbell."""
        raise NotImplementedError

    def until(
        self, address: int, nbytes: int, mask: int, reference: int, how: int
    ) -> Iterator[bool]:
        """Waits for memory."""
        if self.gpu.drops("wait"):
            return
        if how not in COMPARISONS:
            raise KernelFault(f"a wait has comparison {how}, which is none")
        while True:
            value = int.from_bytes(self.gpu.space.read(address, nbytes), "little")
            if COMPARISONS[how](value & mask, reference):
                return
            yield False

    def words(self, address: int, count: int) -> list[int]:
        """Words of memory as the engine reads them."""
        data = self.gpu.space.read(address, 4 * count)
        return list(memoryview(data).cast("I"))
