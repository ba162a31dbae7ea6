"""Memory of one GPU: of its own, of the host's that it reaches, and of somebody else's in the host.

    block = memory.alloc(1 << 20, Where.VRAM)
    block.address                      # the same for the GPU and, where it is mapped, for the host

Addresses come from the host: a piece of this process's address space is reserved, and the driver is
told to use it for the GPU. So no two GPUs, and no two libraries, use one address for two things.
"""

from __future__ import annotations

import enum

from treadle.runtime.hardware.amd.abi import Memory
from treadle.runtime.hardware.amd.discovery import Node
from treadle.runtime.hardware.amd.kfd import KFD
from treadle.runtime.hardware.blocks import Block, BlockMemory, Pages
from treadle.runtime.hardware.host_memory import PAGE, address_of, round_up

__all__ = ["GPUMemory", "Where"]

_LARGE_PAGE = 2 << 20
_ACCESS = Memory.WRITABLE | Memory.EXECUTABLE


class Where(enum.Enum):
    """Kinds of memory: the GPU's own; the host's, cached nowhere; the host's, mapped already."""

    VRAM = Memory.VRAM | Memory.NO_SUBSTITUTE | _ACCESS
    GTT = Memory.GTT | Memory.NO_SUBSTITUTE | Memory.COHERENT | Memory.UNCACHED | _ACCESS
    USERPTR = Memory.USERPTR | Memory.NO_SUBSTITUTE | Memory.COHERENT | _ACCESS


class GPUMemory(BlockMemory):
    """Allocates on one GPU. Failures are KFDErrors."""

    def __init__(self, kfd: KFD, node: Node) -> None:
        super().__init__(kfd.platform)
        self._kfd, self._node = kfd, node
        self._render = kfd.acquire(node)

    def alloc(self, nbytes: int, where: Where) -> Block:
        """Memory with undefined contents; the host sees it if it is the host's."""
        size = round_up(max(nbytes, 1), PAGE)
        alignment = _LARGE_PAGE if size >= _LARGE_PAGE else PAGE
        address = self.platform.reserve(size, alignment)
        return self._made(Block(self, address, size, Pages(address, size)), where, 0)

    def alloc_own(self, nbytes: int) -> Block:
        """Memory of the GPU's own."""
        return self.alloc(nbytes, Where.VRAM)

    def alloc_shared(self, nbytes: int) -> Block:
        """Memory of the host's that both see."""
        return self.alloc(nbytes, Where.GTT)

    def adopt(self, block: Block, start: int) -> None:
        """Gives the GPU pages of this process."""
        self._made(block, Where.USERPTR, start)

    def _made(self, block: Block, where: Where, host: int) -> Block:
        self.collect()
        pages = block.pages
        given = self._kfd.call(
            "alloc_memory_of_gpu",
            va_addr=pages.start,
            size=pages.nbytes,
            mmap_offset=host,
            gpu_id=self._node.gpu_id,
            flags=where.value,
        )
        pages.handle = given["handle"]
        if where is Where.GTT:
            offset = given["mmap_offset"]
            self.platform.map(self._render, pages.nbytes, offset, pages.start)
        self.map_to(block, self._node)
        return block

    def map_to(self, block: Block, node: Node) -> None:
        """Lets a GPU reach the block."""
        if node.gpu_id not in block.pages.reach:
            self._for_gpus("map_memory_to_gpu", block.handle, [node.gpu_id])
            block.pages.reach.append(node.gpu_id)

    def let_go(self, pages: Pages) -> None:
        """Gives pages back to the driver."""
        if pages.reach:
            self._for_gpus("unmap_memory_from_gpu", pages.handle, pages.reach)
        if pages.handle:
            self._kfd.call("free_memory_of_gpu", handle=pages.handle)

    def _for_gpus(self, call: str, handle: int, gpus: list[int]) -> None:
        ids = bytearray(b"".join(gpu.to_bytes(4, "little") for gpu in gpus))
        self._kfd.call(
            call,
            handle=handle,
            device_ids_array_ptr=address_of(ids),
            n_devices=len(gpus),
        )
