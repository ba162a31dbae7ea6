"""Memory of the work items' own, beside their registers: as much as the kernel that has most."""

from __future__ import annotations

from treadle.runtime.hardware.blocks import Block
from treadle.runtime.hardware.host_memory import PAGE, round_up
from treadle.runtime.hardware.qcom import packets
from treadle.runtime.hardware.qcom.memory import GPUMemory

__all__ = ["PrivateMemory"]

_UNIT = 512  # bytes that MEMSIZEPERITEM counts
_ITEMS = 128 * 16  # that a shader processor has at a time


class PrivateMemory:
    """The memory of a GPU with so many shader processors. `version` changes when it moves."""

    def __init__(self, memory: GPUMemory, processors: int) -> None:
        self._memory, self._processors = memory, processors
        self._block: Block | None = None
        self._each = 0  # bytes of one shader processor
        self.version = 0

    def _needed(self, nbytes: int) -> int:
        return round_up(round_up(nbytes, _UNIT) * _ITEMS, PAGE)

    def is_enough(self, nbytes: int) -> bool:
        """Whether each work item has so many bytes."""
        return self._needed(nbytes) <= self._each

    def grow(self, nbytes: int) -> None:
        """More memory; no work may use what there was."""
        self._each = self._needed(nbytes)
        self._block = self._memory.alloc_own(self._each * self._processors)
        self.version += 1

    def registers(self, nbytes: int) -> list[int]:
        """Packets that give each work item so many bytes."""
        if not nbytes or self._block is None:
            return packets.registers(0xA9B6, 0, 0, 0, 0)
        address = self._block.address
        item = round_up(nbytes, _UNIT)
        return [
            *packets.registers(
                0xA9B6, item // _UNIT, address & 0xFFFFFFFF, address >> 32, self._each >> 12
            ),  # SP_CS_PVT_MEM_PARAM, _ADDR, _SIZE
            *packets.registers(0xA9BD, self._each >> 11),  # SP_CS_PVT_MEM_HW_STACK_OFFSET
        ]
