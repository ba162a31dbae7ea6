"""The objects that one GPU needs before it can do anything: RM's chain, and what UVM is told.

    objects = GPUObjects(rm, card, number=0, name="NV")
    objects.device, objects.subdevice, objects.space     # numbers of RM's objects
    objects.facts                                        # what the GPU is

client -> device -> subdevice -> usermode (the doorbell), device -> address space -> channel group
-> context share.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from treadle.runtime.hardware.host_memory import PAGE
from treadle.runtime.hardware.nv import classes
from treadle.runtime.hardware.nv.classes import Generation, generation_of
from treadle.runtime.hardware.nv.failures import RMError
from treadle.runtime.hardware.nv.rm import RM, Card

__all__ = ["Facts", "GPUObjects", "opened_objects"]

_OPTIONAL_SPACES = 0  # NV_DEVICE_ALLOCATION_VAMODE_OPTIONAL_MULTIPLE_VASPACES
_EXTERNAL, _FAULTING = 1 << 3, 1 << 6  # NV_VASPACE_ALLOCATION_FLAGS
_GRAPHICS = 1  # NV2080_ENGINE_TYPE_GRAPHICS
_ASYNC = 1  # NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC
_DOORBELL_BYTES = 0x10000  # NVC361_NV_USERMODE__SIZE
_BINARY = 2  # NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY
_ASCII = 0
# NV2080_CTRL_GR_INFO_INDEX and NV2080_CTRL_FB_INFO_INDEX.
_SM_VERSION, _WARPS, _GPCS, _TPCS, _SMS, _HEAP = 0x0C, 0x0D, 0x14, 0x17, 0x20, 0x09


@dataclass(frozen=True)
class Facts:
    """What a GPU is. `memory` in bytes; `tpcs` are groups of `sms_per_tpc` multiprocessors."""

    name: str
    memory: int
    version: int
    warps: int
    tpcs: int
    sms_per_tpc: int

    @property
    def multiprocessors(self) -> int:
        return self.tpcs * self.sms_per_tpc


class GPUObjects:
    """One GPU's objects. `number` is its place among all; `doorbell` the address of 32 bits.

    Raises RMError, and DeviceError for a GPU that treadle does not drive.
    """

    def __init__(self, rm: RM, card: Card, number: int, name: str) -> None:
        self.rm, self.card, self.number = rm, card, number
        self.device = 0
        self._fd = rm.open_card(card)
        try:
            self._learn(card, name)
        except BaseException:
            self.give_up()
            raise

    def _learn(self, card: Card, name: str) -> None:
        rm = self.rm
        instance = rm.control(rm.client, "id_info", gpuId=card.gpu_id)["deviceInstance"]
        self.device = rm.alloc(
            rm.client, classes.DEVICE, "device", deviceId=instance, vaMode=_OPTIONAL_SPACES
        )
        self.subdevice = rm.alloc(self.device, classes.SUBDEVICE, "subdevice", subDeviceId=0)
        self.facts = self._facts()
        offered = rm.control(self.device, "class_list")
        self.generation = generation_of(
            self.facts.version, offered["classList"][: offered["numClasses"]], name
        )
        self.uuid = rm.control(self.subdevice, "gid_info", flags=_BINARY)["data"][:16]

    def _facts(self) -> Facts:
        rm, subdevice = self.rm, self.subdevice
        name = rm.control(subdevice, "name", gpuNameStringFlags=_ASCII)["gpuNameString"]
        text = b"".join(one.to_bytes(2, "little") for one in name).split(b"\0")[0].decode()
        version, warps, gpcs, tpcs, sms = rm.list_control(
            subdevice, "gr_info", rm.abi.parameters["gr_info"], ("grInfoListSize", "grInfoList"),
            [_SM_VERSION, _WARPS, _GPCS, _TPCS, _SMS],
        )  # fmt: skip
        asked = [{"index": _HEAP}]
        told = rm.control(subdevice, "fb_info", fbInfoListSize=1, fbInfoList=asked)
        heap = told["fbInfoList"][0]["data"] << 10
        return Facts(text, heap, version, warps, gpcs * tpcs, sms)

    def open(self) -> None:
        """The objects that work needs, beyond what the GPU is."""
        rm, generation = self.rm, self.generation
        self.virtual = rm.alloc(self.device, classes.VIRTUAL_MEMORY, "virtual", limit=_LIMIT)
        self.doorbell = self._map_doorbell(generation)
        self.space = rm.alloc(self.device, classes.VA_SPACE, "vaspace", flags=_EXTERNAL | _FAULTING)
        client = {"rmCtrlFd": rm.fd, "hClient": rm.client}
        rm.uvm("register_gpu", gpu_uuid=self.uuid, **client)
        rm.uvm("register_gpu_vaspace", gpuUuid=self.uuid, hVaSpace=self.space, **client)
        self.group = rm.alloc(
            self.device, classes.CHANNEL_GROUP, "group", hVASpace=self.space, engineType=_GRAPHICS
        )
        self.share = rm.alloc(
            self.group, classes.CONTEXT_SHARE, "share", hVASpace=self.space, flags=_ASYNC
        )

    def close(self) -> None:
        """All of it is no more."""
        try:
            if self.device:
                self.rm.free(self.rm.client, self.device)
        finally:
            self.rm.close_card(self._fd)

    def give_up(self) -> None:
        """Closes what a failure has left, which the driver may refuse as well."""
        with suppress(RMError):
            self.close()

    def _map_doorbell(self, generation: Generation) -> int:
        rm = self.rm
        layout = "usermode" if generation.has_usermode_parameters else None
        values = {"bBar1Mapping": 1} if layout else {}
        usermode = rm.alloc(self.subdevice, generation.usermode, layout, **values)
        address = rm.platform.reserve(_DOORBELL_BYTES, PAGE)
        rm.map_to_host(self.card.path, self.device, usermode, _DOORBELL_BYTES, address)
        return address + _NOTIFY_CHANNEL_PENDING


_LIMIT = (1 << 48) - 1  # of addresses of the device's own virtual memory
_NOTIFY_CHANNEL_PENDING = 0x90  # NVC361_NOTIFY_CHANNEL_PENDING


def opened_objects(rm: RM, card: Card, number: int, name: str) -> GPUObjects:
    """The objects of a GPU, which all devices of this process share. Raises as GPUObjects."""
    found = rm.opened.get(card.gpu_id)
    if not isinstance(found, GPUObjects):
        found = GPUObjects(rm, card, number, name)
        try:
            found.open()
        except BaseException:
            found.give_up()
            raise
        rm.opened[card.gpu_id] = found
    return found
