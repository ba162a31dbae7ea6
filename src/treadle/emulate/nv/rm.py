"""The resource manager: objects of a client, by handles, each below its parent.

    rm = ResourceManager(gpus, release=580)
    rm.alloc(client, parent, handle, class_number, parameters)
    rm.control(client, handle, command, parameters)

What names an object that is not there, one of another kind, or a parent that has no such children
is refused with the status of the real one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treadle.emulate.machine.memory import POISON, AddressSpace, HostPages, MemoryObject
from treadle.emulate.nv import tables
from treadle.emulate.nv.channel import Channel, ChannelFacts
from treadle.emulate.nv.faults import Status
from treadle.runtime.hardware.host_memory import PAGE

if TYPE_CHECKING:
    from treadle.emulate.machine.layout import Layout
    from treadle.emulate.nv.gpu import EmulatedGPU

__all__ = ["Object", "ResourceManager"]

_CLIENTS = 0xC1D00000  # handles of clients begin there
_DOORBELL_BYTES = 0x10000
_MULTIPLE = 2  # NV_DEVICE_ALLOCATION_VAMODE_MULTIPLE_VASPACES, the greatest
_PCI, _VIDMEM = 1, 0  # NVOS32_ATTR_LOCATION
_HANDLE_PROVIDED = 0x4000
_NOTIFIER_BYTES = 16
_ENTRY_BYTES, _USERD_BYTES = 8, 512


@dataclass(eq=False)
class Object:
    """One object. What it holds beside its place in the tree depends on its class."""

    handle: int
    kind: str
    parent: Object | None
    gpu: EmulatedGPU | None
    children: list[Object] = field(default_factory=list)
    memory: MemoryObject | HostPages | None = None
    nbytes: int = 0
    space: AddressSpace | None = None
    flags: int = 0
    channel: Channel | None = None
    mapped: int = 0  # how many ranges of UVM's it is mapped to

    def below(self) -> list[Object]:
        """All that are under it."""
        return [one for child in self.children for one in (child, *child.below())]


# Which class may be below which, by names of classes without what differs between generations.
_PARENTS = {
    "NV01_DEVICE_0": ("NV01_ROOT_CLIENT",),
    "NV20_SUBDEVICE_0": ("NV01_DEVICE_0",),
    "NV01_MEMORY_VIRTUAL": ("NV01_DEVICE_0",),
    "NV01_MEMORY_SYSTEM": ("NV01_DEVICE_0",),
    "NV01_MEMORY_LOCAL_USER": ("NV01_DEVICE_0",),
    "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR": ("NV01_DEVICE_0",),
    "FERMI_VASPACE_A": ("NV01_DEVICE_0",),
    "KEPLER_CHANNEL_GROUP_A": ("NV01_DEVICE_0",),
    "GT200_DEBUGGER": ("NV01_DEVICE_0",),
    "FERMI_CONTEXT_SHARE_A": ("KEPLER_CHANNEL_GROUP_A",),
    "USERMODE": ("NV20_SUBDEVICE_0",),
    "CHANNEL": ("KEPLER_CHANNEL_GROUP_A",),
    "COMPUTE": ("CHANNEL",),
    "COPY": ("CHANNEL",),
}
_PARAMETERS = {
    "NV01_DEVICE_0": "NV0080_ALLOC_PARAMETERS",
    "NV20_SUBDEVICE_0": "NV2080_ALLOC_PARAMETERS",
    "NV01_MEMORY_VIRTUAL": "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS",
    "NV01_MEMORY_SYSTEM": "NV_MEMORY_ALLOCATION_PARAMS",
    "NV01_MEMORY_LOCAL_USER": "NV_MEMORY_ALLOCATION_PARAMS",
    "FERMI_VASPACE_A": "NV_VASPACE_ALLOCATION_PARAMETERS",
    "KEPLER_CHANNEL_GROUP_A": "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS",
    "GT200_DEBUGGER": "NV83DE_ALLOC_PARAMETERS",
    "FERMI_CONTEXT_SHARE_A": "NV_CTXSHARE_ALLOCATION_PARAMETERS",
    "CHANNEL": "NV_CHANNEL_ALLOC_PARAMS",
}


class Given:
    """The parameters of a call, by names."""

    def __init__(self, layout: Layout, block: bytearray) -> None:
        self.layout, self.block = layout, block

    def __getitem__(self, name: str) -> int:
        return self.layout.get(self.block, name)

    def __setitem__(self, name: str, value: int) -> None:
        self.layout.put(self.block, name, value)


class ResourceManager:
    """The objects of one process. `release` is 570, 580 or 590."""

    def __init__(self, gpus: Sequence[EmulatedGPU], release: int) -> None:
        self.gpus, self.release = gpus, release
        self.objects: dict[int, dict[int, Object]] = {}  # of each client
        self._controls: dict[int, tuple[str, str, Callable[[Object, Given], None]]] = {
            tables.number(command): (kind, structure, call)
            for command, kind, structure, call in self._control_table()
        }

    # -- finding ----------------------------------------------------------------------------------

    def find(self, client: int, handle: int, *kinds: str) -> Object:
        """An object of a client, of one of some kinds."""
        if client not in self.objects:
            raise Status("INVALID_CLIENT", f"{client:#x}")
        found = self.objects[client].get(handle)
        if found is None or (kinds and found.kind not in kinds):
            raise Status("INVALID_OBJECT_HANDLE", f"{handle:#x} is no {' or '.join(kinds)}")
        return found

    def _kind(self, gpu: EmulatedGPU | None, number: int) -> str:
        """What a class is called here. INVALID_CLASS for one that the GPU does not offer."""
        if number == tables.number("NV01_DEVICE_0"):
            return "NV01_DEVICE_0"
        if gpu is not None and number in gpu.chip.classes:
            chip = gpu.chip
            own = {
                chip.compute: "COMPUTE", chip.copy: "COPY", chip.channel: "CHANNEL",
                chip.usermode: "USERMODE",
            }  # fmt: skip
            named = {name: name for name in _PARENTS if name not in own.values()} | own
            for name, kind in named.items():
                if tables.number(name) == number:
                    return kind
        raise Status("INVALID_CLASS", f"{number:#x}")

    # -- objects ----------------------------------------------------------------------------------

    def alloc_client(self) -> int:
        """A new client; its handle."""
        handle = _CLIENTS + len(self.objects) + 1
        self.objects[handle] = {handle: Object(handle, "NV01_ROOT_CLIENT", None, None)}
        return handle

    def alloc(self, client: int, parent: int, handle: int, number: int, block: bytearray) -> None:
        """A new object with its parameters."""
        above = self.find(client, parent)
        kind = self._kind(above.gpu, number)
        if above.kind not in _PARENTS[kind]:
            raise Status("INVALID_OBJECT_PARENT", f"{kind} below {above.kind}")
        if handle in self.objects[client] or not handle:
            raise Status("INSERT_DUPLICATE_NAME", f"{handle:#x}")
        made = Object(handle, kind, above, above.gpu)
        self._fill(client, made, self._given(kind, made, block))
        if made.gpu is not None and made.gpu.is_lost:
            raise Status("GPU_IS_LOST")
        above.children.append(made)
        self.objects[client][handle] = made

    def _given(self, kind: str, made: Object, block: bytearray) -> Given | None:
        name = _PARAMETERS.get(kind)
        if kind == "USERMODE" and made.gpu is not None and "AMPERE" not in made.gpu.chip.usermode:
            name = "NV_HOPPER_USERMODE_A_PARAMS"
        if name is None:
            if block:
                raise Status("INVALID_PARAM_STRUCT", f"{kind} takes no parameters")
            return None
        layout = tables.structure(name, self.release)
        if len(block) != layout.nbytes:
            raise Status("INVALID_PARAM_STRUCT", f"{name} of {len(block)} bytes")
        return Given(layout, block)

    def _fill(self, client: int, made: Object, given: Given | None) -> None:
        fill = getattr(self, f"_fill_{made.kind.lower()}", None)
        if fill is not None:
            fill(client, made, given)

    def _fill_nv01_device_0(self, client: int, made: Object, given: Given) -> None:
        number = given["deviceId"]
        if number >= len(self.gpus) or not self.gpus[number].is_open:
            raise Status("INVALID_DEVICE", f"device {number}, or its file is not registered")
        if given["vaMode"] > _MULTIPLE:
            raise Status("INVALID_ARGUMENT", "vaMode")
        made.gpu = self.gpus[number]

    def _fill_nv01_memory_system(self, client: int, made: Object, given: Given) -> None:
        self._fill_memory(client, made, given, _PCI)

    def _fill_nv01_memory_local_user(self, client: int, made: Object, given: Given) -> None:
        self._fill_memory(client, made, given, _VIDMEM)

    def _fill_memory(self, client: int, made: Object, given: Given, location: int) -> None:
        gpu, nbytes = made.gpu, given["size"]
        assert gpu is not None
        if given["owner"] != client or not given["flags"] & _HANDLE_PROVIDED:
            raise Status("INVALID_ARGUMENT", "owner or flags")
        if given["attr"] >> 25 & 3 != location or nbytes <= 0 or nbytes % PAGE:
            raise Status("INVALID_ARGUMENT", f"{nbytes} bytes")
        if given["limit"] != nbytes - 1:
            raise Status("INVALID_LIMIT")
        if location == _VIDMEM:
            if nbytes > gpu.chip.vram - gpu.used:
                raise Status("NO_MEMORY")
            gpu.used += nbytes
        made.memory = MemoryObject(nbytes, POISON if location == _VIDMEM else 0)
        made.nbytes = nbytes

    def alloc_host_memory(
        self, client: int, parent: int, handle: int, number: int, address: int, limit: int
    ) -> None:
        """Memory that the program has, as an object."""
        above = self.find(client, parent, "NV01_DEVICE_0")
        if number != tables.number("NV01_MEMORY_SYSTEM_OS_DESCRIPTOR"):
            raise Status("INVALID_CLASS", f"{number:#x}")
        if handle in self.objects[client] or not handle:
            raise Status("INSERT_DUPLICATE_NAME", f"{handle:#x}")
        nbytes = limit + 1
        if address % PAGE or nbytes % PAGE:
            raise Status("INVALID_ADDRESS", f"{nbytes} bytes at {address:#x}")
        seen = ctypes.create_string_buffer(nbytes // PAGE)
        if ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), seen):
            raise Status("INVALID_ADDRESS", "no memory of the program")
        made = Object(handle, "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR", above, above.gpu)
        made.memory, made.nbytes = HostPages(address, nbytes), nbytes
        above.children.append(made)
        self.objects[client][handle] = made

    def _fill_fermi_vaspace_a(self, client: int, made: Object, given: Given) -> None:
        made.space, made.flags = AddressSpace(), given["flags"]

    def _fill_kepler_channel_group_a(self, client: int, made: Object, given: Given) -> None:
        made.space = self.find(client, given["hVASpace"], "FERMI_VASPACE_A").space
        if given["engineType"] != tables.number("NV2080_ENGINE_TYPE_GRAPHICS"):
            raise Status("INVALID_ARGUMENT", "engineType")

    def _fill_fermi_context_share_a(self, client: int, made: Object, given: Given) -> None:
        made.space = self.find(client, given["hVASpace"], "FERMI_VASPACE_A").space
        if made.parent is None or made.space is not made.parent.space:
            raise Status("INVALID_ARGUMENT", "another address space than the group's")

    def _fill_channel(self, client: int, made: Object, given: Given) -> None:
        gpu, group = made.gpu, made.parent
        assert gpu is not None
        assert group is not None
        share = self.find(client, given["hContextShare"], "FERMI_CONTEXT_SHARE_A")
        if share.parent is not group:
            raise Status("INVALID_OBJECT_PARENT", "a context share of another group")
        userd = self.find(client, given["hUserdMemory"] & 0xFFFFFFFF)
        notifier = self.find(client, given["hObjectError"])
        at, entries = given["userdOffset"] & (1 << 64) - 1, given["gpFifoEntries"]
        for owner, size in ((userd, at + _USERD_BYTES), (notifier, _NOTIFIER_BYTES)):
            if owner.memory is None or owner.nbytes < size:
                raise Status("INVALID_OBJECT_HANDLE", f"{owner.handle:#x} is no memory for that")
        if at % _USERD_BYTES or entries & entries - 1 or not entries:
            raise Status("INVALID_ARGUMENT", "userdOffset or gpFifoEntries")
        assert userd.memory is not None
        assert notifier.memory is not None
        assert share.space is not None
        facts = ChannelFacts(
            given["gpFifoOffset"], entries, userd.memory.host + at, notifier.memory.host,
            share.space, self.release,
        )  # fmt: skip
        made.space, made.channel = share.space, gpu.add_channel(facts)

    def _fill_compute(self, client: int, made: Object, given: Given | None) -> None:
        self._bind(made, "compute")

    def _fill_copy(self, client: int, made: Object, given: Given | None) -> None:
        self._bind(made, "copy")

    def _bind(self, made: Object, kind: str) -> None:
        assert made.parent is not None
        assert made.parent.channel is not None
        assert made.gpu is not None
        name = made.gpu.chip.compute if kind == "compute" else made.gpu.chip.copy
        made.parent.channel.offer(kind, tables.number(name))

    def _fill_gt200_debugger(self, client: int, made: Object, given: Given) -> None:
        self.find(given["hAppClient"], given["hClass3dObject"], "COMPUTE")

    # -- freeing ----------------------------------------------------------------------------------

    def free(self, client: int, parent: int, handle: int) -> None:
        """An object and all below it are no more."""
        found = self.find(client, handle)
        if found.parent is not self.find(client, parent):
            raise Status("INVALID_OBJECT_PARENT", f"{parent:#x}")
        gone = [found, *found.below()]
        if any(one.mapped for one in gone):
            raise Status("INVALID_STATE", "memory that is still mapped by UVM")
        for one in gone:
            del self.objects[client][one.handle]
            if one.kind == "NV01_MEMORY_LOCAL_USER" and one.gpu is not None:
                one.gpu.used -= one.nbytes
            if one.channel is not None and one.gpu is not None:
                one.gpu.remove_channel(one.channel)
        assert found.parent is not None
        found.parent.children.remove(found)

    # -- control calls ----------------------------------------------------------------------------

    def control(self, client: int, handle: int, command: int, block: bytearray) -> None:
        """A control call of an object."""
        found = self._controls.get(command)
        if found is None:
            raise Status("NOT_SUPPORTED", f"control {command:#x}")
        kind, structure, call = found
        one = self.find(client, handle, kind)
        layout = tables.structure(structure, self.release)
        if len(block) != layout.nbytes:
            raise Status("INVALID_PARAM_STRUCT", f"{structure} of {len(block)} bytes")
        if one.gpu is not None and one.gpu.is_lost:
            raise Status("GPU_IS_LOST")
        call(one, Given(layout, block))

    def _control_table(self) -> list[tuple[str, str, str, Callable[[Object, Given], None]]]:
        return [
            ("NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2", "NV01_ROOT_CLIENT",
             "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS", self._id_info),
            ("NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2", "NV01_DEVICE_0",
             "NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS", self._class_list),
            ("NV2080_CTRL_CMD_GPU_GET_GID_INFO", "NV20_SUBDEVICE_0",
             "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS", self._gid_info),
            ("NV2080_CTRL_CMD_GPU_GET_NAME_STRING", "NV20_SUBDEVICE_0",
             "NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS", self._name),
            ("NV2080_CTRL_CMD_GR_GET_INFO", "NV20_SUBDEVICE_0",
             "NV2080_CTRL_GR_GET_INFO_PARAMS", self._gr_info),
            ("NV2080_CTRL_CMD_FB_GET_INFO_V2", "NV20_SUBDEVICE_0",
             "NV2080_CTRL_FB_GET_INFO_V2_PARAMS", self._fb_info),
            ("NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN", "CHANNEL",
             "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS", self._token),
            ("NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", "KEPLER_CHANNEL_GROUP_A",
             "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS", self._schedule),
            ("NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO", "GT200_DEBUGGER",
             "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS", self._mmu_fault),
        ]  # fmt: skip

    def _id_info(self, one: Object, given: Given) -> None:
        for number, gpu in enumerate(self.gpus):
            if gpu.gpu_id == given["gpuId"]:
                given["deviceInstance"] = number
                return
        raise Status("INVALID_ARGUMENT", "there is no such GPU")

    def _class_list(self, one: Object, given: Given) -> None:
        assert one.gpu is not None
        start, nbytes = given.layout.fields["classList"]
        offered = one.gpu.chip.classes
        for n, number in enumerate(offered[: nbytes // 4]):
            given.block[start + 4 * n : start + 4 * n + 4] = number.to_bytes(4, "little")
        given["numClasses"] = len(offered)

    def _gid_info(self, one: Object, given: Given) -> None:
        assert one.gpu is not None
        if given["flags"] != 2:
            raise Status("NOT_SUPPORTED", "text forms are not emulated")
        at = given.layout.fields["data"][0]
        given.block[at : at + 16] = one.gpu.uuid
        given["length"] = 16

    def _name(self, one: Object, given: Given) -> None:
        assert one.gpu is not None
        at = given.layout.fields["gpuNameString"][0]
        text = one.gpu.chip.name.encode()
        given.block[at : at + len(text)] = text

    def _gr_info(self, one: Object, given: Given) -> None:
        assert one.gpu is not None
        chip, index = one.gpu.chip, "NV2080_CTRL_GR_INFO_INDEX_"
        told = {
            "SM_VERSION": chip.sm_version, "MAX_WARPS_PER_SM": chip.warps,
            "LITTER_NUM_GPCS": chip.gpcs, "LITTER_NUM_TPC_PER_GPC": chip.tpcs,
            "LITTER_NUM_SM_PER_TPC": 2,
        }  # fmt: skip
        numbers = {tables.number(index + name): value for name, value in told.items()}
        layout = tables.structure("NV2080_CTRL_GR_INFO", self.release)
        at, nbytes = given["grInfoList"], layout.nbytes
        for _ in range(given["grInfoListSize"]):
            row = bytearray(ctypes.string_at(at, nbytes))
            asked = layout.get(row, "index")
            if asked not in numbers:
                raise Status("NOT_SUPPORTED", f"graphics information {asked:#x}")
            layout.put(row, "data", numbers[asked])
            ctypes.memmove(at, bytes(row), nbytes)
            at += nbytes

    def _fb_info(self, one: Object, given: Given) -> None:
        assert one.gpu is not None
        start = given.layout.fields["fbInfoList"][0]
        for n in range(given["fbInfoListSize"]):
            at = start + 8 * n
            if int.from_bytes(given.block[at : at + 4], "little") != 9:  # HEAP_SIZE, in KiB
                raise Status("NOT_SUPPORTED", "memory information")
            given.block[at + 4 : at + 8] = (one.gpu.chip.vram >> 10).to_bytes(4, "little")

    def _token(self, one: Object, given: Given) -> None:
        assert one.channel is not None
        given["workSubmitToken"] = one.channel.token

    def _schedule(self, one: Object, given: Given) -> None:
        for child in one.children:
            if child.channel is not None:
                child.channel.is_scheduled = bool(given.block[0])

    def _mmu_fault(self, one: Object, given: Given) -> None:
        assert one.gpu is not None
        if one.gpu.fault_address is not None:
            entry = "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY"
            layout = tables.structure(entry, self.release)
            at = given.layout.fields["mmuFaultInfoList"][0]
            block = memoryview(given.block)[at : at + layout.nbytes]
            layout.put(block, "faultAddress", one.gpu.fault_address)
            given["count"] = 1
