"""Memory that host and GPU share: all is the host's, at the same address for both.

memory.alloc_own(1 << 20)
memory.import_host(pointer, nbytes)      # somebody else's, in place
"""

from __future__ import annotations

from treadle.runtime.hardware.blocks import Block, BlockMemory, Pages
from treadle.runtime.hardware.host_memory import PAGE, round_up
from treadle.runtime.hardware.qcom.abi import ADDRESS_MEMORY, SAME_ADDRESS
from treadle.runtime.hardware.qcom.kgsl import KGSL

__all__ = ["GPUMemory"]

_IMPORTED = -1  # in place of an object's number


class GPUMemory(BlockMemory):
    """Allocates. Failures are KGSLErrors."""

    def __init__(self, kgsl: KGSL) -> None:
        super().__init__(kgsl.platform)
        self._kgsl = kgsl

    def alloc_own(self, nbytes: int) -> Block:
        """Memory that the host's caches do not keep."""
        size = round_up(max(nbytes, 1), PAGE)
        block = Block(
            self, address := self.platform.reserve(size, PAGE), size, Pages(address, size)
        )
        self.collect()
        number = self._kgsl.call("alloc", size=size, flags=SAME_ADDRESS)["id"]
        block.pages.handle = number
        self.platform.map(self._kgsl.fd, size, number * PAGE, address)
        return block

    def alloc_shared(self, nbytes: int) -> Block:
        """The same: the GPU has no memory of its own."""
        return self.alloc_own(nbytes)

    def import_host(self, pointer: int, nbytes: int) -> Block:
        """Memory of this process, where it is; it has to stay as long as the block lives."""
        start = pointer & -PAGE
        size = round_up(pointer + nbytes - start, PAGE)
        block = Block(self, pointer, nbytes, Pages(start, size, _IMPORTED))
        self.collect()
        self.adopt(block, start)
        return block

    def adopt(self, block: Block, start: int) -> None:
        """Gives the GPU pages of this process."""
        self._kgsl.call(
            "map_user", fd=-1, len=block.pages.nbytes, hostptr=start, memtype=ADDRESS_MEMORY,
            flags=SAME_ADDRESS,
        )  # fmt: skip
        block.pages.reach.append(0)

    def free(self, pages: Pages) -> None:
        """Gives pages back to the driver, and those that were made here to the host."""
        if pages.handle != _IMPORTED:
            super().free(pages)
        elif pages.reach:
            self._kgsl.call("unmap_user", gpuaddr=pages.start)

    def let_go(self, pages: Pages) -> None:
        """Gives pages back to the driver."""
        if pages.handle:
            self._kgsl.call("free", id=pages.handle)
