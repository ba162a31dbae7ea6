"""How much memory the driver wants for a compute queue, to save its waves when others have a turn.

The rules are the driver's (`kfd_queue.c`): an area for the registers and local memory of all
compute units of a partition, a stack for control state, and room for a debugger.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.emulate.kfd.chips import Chip
from treadle.runtime.hardware.host_memory import PAGE, round_up

__all__ = ["ContextSave"]

_HEADER = 40
_SCALARS, _LDS, _HARDWARE = 0x4000, 0x10000, 0x1000  # of a compute unit
_LARGE = {"gfx90a": 0x80000, "gfx942": 0x80000, "gfx1100": 0x60000, "gfx1201": 0x60000}
_VECTORS = 0x40000
_DEBUGGER = 32  # of a wave
_MOST_STACK_OF_GFX10 = 0x7000


@dataclass(frozen=True)
class ContextSave:
    """The sizes for one chip, in bytes. `whole` is what all partitions need together."""

    chip: Chip

    @property
    def end_of_pipe(self) -> int:
        return PAGE

    @property
    def _units(self) -> int:
        return self.chip.units // self.chip.partitions

    @property
    def _is_gfx9(self) -> bool:
        return self.chip.family == "gfx9"

    @property
    def _waves(self) -> int:
        if self._is_gfx9:
            engines = self.chip.engines
            return min(self._units * 40, engines * 512)
        return self._units * 32

    @property
    def control_stack(self) -> int:
        each = 8 if self._is_gfx9 else 12
        size = round_up(_HEADER + 8 + self._waves * each, PAGE)
        return min(size, _MOST_STACK_OF_GFX10) if self.chip.arch.startswith("gfx10") else size

    @property
    def area(self) -> int:
        vectors = _LARGE.get(self.chip.arch, _VECTORS)
        units = self._units * (vectors + _SCALARS + _LDS + _HARDWARE)
        return self.control_stack + round_up(units, PAGE)

    @property
    def whole(self) -> int:
        debugger = round_up(self._waves * _DEBUGGER, 64)
        return round_up((self.area + debugger) * self.chip.partitions, PAGE)
