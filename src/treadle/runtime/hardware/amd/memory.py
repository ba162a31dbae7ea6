"""Memory of one GPU: of its own, of the host's that it reaches, and of somebody else's in the host.

    block = memory.alloc(1 << 20, Where.VRAM)
    block.address                      # the same for the GPU and, where it is mapped, for the host

Addresses come from the host: a piece of this process's address space is reserved, and the driver is
told to use it for the GPU. So no two GPUs, and no two libraries, use one address for two things.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from treadle.runtime.hardware.amd.abi import Memory
from treadle.runtime.hardware.amd.discovery import Node
from treadle.runtime.hardware.amd.failures import KFDError
from treadle.runtime.hardware.amd.kfd import KFD
from treadle.runtime.hardware.host_memory import PAGE, address_of, round_up

__all__ = ["Block", "GPUMemory", "Where"]

_LARGE_PAGE = 2 << 20
_ACCESS = Memory.WRITABLE | Memory.EXECUTABLE


class Where(enum.Enum):
    """Kinds of memory: the GPU's own; the host's, cached nowhere; the host's, mapped already."""

    VRAM = Memory.VRAM | Memory.NO_SUBSTITUTE | _ACCESS
    GTT = Memory.GTT | Memory.NO_SUBSTITUTE | Memory.COHERENT | Memory.UNCACHED | _ACCESS
    USERPTR = Memory.USERPTR | Memory.NO_SUBSTITUTE | Memory.COHERENT | _ACCESS


@dataclass(eq=False)
class Block:
    """`nbytes` of memory at `address`; `reach` are the GPUs that it is mapped to.

    It is freed when it is collected: whoever holds it last knows that no work uses it.
    """

    memory: GPUMemory
    address: int
    nbytes: int
    reserved: int
    reserved_bytes: int
    handle: int = 0
    reach: list[int] = field(default_factory=list)

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():
            with contextlib.suppress(KFDError):  # of a GPU that is lost, everything is
                self.memory.free(self)


class GPUMemory:
    """Allocates on one GPU. Failures are KFDErrors."""

    def __init__(self, kfd: KFD, node: Node) -> None:
        self._kfd, self._node = kfd, node
        self._render = kfd.acquire(node)

    def alloc(self, nbytes: int, where: Where) -> Block:
        """Memory with undefined contents; the host sees it if it is the host's."""
        size = round_up(max(nbytes, 1), PAGE)
        alignment = _LARGE_PAGE if size >= _LARGE_PAGE else PAGE
        address = self._kfd.platform.reserve(size, alignment)
        return self._made(Block(self, address, size, address, size), where, 0)

    def import_host(self, pointer: int, nbytes: int) -> Block:
        """Memory of this process, for the GPU; it has to stay mapped as long as the block lives."""
        start = pointer & -PAGE
        size = round_up(pointer + nbytes - start, PAGE)
        address = self._kfd.platform.reserve(size, PAGE)
        block = Block(self, address + pointer - start, nbytes, address, size)
        return self._made(block, Where.USERPTR, start)

    def _made(self, block: Block, where: Where, host: int) -> Block:
        given = self._kfd.call(
            "alloc_memory_of_gpu",
            va_addr=block.reserved,
            size=block.reserved_bytes,
            mmap_offset=host,
            gpu_id=self._node.gpu_id,
            flags=where.value,
        )
        block.handle = given["handle"]
        if where is Where.GTT:
            offset = given["mmap_offset"]
            self._kfd.platform.map(self._render, block.reserved_bytes, offset, block.reserved)
        self.map_to(block, self._node)
        return block

    def map_to(self, block: Block, node: Node) -> None:
        """Lets a GPU reach the block."""
        if node.gpu_id not in block.reach:
            self._for_gpus("map_memory_to_gpu", block, [node.gpu_id])
            block.reach.append(node.gpu_id)

    def free(self, block: Block) -> None:
        """Gives a block back, as far as it was made; no work may use it any more."""
        try:
            if block.reach:
                self._for_gpus("unmap_memory_from_gpu", block, block.reach)
            if block.handle:
                self._kfd.call("free_memory_of_gpu", handle=block.handle)
        finally:
            self._kfd.platform.unmap(block.reserved, block.reserved_bytes)

    def _for_gpus(self, call: str, block: Block, gpus: list[int]) -> None:
        ids = bytearray(b"".join(gpu.to_bytes(4, "little") for gpu in gpus))
        self._kfd.call(
            call,
            handle=block.handle,
            device_ids_array_ptr=address_of(ids),
            n_devices=len(gpus),
        )
