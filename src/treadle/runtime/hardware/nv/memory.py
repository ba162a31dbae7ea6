"""Memory of one GPU: of its own, of the host's that it reaches, and of somebody else's in the host.

    memory.alloc_own(1 << 20)          # video memory, which the host does not see
    memory.alloc_shared(4096)          # the host's, at an address of 40 bits that both use

Addresses come from the host, so that no two GPUs and no two libraries use one for two things. An
object of RM's is the memory; UVM maps it to an external range of addresses of the GPU.
"""

from __future__ import annotations

from treadle.runtime.hardware.blocks import Block, BlockMemory, Pages
from treadle.runtime.hardware.host_memory import PAGE, round_up
from treadle.runtime.hardware.nv import classes
from treadle.runtime.hardware.nv.objects import GPUObjects
from treadle.runtime.hardware.nv.rm import CONTROL

__all__ = ["GPUMemory"]

_LARGE_PAGE = 2 << 20

# NVOS32_ALLOC_FLAGS: IGNORE_BANK_PLACEMENT, ALIGNMENT_FORCE, MEMORY_HANDLE_PROVIDED,
# MAP_NOT_REQUIRED, PERSISTENT_VIDMEM.
_FLAGS, _PERSISTENT = 0x0001 | 0x0100 | 0x4000 | 0x8000, 0x10000
_IMAGE, _NOTIFIER = 0, 13  # NVOS32_TYPE
# NVOS32_ATTR: PAGE_SIZE 24:23, LOCATION 26:25, PHYSICALITY 28:27; ATTR2: GPU_CACHEABLE 3:2,
# PAGE_SIZE_HUGE 21:20.
_HUGE, _PCI, _ANYWHERE = 3 << 23, 1 << 25, 3 << 27
_CACHEABLE, _NOT_CACHEABLE, _HUGE_2MB = 1 << 2, 2 << 2, 1 << 20
# NVOS02_FLAGS: PHYSICALITY 7:4 (not contiguous), COHERENCY 15:12 (cached), MAPPING 31:30 (none).
_HOST_FLAGS = 1 << 4 | 1 << 12 | 1 << 30
_READ_WRITE_ATOMIC = 1  # UvmGpuMappingTypeReadWriteAtomic


class GPUMemory(BlockMemory):
    """Allocates on one GPU. Failures are RMErrors."""

    def __init__(self, objects: GPUObjects) -> None:
        super().__init__(objects.rm.platform)
        self._objects, self._rm = objects, objects.rm

    def alloc_own(self, nbytes: int) -> Block:
        """Video memory."""
        is_large = nbytes >= _LARGE_PAGE
        page = _LARGE_PAGE if is_large else PAGE
        size = round_up(max(nbytes, 1), page)
        block = self._block(self.platform.reserve(size, page), size)
        attributes = _ANYWHERE | (_HUGE if is_large else 0)
        more = _CACHEABLE | (_HUGE_2MB if is_large else 0)
        kind, flags = classes.VIDEO_MEMORY, _FLAGS | _PERSISTENT
        return self._made(block, kind, _IMAGE, flags, attributes, more, page)

    def alloc_shared(self, nbytes: int) -> Block:
        """Memory of the host's that both see, cached nowhere."""
        size = round_up(max(nbytes, 1), PAGE)
        block = self._block(self.platform.reserve_low(size, PAGE), size)
        attributes, more = _ANYWHERE | _PCI, _NOT_CACHEABLE
        kind = classes.SYSTEM_MEMORY
        self._made(block, kind, _NOTIFIER, _FLAGS, attributes, more, PAGE)
        pages, device = block.pages, self._objects.device
        self._rm.map_to_host(CONTROL, device, pages.handle, pages.nbytes, pages.start)
        return block

    def adopt(self, block: Block, start: int) -> None:
        """Gives the GPU pages of this process."""
        block.pages.handle = self._rm.alloc_host_memory(
            self._objects.device, classes.HOST_PAGES, _HOST_FLAGS, start, block.pages.nbytes
        )
        self._map(block)

    def _block(self, address: int, size: int) -> Block:
        return Block(self, address, size, Pages(address, size))

    def _made(
        self, block: Block, kind: int, use: int, flags: int, attr: int, attr2: int, page: int
    ) -> Block:
        self.collect()
        size = block.pages.nbytes
        block.pages.handle = self._rm.alloc(
            self._objects.device, kind, "memory", owner=self._rm.client, type=use, flags=flags,
            attr=attr, attr2=attr2, size=size, alignment=page, limit=size - 1,
        )  # fmt: skip
        self._map(block)
        return block

    def _map(self, block: Block) -> None:
        """Gives the block its addresses on its GPU."""
        objects, pages = self._objects, block.pages
        self._rm.uvm("create_external_range", base=pages.start, length=pages.nbytes)
        pages.reach.append(objects.number)
        self._rm.map_to_gpu(
            objects.device, objects.virtual, pages.handle, pages.nbytes, pages.start
        )
        self._map_for(block, [objects])

    def map_to(self, block: Block, other: GPUObjects) -> None:
        """Lets another GPU reach the block, too."""
        if other.number not in block.pages.reach:
            self._map_for(block, [other])
            block.pages.reach.append(other.number)

    def _map_for(self, block: Block, gpus: list[GPUObjects]) -> None:
        self._rm.uvm(
            "map_external_allocation",
            base=block.pages.start,
            length=block.pages.nbytes,
            perGpuAttributes=[
                {"gpuUuid": one.uuid, "gpuMappingType": _READ_WRITE_ATOMIC} for one in gpus
            ],
            gpuAttributesCount=len(gpus),
            rmCtrlFd=self._rm.fd,
            hClient=self._rm.client,
            hMemory=block.pages.handle,
        )

    def let_go(self, pages: Pages) -> None:
        """Gives pages back to the driver."""
        if pages.reach:
            self._rm.uvm_free(pages.start, pages.nbytes)
        if pages.handle:
            self._rm.free(self._objects.device, pages.handle)
