"""What the queues of an emulated GPU have in common: a ring that is read, and work that is done.

A queue is two engines. The front reads packets in order. The back does the work that they start, in
any order that the packets allow. A fault ends all queues of the GPU, and the driver tells the
program of it by an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.machine.memory import MemoryFault
from treadle.emulate.machine.work import Worklist

if TYPE_CHECKING:
    from random import Random

    from treadle.emulate.kfd.chips import Chip
    from treadle.emulate.kfd.dispatch import Execute
    from treadle.emulate.machine.memory import AddressSpace
    from treadle.emulate.machine.scheduler import Engine

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


class GPU(Protocol):
    """What a queue asks of its GPU, an EmulatedGPU."""

    chip: Chip
    space: AddressSpace
    execute: Execute
    is_halted: bool

    @property
    def random(self) -> Random: ...
    def drops(self, kind: str) -> bool: ...
    def clock(self) -> int: ...
    def interrupt(self, event: int) -> None: ...
    def memory_fault(self, fault: MemoryFault) -> None: ...
    def halt(self, why: str) -> None: ...


@dataclass(frozen=True)
class QueueFacts:
    """What the program said when it made the queue. Sizes in bytes."""

    ring: int
    ring_bytes: int
    read_pointer: int
    write_pointer: int


class Queue:
    """One queue. `ring` tells it of a doorbell."""

    def __init__(self, gpu: GPU, facts: QueueFacts) -> None:
        self.gpu, self.facts = gpu, facts
        self.work = Worklist(gpu.random)
        self.engines: list[Engine] = [self._guarded(self.front()), self._guarded(self.back())]

    def ring(self, value: int) -> None:
        """The program has stored to the doorbell."""
        raise NotImplementedError

    def front(self) -> Iterator[bool]:
        """Reads packets."""
        raise NotImplementedError

    def back(self) -> Iterator[bool]:
        """Does what they start."""
        while True:
            yield self.work.do_one()

    def _guarded(self, engine: Iterator[bool]) -> Iterator[bool]:
        """The engine until a fault."""
        try:
            for went_on in engine:
                yield went_on
                if self.gpu.is_halted:
                    return
        except MemoryFault as fault:
            self.gpu.memory_fault(fault)
        except KernelFault as fault:
            self.gpu.halt(str(fault))

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
