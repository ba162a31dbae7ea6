"""The kernel driver's calls, as tables of our own: layouts, and what differs between releases.

    abi = abi_of("580.142")                  # DeviceError for a release without a table
    abi.uvm["free"]                          -> its number and the layout of its argument
    abi.parameters["vaspace"].pack(flags=8)

Names of fields are those of NVIDIA's headers: `nvos.h`, `alloc_channel.h`, `nv-ioctl.h`,
`uvm_ioctl.h`, and `class/` and `ctrl/` beside them. The tests compare sizes and offsets with those
that a C compiler finds there, for three releases.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from treadle.errors import DeviceError
from treadle.runtime.hardware.structs import Struct

__all__ = ["ABI", "CARD", "NOTIFICATION", "Call", "Control", "abi_of", "escape", "is_newer"]

_OLDEST, _NEWEST = 570, 590
_MAGIC, _BASE = ord("F"), 200  # NV_IOCTL_MAGIC, NV_IOCTL_BASE
_UUID = ("u8", 16)
_CARDS = 32  # how many cards one call of CARD_INFO tells of

NOTIFICATION = Struct("NvNotification", timeStamp=("u32", 2), info32="u32", info16="u16",
                      status="u16")  # fmt: skip


class Call(NamedTuple):
    """One ioctl: its number and its argument."""

    request: int
    argument: Struct


class Control(NamedTuple):
    """One control call of an RM object: its number and its parameters."""

    command: int
    parameters: Struct


def escape(number: int, argument: Struct) -> Call:
    """A call of /dev/nvidiactl or of a GPU's file: read and written, as `_IOWR('F', number)`."""
    return Call(3 << 30 | argument.nbytes << 16 | _MAGIC << 8 | number, argument)


# -- escapes that no release changed --------------------------------------------------------------

_PCI = Struct(
    "nv_pci_info_t", domain="u32", bus="u8", slot="u8", function="u8", vendor_id="u16",
    device_id="u16",
)  # fmt: skip
CARD = Struct(
    "nv_ioctl_card_info_t", valid="u8", pci_info=_PCI, gpu_id="u32", interrupt_line="u16",
    reg_address="u64", reg_size="u64", fb_address="u64", fb_size="u64", minor_number="u32",
    dev_name=("u8", 10),
)  # fmt: skip
_NVOS02 = Struct(
    "NVOS02_PARAMETERS", hRoot="u32", hObjectParent="u32", hObjectNew="u32", hClass="u32",
    flags="u32", pMemory="u64", limit="u64", status="u32",
)  # fmt: skip
_NVOS33 = Struct(
    "NVOS33_PARAMETERS", hClient="u32", hDevice="u32", hMemory="u32", offset="u64", length="u64",
    pLinearAddress="u64", status="u32", flags="u32",
)  # fmt: skip
_ESCAPES = {
    "alloc_memory": escape(
        0x27, Struct("nv_ioctl_nvos02_parameters_with_fd", params=_NVOS02, fd="i32")
    ),
    "free": escape(
        0x29,
        Struct(
            "NVOS00_PARAMETERS", hRoot="u32", hObjectParent="u32", hObjectOld="u32", status="u32"
        ),
    ),
    "control": escape(
        0x2A,
        Struct(
            "NVOS54_PARAMETERS", hClient="u32", hObject="u32", cmd="u32", flags="u32",
            params="u64", paramsSize="u32", status="u32",
        ),
    ),
    "alloc": escape(
        0x2B,
        Struct(
            "NVOS21_PARAMETERS", hRoot="u32", hObjectParent="u32", hObjectNew="u32", hClass="u32",
            pAllocParms="u64", paramsSize="u32", status="u32",
        ),
    ),
    "map_memory": escape(
        0x4E, Struct("nv_ioctl_nvos33_parameters_with_fd", params=_NVOS33, fd="i32")
    ),
    "card_info": escape(_BASE + 0, Struct("cards", cards=(CARD, _CARDS))),
    "register_fd": escape(_BASE + 1, Struct("nv_ioctl_register_fd_t", ctl_fd="i32")),
    "check_version": escape(
        _BASE + 10,
        Struct("nv_ioctl_rm_api_version_t", cmd="u32", reply="u32", versionString=("u8", 64)),
    ),
}  # fmt: skip


# -- parameters -----------------------------------------------------------------------------------

_GR_INFO = Struct("NV2080_CTRL_GR_INFO", index="u32", data="u32")
_GR_ROUTE = Struct("NV2080_CTRL_GR_ROUTE_INFO", flags="u32", route="u64")
_MEMORY = Struct("NV_MEMORY_DESC_PARAMS", base="u64", size="u64", addressSpace="u32",
                 cacheAttrib="u32")  # fmt: skip
_FAULT = Struct("NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY", faultAddress="u64",
                faultType="u32", accessType="u32")  # fmt: skip
_MAPPING = Struct(
    "UvmGpuMappingAttributes", gpuUuid=_UUID, gpuMappingType="u32", gpuCachingType="u32",
    gpuFormatType="u32", gpuElementBits="u32", gpuCompressionType="u32",
)  # fmt: skip


class ABI:
    """What one release of the driver takes: `major` is the first number of its version.

    `calls` are escapes, `uvm` calls of /dev/nvidia-uvm, `parameters` those of new objects by kind,
    `controls` the control calls.
    """

    def __init__(self, major: int) -> None:
        self.major = major
        self.calls = _ESCAPES | {"map_memory_dma": escape(0x57, self._map_memory_dma())}
        self.parameters = self._parameters()
        self.controls = self._controls()
        self.uvm = self._uvm()

    def _map_memory_dma(self) -> Struct:
        newer = {"flags2": "u32", "kindOverride": "u32"} if self.major >= 580 else {}
        return Struct(
            "NVOS46_PARAMETERS", hClient="u32", hDevice="u32", hDma="u32", hMemory="u32",
            offset="u64", length="u64", flags="u32", **newer, dmaOffset="u64", status="u32",
        )  # fmt: skip

    def _parameters(self) -> dict[str, Struct]:
        newer = {"pasid": "u32"} if self.major >= 580 else {}
        return {
            "device": Struct(
                "NV0080_ALLOC_PARAMETERS", deviceId="u32", hClientShare="u32",
                hTargetClient="u32", hTargetDevice="u32", flags="u32", vaSpaceSize="u64",
                vaStartInternal="u64", vaLimitInternal="u64", vaMode="u32",
            ),
            "subdevice": Struct("NV2080_ALLOC_PARAMETERS", subDeviceId="u32"),
            "virtual": Struct(
                "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS", offset="u64", limit="u64", hVASpace="u32"
            ),
            "vaspace": Struct(
                "NV_VASPACE_ALLOCATION_PARAMETERS", index="u32", flags="u32", vaSize="u64",
                vaStartInternal="u64", vaLimitInternal="u64", bigPageSize="u32", vaBase="u64",
                **newer,
            ),
            "group": Struct(
                "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS", hObjectError="u32",
                hObjectEccError="u32", hVASpace="u32", engineType="u32",
                bIsCallingContextVgpuPlugin="u8",
            ),
            "share": Struct(
                "NV_CTXSHARE_ALLOCATION_PARAMETERS", hVASpace="u32", flags="u32", subctxId="u32"
            ),
            "memory": Struct(
                "NV_MEMORY_ALLOCATION_PARAMS", owner="u32", type="u32", flags="u32", width="u32",
                height="u32", pitch="i32", attr="u32", attr2="u32", format="u32", comprCovg="u32",
                zcullCovg="u32", rangeLo="u64", rangeHi="u64", size="u64", alignment="u64",
                offset="u64", limit="u64", address="u64", ctagOffset="u32", hVASpace="u32",
                internalflags="u32", tag="u32", numaNode="i32",
            ),
            "channel": Struct(
                "NV_CHANNEL_ALLOC_PARAMS", hObjectError="u32", hObjectBuffer="u32",
                gpFifoOffset="u64", gpFifoEntries="u32", flags="u32", hContextShare="u32",
                hVASpace="u32", hUserdMemory=("u32", 8), userdOffset=("u64", 8), engineType="u32",
                cid="u32", subDeviceId="u32", hObjectEccError="u32", instanceMem=_MEMORY,
                userdMem=_MEMORY, ramfcMem=_MEMORY, mthdbufMem=_MEMORY, hPhysChannelGroup="u32",
                internalFlags="u32", errorNotifierMem=_MEMORY, eccErrorNotifierMem=_MEMORY,
                ProcessID="u32", SubProcessID="u32", encryptIv=("u32", 3), decryptIv=("u32", 3),
                hmacNonce=("u32", 8), tpcConfigID="u32",
            ),
            "usermode": Struct("NV_HOPPER_USERMODE_A_PARAMS", bBar1Mapping="u8", bPriv="u8"),
            "debugger": Struct(
                "NV83DE_ALLOC_PARAMETERS", hDebuggerClient_Obsolete="u32", hAppClient="u32",
                hClass3dObject="u32",
            ),
            "gr_info": _GR_INFO,
        }  # fmt: skip

    def _controls(self) -> dict[str, Control]:
        classes = 200 if self.major >= 580 else 100
        newer = {"bSkipEnable": "u8"} if self.major >= 580 else {}
        infos = 128 if self.major >= 580 else 57
        return {
            "id_info": Control(
                0x205,
                Struct(
                    "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS", gpuId="u32", gpuFlags="u32",
                    deviceInstance="u32", subDeviceInstance="u32", sliStatus="u32", boardId="u32",
                    gpuInstance="u32", numaId="i32",
                ),
            ),
            "class_list": Control(
                0x800292,
                Struct(
                    "NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS", numClasses="u32",
                    classList=("u32", classes),
                ),
            ),
            "gid_info": Control(
                0x2080014A,
                Struct(
                    "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS", index="u32", flags="u32", length="u32",
                    data=("u8", 256),
                ),
            ),
            "name": Control(
                0x20800110,
                Struct(
                    "NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS", gpuNameStringFlags="u32",
                    gpuNameString=("u16", 64),
                ),
            ),
            "gr_info": Control(
                0x20801201,
                Struct(
                    "NV2080_CTRL_GR_GET_INFO_PARAMS", grInfoListSize="u32", grInfoList="u64",
                    grRouteInfo=_GR_ROUTE,
                ),
            ),
            "fb_info": Control(
                0x20801303,
                Struct(
                    "NV2080_CTRL_FB_GET_INFO_V2_PARAMS", fbInfoListSize="u32",
                    fbInfoList=(Struct("NV2080_CTRL_FB_INFO", index="u32", data="u32"), infos),
                ),
            ),
            "token": Control(
                0xC36F0108,
                Struct(
                    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS", workSubmitToken="u32"
                ),
            ),
            "schedule": Control(
                0xA06C0101,
                Struct(
                    "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS", bEnable="u8", bSkipSubmit="u8", **newer
                ),
            ),
            "mmu_fault": Control(
                0x83DE0328,
                Struct(
                    "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS", mmuFaultInfoList=(_FAULT, 4),
                    count="u32",
                ),
            ),
        }  # fmt: skip

    def _uvm(self) -> dict[str, Call]:
        length = {"length": "u64"} if self.major < 590 else {}
        return {
            "initialize": Call(
                0x30000001, Struct("UVM_INITIALIZE_PARAMS", flags="u64", rmStatus="u32")
            ),
            "register_gpu_vaspace": Call(
                25,
                Struct(
                    "UVM_REGISTER_GPU_VASPACE_PARAMS", gpuUuid=_UUID, rmCtrlFd="i32",
                    hClient="u32", hVaSpace="u32", rmStatus="u32",
                ),
            ),
            "register_channel": Call(
                27,
                Struct(
                    "UVM_REGISTER_CHANNEL_PARAMS", gpuUuid=_UUID, rmCtrlFd="i32", hClient="u32",
                    hChannel="u32", base="u64", length="u64", rmStatus="u32",
                ),
            ),
            "enable_peer_access": Call(
                29,
                Struct(
                    "UVM_ENABLE_PEER_ACCESS_PARAMS", gpuUuidA=_UUID, gpuUuidB=_UUID,
                    rmStatus="u32",
                ),
            ),
            "map_external_allocation": Call(
                33,
                Struct(
                    "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS", base="u64", length="u64", offset="u64",
                    perGpuAttributes=(_MAPPING, 256), gpuAttributesCount="u64", rmCtrlFd="i32",
                    hClient="u32", hMemory="u32", rmStatus="u32",
                ),
            ),
            "free": Call(34, Struct("UVM_FREE_PARAMS", base="u64", **length, rmStatus="u32")),
            "register_gpu": Call(
                37,
                Struct(
                    "UVM_REGISTER_GPU_PARAMS", gpu_uuid=_UUID, numaEnabled="u8",
                    numaNodeId="i32", rmCtrlFd="i32", hClient="u32", hSmcPartRef="u32",
                    rmStatus="u32",
                ),
            ),
            "create_external_range": Call(
                73,
                Struct(
                    "UVM_CREATE_EXTERNAL_RANGE_PARAMS", base="u64", length="u64", rmStatus="u32"
                ),
            ),
            "mm_initialize": Call(
                75, Struct("UVM_MM_INITIALIZE_PARAMS", uvmFd="i32", rmStatus="u32")
            ),
        }  # fmt: skip


@functools.cache
def _made(major: int) -> ABI:
    return ABI(major)


def abi_of(version: str) -> ABI:
    """The tables of a driver's release. Raises DeviceError for one that is older than all."""
    head = version.partition(".")[0]
    if not head.isdigit() or int(head) < _OLDEST:
        raise DeviceError(
            f"NV: the kernel driver is of release {version or 'unknown'}, and {_OLDEST} or newer "
            "is needed; install a newer NVIDIA driver with open kernel modules"
        )
    return _made(max(one for one in (_OLDEST, 580, _NEWEST) if one <= int(head)))


def is_newer(version: str) -> bool:
    """Whether a driver's release is newer than all of the tables."""
    return int(version.partition(".")[0]) > _NEWEST
