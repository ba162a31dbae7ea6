"""One emulated Adreno GPU: its page tables, its contexts, its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.kgsl.commands import Context
from treadle.emulate.machine.gpu import GPU
from treadle.emulate.machine.memory import AddressSpace

if TYPE_CHECKING:
    from treadle.emulate.kgsl.chips import Chip
    from treadle.emulate.kgsl.dispatch import Execute
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["CLOCK_HZ", "EmulatedGPU"]

CLOCK_HZ = 19_200_000


class EmulatedGPU(GPU):
    """A GPU of a chip. `memory` are the bytes that its objects may take."""

    def __init__(
        self, platform: EmulatedPlatform, chip: Chip, execute: Execute, memory: int
    ) -> None:
        super().__init__(platform)
        self.chip, self.execute, self.memory = chip, execute, memory
        self.space = AddressSpace(platform.ordering)
        self.contexts: dict[int, Context] = {}
        self._numbers = 0

    def clock(self) -> int:
        """Ticks of the counter that is always on."""
        return self._platform.now() * CLOCK_HZ // 10**9

    def add_context(self) -> int:
        """A new context, by its number."""
        self._numbers += 1
        context = self.contexts[self._numbers] = Context(self, self._numbers)
        self.run(context.engines)
        return self._numbers

    def remove_context(self, number: int) -> None:
        """A context that is no more; what it has not done is not done."""
        context = self.contexts.pop(number)
        context.stop()
        self.end(context.engines)

    def lose(self) -> None:
        """The GPU does not come back from a reset."""
        self.is_halted = self.is_lost = True
        for context in self.contexts.values():
            context.stop()
