"""Local memory: what work items keep in memory when registers run out, for all of a GPU.

    local.is_enough(256)           # bytes of a work item's stack
    local.grow(256)                # no work may use what there was
    local.commands()               # methods that tell the compute class of it

Each work item has it at the top of a window of generic addresses: its stack begins `STACK_END`
bytes from the window's start, and grows down.
"""

from __future__ import annotations

from treadle.runtime.hardware.blocks import Block
from treadle.runtime.hardware.host_memory import round_up
from treadle.runtime.hardware.nv import methods
from treadle.runtime.hardware.nv.memory import GPUMemory
from treadle.runtime.hardware.nv.objects import Facts

__all__ = ["STACK_END", "LocalMemory"]

STACK_END = 0xFFFDC0
_BEHIND = (1 << 24) - STACK_END  # bytes of each work item that are not its stack
_WARP = 32
_WARP_UNIT, _TPC_UNIT, _UNIT = 0x200, 0x8000, 0x20000


class LocalMemory:
    """The local memory of one device; there is none until a kernel needs some.

    `version` changes with it: launches that were prepared for another are void.
    """

    def __init__(self, facts: Facts, memory: GPUMemory) -> None:
        self._facts, self._memory = facts, memory
        self.block: Block | None = None
        self.version = 0
        self.of_work_item = 0

    def is_enough(self, stack: int) -> bool:
        """Whether all work items can have so many bytes of stack."""
        return stack == 0 or self.of_work_item >= stack + _BEHIND

    def grow(self, stack: int) -> None:
        """Takes more memory. No work may use what there was."""
        of_warp = round_up((stack + _BEHIND) * _WARP, _WARP_UNIT)
        facts = self._facts
        self._of_tpc = round_up(of_warp * facts.warps * facts.sms_per_tpc, _TPC_UNIT)
        self.block = None
        self.block = self._memory.alloc_own(round_up(self._of_tpc * facts.tpcs, _UNIT))
        self.of_work_item = of_warp // _WARP
        self.version += 1

    def commands(self) -> list[int]:
        """Methods that tell the compute class where it is."""
        assert self.block is not None
        return methods.local_memory(self.block.address, self._of_tpc, self._facts.multiprocessors)
