"""Memory that host and GPU share: all is the host's, at the same address for both.

memory.alloc_own(1 << 20)
memory.import_host(pointer, nbytes)      # somebody else's, in place

The memory of somebody else is that of the host, or an object of the driver's that this process has,
such as one of Qualcomm's OpenCL. That has an address of the GPU's, which need not be the host's.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.errors import DeviceError
from treadle.runtime.hardware.blocks import Block, BlockMemory, Pages
from treadle.runtime.hardware.host_memory import PAGE, round_up
from treadle.runtime.hardware.qcom.abi import ADDRESS_MEMORY, SAME_ADDRESS
from treadle.runtime.hardware.qcom.failures import KGSLError
from treadle.runtime.hardware.qcom.kgsl import KGSL

__all__ = ["GPUMemory", "host_address"]

_IMPORTED, _MAPPED, _SEEN = -1, -2, -3  # in place of an object's number
# The driver gives out the lowest numbers that are free: behind so many there are no more objects.
_MOST_FREE = 1024


@dataclass(eq=False)
class _ObjectBlock(Block):
    """A part of an object of somebody else's, which the host has at `host`."""

    host: int


def host_address(block: Block) -> int:
    """Where the host has a block."""
    return block.host if isinstance(block, _ObjectBlock) else block.address


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
        """Memory of this process, or an object of it in the driver, where it is.

        It has to stay as long as the block lives. Raises DeviceError for one that is too small,
        and where there is nothing.
        """
        found = self._part_of_object(pointer, nbytes)
        if found is not None:
            return found
        start = pointer & -PAGE
        size = round_up(pointer + nbytes - start, PAGE)
        block = Block(self, pointer, nbytes, Pages(start, size, _IMPORTED))
        self.collect()
        try:
            self.adopt(block, start)
        except KGSLError as error:
            if not error.is_no_memory:
                raise
            raise DeviceError(
                f"QCOM: what begins at {pointer:#x} is neither memory of this process nor in an "
                "object that it has in the driver: pass an address of the host's, or one of the "
                "GPU's, and keep the memory as long as the tensor"
            ) from error
        return block

    def _part_of_object(self, address: int, nbytes: int) -> _ObjectBlock | None:
        """Memory at an address of the GPU's, if it is in an object of this process."""
        number = free = 0
        while free < _MOST_FREE:
            number += 1
            try:
                told = self._kgsl.call("info", id=number)
            except KGSLError as error:
                if not error.is_unknown:
                    raise
                free += 1
                continue
            free = 0
            beside = address - told["gpuaddr"]
            if told["gpuaddr"] and 0 <= beside < told["size"]:
                if beside + nbytes > told["size"]:
                    raise DeviceError(
                        f"QCOM: the memory at {address:#x} ends after {told['size'] - beside} "
                        f"bytes, and {nbytes} are needed"
                    )
                return self._block_of(number, told["va_addr"], told["size"], address, beside)
        return None

    def _block_of(
        self, number: int, seen: int, size: int, address: int, beside: int
    ) -> _ObjectBlock:
        """A part of an object, which the host sees already or is going to see."""
        pages = Pages(seen, round_up(size, PAGE), _SEEN)
        if not seen:
            pages = Pages(self.platform.reserve(pages.nbytes, PAGE), pages.nbytes, _MAPPED)
        block = _ObjectBlock(self, address, size - beside, pages, pages.start + beside)
        self.collect()
        if not seen:
            self.platform.map(self._kgsl.fd, pages.nbytes, number * PAGE, pages.start)
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
        if pages.handle == _MAPPED:
            self.platform.unmap(pages.start, pages.nbytes)
        elif pages.handle not in (_IMPORTED, _SEEN):
            super().free(pages)
        elif pages.reach:
            self._kgsl.call("unmap_user", gpuaddr=pages.start)

    def let_go(self, pages: Pages) -> None:
        """Gives pages back to the driver."""
        if pages.handle:
            self._kgsl.call("free", id=pages.handle)
