"""Control calls of RM's objects: what they tell of a GPU, and what they set.

Each is found by its number, and is a call of one kind of object with one structure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from treadle.emulate.nv import tables
from treadle.emulate.nv.faults import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treadle.emulate.machine.layout import Given
    from treadle.emulate.machine.platform import ProgramMemory
    from treadle.emulate.nv.gpu import EmulatedGPU
    from treadle.emulate.nv.objects import Object

__all__ = ["Control", "Controls"]


class Control(NamedTuple):
    """One call: the kind of its object, the name of its structure, and what does it."""

    kind: str
    structure: str
    call: Callable[[Object, Given], None]


class Controls:
    """The control calls. `program` is whose memory their pointers lead to."""

    def __init__(self, gpus: Sequence[EmulatedGPU], release: int, program: ProgramMemory) -> None:
        self._gpus, self._release, self._program = gpus, release, program
        self._calls = {
            tables.number(command): Control(kind, structure, call)
            for command, kind, structure, call in self._table()
        }

    def find(self, command: int) -> Control:
        """A call by its number. NOT_SUPPORTED for one that is not emulated."""
        found = self._calls.get(command)
        if found is None:
            raise Status("NOT_SUPPORTED", f"control {command:#x}")
        return found

    def _table(self) -> list[tuple[str, str, str, Callable[[Object, Given], None]]]:
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
        for number, gpu in enumerate(self._gpus):
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
        layout = tables.structure("NV2080_CTRL_GR_INFO", self._release)
        at, nbytes = given["grInfoList"], layout.nbytes
        for _ in range(given["grInfoListSize"]):
            row = bytearray(self._program.read(at, nbytes))
            asked = layout.get(row, "index")
            if asked not in numbers:
                raise Status("NOT_SUPPORTED", f"graphics information {asked:#x}")
            layout.put(row, "data", numbers[asked])
            self._program.write(at, bytes(row))
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
                child.channel.is_scheduled = bool(given["bEnable"])

    def _mmu_fault(self, one: Object, given: Given) -> None:
        assert one.group is not None
        if one.group.fault_address is not None:
            entry = "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY"
            layout = tables.structure(entry, self._release)
            at = given.layout.fields["mmuFaultInfoList"][0]
            block = memoryview(given.block)[at : at + layout.nbytes]
            layout.put(block, "faultAddress", one.group.fault_address)
            given["count"] = 1
