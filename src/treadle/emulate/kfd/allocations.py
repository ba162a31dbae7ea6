"""Calls of /dev/kfd about memory: it is allocated, and mapped to GPUs and to the program."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treadle.emulate.kfd.process import gpu_id_of
from treadle.emulate.machine.memory import POISON, HostPages, MemoryObject, Permission
from treadle.emulate.machine.platform import refusal
from treadle.runtime.hardware.host_memory import PAGE

if TYPE_CHECKING:
    from treadle.emulate.kfd.gpu import EmulatedGPU
    from treadle.emulate.kfd.process import Process
    from treadle.emulate.machine.layout import Given
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["DOORBELLS", "DOORBELL_BYTES", "Allocation", "Allocations"]

# Kinds of memory and permissions, by the bits of kfd_ioctl.h.
_VRAM = 1
_WRITABLE, _EXECUTABLE = 1 << 31, 1 << 30

DOORBELL_BYTES = 0x2000  # of a GPU
DOORBELLS, _REGISTERS = 3 << 62, 0  # where those of a GPU are in /dev/kfd


@dataclass
class Allocation:
    """Memory of one GPU."""

    gpu: EmulatedGPU
    start: int
    nbytes: int
    memory: MemoryObject | HostPages
    flags: int
    mapped: list[EmulatedGPU] = field(default_factory=list)

    @property
    def permissions(self) -> int:
        writes = Permission.WRITE if self.flags & _WRITABLE else 0
        executes = Permission.EXECUTE if self.flags & _EXECUTABLE else 0
        return Permission.READ | writes | executes


class Allocations:
    """The memory of one process. `has_peers` says whether GPUs reach each other's memory."""

    def __init__(self, platform: EmulatedPlatform, process: Process, has_peers: bool) -> None:
        self._platform, self._process, self._has_peers = platform, process, has_peers
        self._allocations: dict[int, Allocation] = {}
        self._doorbells = {gpu.gpu_id: MemoryObject(DOORBELL_BYTES) for gpu in process.gpus}
        self._registers = {gpu.gpu_id: MemoryObject(PAGE) for gpu in process.gpus}

    def call_available_memory(self, given: Given) -> None:
        gpu = self._process.gpu(given["gpu_id"])
        given["available"] = gpu.chip.vram - gpu.used

    def call_alloc_memory_of_gpu(self, given: Given) -> None:
        gpu, nbytes, flags = self._process.own(given["gpu_id"]), given["size"], given["flags"]
        start = given["va_addr"]
        if nbytes == 0 or nbytes % PAGE or start % PAGE or not 1 << 16 <= start < 1 << 47:
            raise refusal(errno.EINVAL, f"{nbytes} bytes at {start:#x}")
        number = self._process.number()
        offset = number << 12 | 1 << 40
        memory: MemoryObject | HostPages
        match flags & 0xFFFF:
            case 1:  # the GPU's own
                if nbytes > gpu.chip.vram - gpu.used:
                    raise refusal(errno.ENOMEM)
                memory = MemoryObject(nbytes, POISON)
                gpu.used += nbytes
            case 2:  # the host's
                memory = MemoryObject(nbytes)
            case 4:  # the program's
                memory = self._user_pages(given["mmap_offset"], nbytes)
            case 8 | 16 as kind:  # doorbells and registers: stores of a GPU to them are not seen
                offset = (DOORBELLS if kind == 8 else _REGISTERS) | gpu.gpu_id << 46
                memory, flags = self.of_driver(nbytes, offset), flags & ~_WRITABLE
            case kind:
                raise refusal(errno.EINVAL, f"memory of kind {kind:#x} is not emulated")
        handle = gpu.gpu_id << 32 | number
        self._allocations[handle] = Allocation(gpu, start, nbytes, memory, flags)
        given["handle"], given["mmap_offset"] = handle, offset

    def _user_pages(self, address: int, nbytes: int) -> HostPages:
        if address % PAGE:
            raise refusal(errno.EINVAL, "memory of the host's that begins inside of a page")
        return self._platform.program.pages(address, nbytes)

    def find(self, handle: int) -> Allocation:
        """What has a handle. EINVAL if nothing has it."""
        if handle not in self._allocations:
            raise refusal(errno.EINVAL, f"there is no memory {handle:#x}")
        return self._allocations[handle]

    def call_free_memory_of_gpu(self, given: Given) -> None:
        allocation = self.find(given["handle"])
        if allocation.mapped:
            raise refusal(errno.EBUSY, "the memory is still mapped to a GPU")
        if allocation.flags & _VRAM:
            allocation.gpu.used -= allocation.nbytes
        del self._allocations[given["handle"]]

    def _targets(self, given: Given) -> list[EmulatedGPU]:
        count = given["n_devices"]
        if count == 0:
            raise refusal(errno.EINVAL)
        data = self._platform.program.read(given["device_ids_array_ptr"], 4 * count)
        return [self._process.own(gpu_id) for gpu_id in memoryview(data).cast("I")]

    def call_map_memory_to_gpu(self, given: Given) -> None:
        allocation = self.find(given["handle"])
        for done, gpu in enumerate(self._targets(given)):
            given["n_success"] = done
            is_peer = gpu is not allocation.gpu and allocation.flags & _VRAM
            if is_peer and not self._has_peers:
                raise refusal(errno.EINVAL, "the GPU does not reach the other's memory")
            if gpu not in allocation.mapped and not gpu.drops("mapping"):
                self._map(allocation, gpu)
            given["n_success"] = done + 1

    def _map(self, allocation: Allocation, gpu: EmulatedGPU) -> None:
        try:
            gpu.space.map(
                allocation.start, allocation.nbytes, allocation.memory, allocation.permissions
            )
        except ValueError as error:
            raise refusal(errno.EINVAL, str(error)) from error
        allocation.mapped.append(gpu)

    def call_unmap_memory_from_gpu(self, given: Given) -> None:
        allocation = self.find(given["handle"])
        for done, gpu in enumerate(self._targets(given), 1):
            if gpu in allocation.mapped:
                gpu.space.unmap(allocation.start)
                allocation.mapped.remove(gpu)
            given["n_success"] = done

    def memory_at(self, gpu: EmulatedGPU, nbytes: int, offset: int) -> MemoryObject:
        """What is mapped from a render node."""
        allocation = self._allocations.get(gpu.gpu_id << 32 | (offset & (1 << 40) - 1) >> 12)
        memory = allocation.memory if allocation is not None and offset >> 40 == 1 else None
        if not isinstance(memory, MemoryObject) or nbytes > memory.nbytes:
            raise refusal(errno.EINVAL)
        return memory

    def of_driver(self, nbytes: int, offset: int) -> MemoryObject:
        """The doorbells or the registers of a GPU, by their place in /dev/kfd."""
        kind = offset >> 62 << 62
        gpu_id = self._process.own(gpu_id_of(offset)).gpu_id
        memory = {DOORBELLS: self._doorbells, _REGISTERS: self._registers}.get(kind, {})
        if offset != kind | gpu_id << 46 or gpu_id not in memory:
            raise refusal(errno.EINVAL)
        if nbytes != memory[gpu_id].nbytes:
            raise refusal(errno.EINVAL)
        return memory[gpu_id]
