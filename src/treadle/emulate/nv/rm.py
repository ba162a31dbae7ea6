"""The resource manager: objects of clients, by handles, each below its parent.

    rm = ResourceManager(gpus, release=580, program=platform.program)
    rm.alloc(client, parent, handle, class_number, parameters)
    rm.control(client, handle, command, parameters)

What names an object that is not there, one of another kind, or a parent that has no such children
is refused with the status of the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.emulate.machine.layout import Given
from treadle.emulate.nv import tables
from treadle.emulate.nv.constructors import Constructors
from treadle.emulate.nv.controls import Controls
from treadle.emulate.nv.faults import Status
from treadle.emulate.nv.objects import Object, Objects
from treadle.runtime.hardware.host_memory import PAGE

if TYPE_CHECKING:
    from treadle.emulate.machine.platform import ProgramMemory
    from treadle.emulate.nv.gpu import EmulatedGPU

__all__ = ["ResourceManager"]

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


class ResourceManager:
    """The objects of all clients. `release` is 570, 580 or 590, `has_peers` says whether GPUs reach
    each other's memory.
    """

    def __init__(self, gpus: Sequence[EmulatedGPU], release: int, program: ProgramMemory) -> None:
        self.gpus, self.release, self._program = gpus, release, program
        self.objects, self.has_peers = Objects(), True
        self._constructors = Constructors(self.objects, gpus, release)
        self._controls = Controls(gpus, release, program)

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

    def alloc(self, client: int, parent: int, handle: int, number: int, block: bytearray) -> None:
        """A new object with its parameters."""
        above = self.objects.find(client, parent)
        kind = self._kind(above.gpu, number)
        if above.kind not in _PARENTS[kind]:
            raise Status("INVALID_OBJECT_PARENT", f"{kind} below {above.kind}")
        self.objects.check_new(client, handle)
        made = Object(handle, kind, above, above.gpu)
        self._constructors.fill(client, made, self._given(kind, made, block))
        if made.gpu is not None and made.gpu.is_lost:
            raise Status("GPU_IS_LOST")
        self.objects.add(client, made)

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

    def alloc_host_memory(
        self, client: int, parent: int, handle: int, number: int, address: int, limit: int
    ) -> None:
        """Memory that the program has, as an object."""
        above = self.objects.find(client, parent, "NV01_DEVICE_0")
        kind, nbytes = "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR", limit + 1
        if number != tables.number(kind):
            raise Status("INVALID_CLASS", f"{number:#x}")
        self.objects.check_new(client, handle)
        if address % PAGE or nbytes % PAGE:
            raise Status("INVALID_ADDRESS", f"{nbytes} bytes at {address:#x}")
        try:
            memory = self._program.pages(address, nbytes)
        except OSError as error:
            raise Status("INVALID_ADDRESS", "no memory of the program") from error
        made = Object(handle, kind, above, above.gpu, memory=memory, nbytes=nbytes)
        self.objects.add(client, made)

    def free(self, client: int, parent: int, handle: int) -> None:
        """An object and all below it are no more."""
        found = self.objects.find(client, handle)
        if found.parent is None or found.parent is not self.objects.find(client, parent):
            raise Status("INVALID_OBJECT_PARENT", f"{parent:#x}")
        if any(one.mapped for one in (found, *found.below())):
            raise Status("INVALID_STATE", "memory that is still mapped by UVM")
        for one in self.objects.remove(client, found):
            if one.kind == "NV01_MEMORY_LOCAL_USER" and one.gpu is not None:
                one.gpu.used -= one.nbytes
            if one.channel is not None and one.gpu is not None:
                one.gpu.remove_channel(one.channel)

    def control(self, client: int, handle: int, command: int, block: bytearray) -> None:
        """A control call of an object."""
        kind, structure, call = self._controls.find(command)
        one = self.objects.find(client, handle, kind)
        layout = tables.structure(structure, self.release)
        if len(block) != layout.nbytes:
            raise Status("INVALID_PARAM_STRUCT", f"{structure} of {len(block)} bytes")
        if one.gpu is not None and one.gpu.is_lost:
            raise Status("GPU_IS_LOST")
        call(one, Given(layout, block))
