"""What the queues of an emulated AMD GPU have in common: a ring, and packets that wait for memory.

A fault ends all queues of the GPU, and the driver tells the program of it by an event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.machine import queue

if TYPE_CHECKING:
    from treadle.emulate.kfd.chips import Chip
    from treadle.emulate.kfd.dispatch import Execute
    from treadle.emulate.machine.faults import EngineFault
    from treadle.emulate.machine.knowledge import Knowledge
    from treadle.emulate.machine.memory import AddressSpace, MemoryFault

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

    gpu_id: int
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
    """One queue. `ring` tells it of a doorbell. `kind` is what a fault calls it."""

    kind = "queue"

    def __init__(self, gpu: GPU, facts: QueueFacts) -> None:
        self.facts = facts
        # Where the commands of each doorbell begin, and what the host knew when it rang.
        self._submitted: deque[tuple[int, Knowledge]] = deque()
        super().__init__(gpu, f"the {self.kind} at {facts.ring:#x} of GPU {gpu.gpu_id:#x}")

    def fail(self, fault: MemoryFault | EngineFault) -> None:
        """All queues of the GPU end, and the program is told."""
        self.gpu.fail(fault)

    def ring(self, value: int) -> None:
        """The program has stored to the doorbell."""
        raise NotImplementedError

    def submit(self, start: int) -> None:
        """A doorbell was rung for commands from number `start` on."""
        self._submitted.append((start, self.ordering.submitted()))

    def begin(self, read: int) -> bool:
        """The command of that number is about to be done; whether it is a doorbell's first."""
        is_first = False
        while self._submitted and read >= self._submitted[0][0]:
            self.work.stream.hear(self._submitted.popleft()[1])
            is_first = True
        return is_first

    def hear(self, address: int) -> None:
        """What comes next comes after what the signal at an address stands for."""
        self.work.stream.hear(self.gpu.space.heard_at(address))

    def signal(self, address: int, nbytes: int, value: int, *, covers_itself: bool = False) -> None:
        """The work that is being done writes a signal."""
        data = (value & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little")
        self.gpu.space.signal(address, data, covers_itself)

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
                self.hear(address)
                return
            yield False

    def words(self, address: int, count: int) -> list[int]:
        """Words of memory as the engine reads them."""
        data = self.gpu.space.read(address, 4 * count)
        return list(memoryview(data).cast("I"))
