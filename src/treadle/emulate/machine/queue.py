"""What all queues of emulated GPUs have in common: a front that reads, and a back that works.

A queue is two engines. The front reads commands in order. The back does the work that they start,
in any order that the commands allow. A fault ends both, and the GPU tells the program of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from treadle.emulate.machine.faults import EngineFault
from treadle.emulate.machine.memory import MemoryFault
from treadle.emulate.machine.work import Worklist

if TYPE_CHECKING:
    from random import Random

    from treadle.emulate.machine.ordering import Ordering
    from treadle.emulate.machine.scheduler import Engine

__all__ = ["GPU", "Queue"]


class GPU(Protocol):
    """What a queue asks of its GPU, whatever the driver."""

    is_halted: bool

    @property
    def random(self) -> Random: ...
    @property
    def ordering(self) -> Ordering: ...
    def drops(self, kind: str) -> bool: ...
    def changed(self, kind: str, data: bytes) -> bytes: ...
    def clock(self) -> int: ...


G = TypeVar("G", bound=GPU)


class Queue(Generic[G]):
    """One queue of a GPU; `name` is what a fault calls it."""

    has_caches = False  # whether its work has to invalidate some before it reads what others wrote

    def __init__(self, gpu: G, name: str) -> None:
        self.gpu, self.ordering = gpu, gpu.ordering
        self.work = Worklist(gpu.random, self.ordering.stream(name, self.has_caches))
        self.engines: list[Engine] = [self._guarded(self.front()), self._guarded(self.back())]

    @property
    def is_halted(self) -> bool:
        """Whether the queue does nothing more."""
        return self.gpu.is_halted

    def fail(self, fault: MemoryFault | EngineFault) -> None:
        """An engine met what it cannot do."""
        raise NotImplementedError

    def front(self) -> Iterator[bool]:
        """Reads commands."""
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
                if self.is_halted:
                    return
        except (MemoryFault, EngineFault) as fault:
            self.fail(fault)
