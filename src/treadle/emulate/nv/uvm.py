"""UVM as far as external ranges go: addresses that are given to memory of RM's, for some GPUs.

A range is created, mapped for each GPU, and freed. A GPU takes part when it is registered, with an
address space that is owned from outside of RM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treadle.emulate.machine.memory import Permission
from treadle.emulate.nv import tables
from treadle.emulate.nv.faults import Status
from treadle.runtime.hardware.host_memory import PAGE

if TYPE_CHECKING:
    from treadle.emulate.machine.layout import Given
    from treadle.emulate.machine.memory import AddressSpace
    from treadle.emulate.nv.gpu import EmulatedGPU
    from treadle.emulate.nv.objects import Object
    from treadle.emulate.nv.rm import ResourceManager

__all__ = ["UVM"]

_MEMORY = ("NV01_MEMORY_SYSTEM", "NV01_MEMORY_LOCAL_USER", "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR")
_ACCESS = Permission.READ | Permission.WRITE | Permission.EXECUTE
_READ_ONLY = 3  # UvmGpuMappingTypeReadOnly
_LAST_ADDRESS = 1 << 47


@dataclass(eq=False)
class _Range:
    """An external range: its addresses, and what is mapped to which address space."""

    nbytes: int
    mapped: list[tuple[AddressSpace, Object]] = field(default_factory=list)


class UVM:
    """The ranges of one process."""

    def __init__(self, rm: ResourceManager) -> None:
        self._rm = rm
        self.is_initialized = False
        self._peers: set[frozenset[bytes]] = set()
        self._ranges: dict[int, _Range] = {}
        self._gpus: dict[bytes, EmulatedGPU] = {}
        self._spaces: dict[bytes, AddressSpace] = {}

    def _gpu(self, uuid: int) -> bytes:
        key = uuid.to_bytes(16, "little")
        if key not in self._gpus:
            raise Status("INVALID_DEVICE", "a GPU that is not registered")
        return key

    def call_register_gpu(self, given: Given) -> None:
        uuid = given["gpu_uuid"].to_bytes(16, "little")
        for gpu in self._rm.gpus:
            if gpu.uuid == uuid:
                self._gpus[uuid] = gpu
                return
        raise Status("INVALID_DEVICE", "there is no such GPU")

    def call_register_gpu_vaspace(self, given: Given) -> None:
        key = self._gpu(given["gpuUuid"])
        one = self._rm.objects.find(given["hClient"], given["hVaSpace"], "FERMI_VASPACE_A")
        if one.gpu is not self._gpus[key]:
            raise Status("INVALID_DEVICE", "the address space of another GPU")
        wanted = tables.number("NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED")
        if not one.flags & wanted:
            raise Status("INVALID_ARGUMENT", "an address space that RM owns")
        assert one.space is not None
        if self._spaces.setdefault(key, one.space) is not one.space:
            raise Status("INVALID_STATE", "the GPU has an address space already")

    def call_register_channel(self, given: Given) -> None:
        key = self._gpu(given["gpuUuid"])
        one = self._rm.objects.find(given["hClient"], given["hChannel"], "CHANNEL")
        if one.gpu is not self._gpus[key] or one.space is not self._spaces.get(key):
            raise Status("INVALID_ARGUMENT", "a channel of another address space")
        assert one.channel is not None
        one.channel.is_registered = True

    def call_enable_peer_access(self, given: Given) -> None:
        pair = frozenset((self._gpu(given["gpuUuidA"]), self._gpu(given["gpuUuidB"])))
        if len(pair) != 2 or pair in self._peers:
            raise Status("INVALID_ARGUMENT", "one GPU twice, or peers already")
        if not self._rm.has_peers:
            raise Status("NOT_SUPPORTED", "no way between the GPUs")
        self._peers.add(pair)

    def call_create_external_range(self, given: Given) -> None:
        base, nbytes = given["base"], given["length"]
        if base % PAGE or nbytes % PAGE or not nbytes or not 0 < base <= _LAST_ADDRESS - nbytes:
            raise Status("INVALID_ADDRESS", f"{nbytes} bytes at {base:#x}")
        for start, one in self._ranges.items():
            if start < base + nbytes and base < start + one.nbytes:
                raise Status("UVM_ADDRESS_IN_USE", f"{base:#x}")
        self._ranges[base] = _Range(nbytes)

    def call_map_external_allocation(self, given: Given) -> None:
        base, nbytes = given["base"], given["length"]
        one = self._ranges.get(base)
        if one is None or nbytes != one.nbytes or given["offset"]:
            raise Status("INVALID_ADDRESS", f"no range of {nbytes} bytes is at {base:#x}")
        memory = self._rm.objects.find(given["hClient"], given["hMemory"], *_MEMORY)
        if memory.memory is None or memory.nbytes < nbytes:
            raise Status("INVALID_LIMIT", f"{nbytes} bytes of {memory.nbytes}")
        count = given["gpuAttributesCount"]
        layout = tables.structure("UvmGpuMappingAttributes", self._rm.release)
        start = given.layout.fields["perGpuAttributes"][0]
        if not 0 < count <= 256:
            raise Status("INVALID_ARGUMENT", "gpuAttributesCount")
        for n in range(count):
            at = start + n * layout.nbytes
            row = given.block[at : at + layout.nbytes]
            key = self._gpu(layout.get(row, "gpuUuid"))
            self._map(one, base, memory, key, layout.get(row, "gpuMappingType"))

    def _map(self, one: _Range, base: int, memory: Object, key: bytes, how: int) -> None:
        space = self._spaces.get(key)
        if space is None:
            raise Status("INVALID_ARGUMENT", "a GPU without a registered address space")
        assert memory.memory is not None
        owner = memory.gpu
        if memory.kind == "NV01_MEMORY_LOCAL_USER" and owner is not self._gpus[key]:
            if owner is None or frozenset((owner.uuid, key)) not in self._peers:
                raise Status("INVALID_DEVICE", "video memory of a GPU that is no peer")
        access = _ACCESS & ~Permission.WRITE if how == _READ_ONLY else _ACCESS
        if self._gpus[key].drops("mapping"):
            return
        try:
            space.map(base, one.nbytes, memory.memory, access)
        except ValueError as error:
            raise Status("UVM_ADDRESS_IN_USE", str(error)) from error
        one.mapped.append((space, memory))
        memory.mapped += 1

    def call_free(self, given: Given) -> None:
        one = self._ranges.pop(given["base"], None)
        if one is None:
            raise Status("INVALID_ADDRESS", f"no range begins at {given['base']:#x}")
        for space, memory in one.mapped:
            space.unmap(given["base"])
            memory.mapped -= 1
