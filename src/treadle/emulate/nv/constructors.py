"""What RM does when an object is made: it checks the parameters, and gives the object its content.

Each method `fill_...` is of one kind of object. What is not as the driver wants it is a Status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.machine.memory import POISON, UNWRITTEN, AddressSpace, MemoryObject
from treadle.emulate.nv import tables
from treadle.emulate.nv.channel import ChannelFacts
from treadle.emulate.nv.faults import Status
from treadle.emulate.nv.group import ChannelGroup
from treadle.runtime.hardware.host_memory import PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.machine.layout import Given
    from treadle.emulate.nv.gpu import EmulatedGPU
    from treadle.emulate.nv.objects import Object, Objects

__all__ = ["Constructors"]

_MULTIPLE = 2  # NV_DEVICE_ALLOCATION_VAMODE_MULTIPLE_VASPACES, the greatest
_PCI, _VIDMEM = 1, 0  # NVOS32_ATTR_LOCATION
_HANDLE_PROVIDED = 0x4000
_NOTIFIER_BYTES, _USERD_BYTES = 16, 512


class Constructors:
    """Fills new objects. `release` is 570, 580 or 590."""

    def __init__(self, objects: Objects, gpus: Sequence[EmulatedGPU], release: int) -> None:
        self._objects, self._gpus, self._release = objects, gpus, release

    def fill(self, client: int, made: Object, given: Given | None) -> None:
        """Gives a new object its content."""
        fill = getattr(self, f"fill_{made.kind.lower()}", None)
        if fill is not None:
            fill(client, made, given)

    def fill_nv01_device_0(self, client: int, made: Object, given: Given) -> None:
        number = given["deviceId"]
        if number >= len(self._gpus) or not self._gpus[number].is_open:
            raise Status("INVALID_DEVICE", f"device {number}, or its file is not registered")
        if given["vaMode"] > _MULTIPLE:
            raise Status("INVALID_ARGUMENT", "vaMode")
        made.gpu = self._gpus[number]

    def fill_nv01_memory_system(self, client: int, made: Object, given: Given) -> None:
        self._fill_memory(client, made, given, _PCI)

    def fill_nv01_memory_local_user(self, client: int, made: Object, given: Given) -> None:
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
        made.memory = MemoryObject(nbytes, POISON if location == _VIDMEM else UNWRITTEN)
        made.nbytes = nbytes

    def fill_fermi_vaspace_a(self, client: int, made: Object, given: Given) -> None:
        assert made.gpu is not None
        made.space, made.flags = AddressSpace(made.gpu.ordering), given["flags"]

    def fill_kepler_channel_group_a(self, client: int, made: Object, given: Given) -> None:
        made.space = self._objects.find(client, given["hVASpace"], "FERMI_VASPACE_A").space
        if given["engineType"] != tables.number("NV2080_ENGINE_TYPE_GRAPHICS"):
            raise Status("INVALID_ARGUMENT", "engineType")
        assert made.gpu is not None
        made.group = ChannelGroup(made.gpu)

    def fill_fermi_context_share_a(self, client: int, made: Object, given: Given) -> None:
        made.space = self._objects.find(client, given["hVASpace"], "FERMI_VASPACE_A").space
        if made.parent is None or made.space is not made.parent.space:
            raise Status("INVALID_ARGUMENT", "another address space than the group's")

    def fill_channel(self, client: int, made: Object, given: Given) -> None:
        gpu, group = made.gpu, made.parent
        assert gpu is not None
        assert group is not None
        assert group.group is not None
        share = self._objects.find(client, given["hContextShare"], "FERMI_CONTEXT_SHARE_A")
        if share.parent is not group:
            raise Status("INVALID_OBJECT_PARENT", "a context share of another group")
        userd = self._objects.find(client, given["hUserdMemory"] & 0xFFFFFFFF)
        notifier = self._objects.find(client, given["hObjectError"])
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
            share.space, group.group, self._release,
        )  # fmt: skip
        made.space, made.channel = share.space, gpu.add_channel(facts)

    def fill_compute(self, client: int, made: Object, given: Given | None) -> None:
        self._bind(made, "compute")

    def fill_copy(self, client: int, made: Object, given: Given | None) -> None:
        self._bind(made, "copy")

    def _bind(self, made: Object, kind: str) -> None:
        assert made.parent is not None
        assert made.parent.channel is not None
        assert made.gpu is not None
        name = made.gpu.chip.compute if kind == "compute" else made.gpu.chip.copy
        made.parent.channel.offer(kind, tables.number(name))

    def fill_gt200_debugger(self, client: int, made: Object, given: Given) -> None:
        debugged = self._objects.find(given["hAppClient"], given["hClass3dObject"], "COMPUTE")
        assert debugged.parent is not None
        assert debugged.parent.channel is not None
        made.group = debugged.parent.channel.facts.group
