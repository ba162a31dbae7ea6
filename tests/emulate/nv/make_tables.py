"""Makes the emulated NVIDIA driver's tables anew from NVIDIA's published headers.

    python -m tests.emulate.nv.make_tables KERNEL_MODULES GPU_DOC

KERNEL_MODULES has a folder for each release of open-gpu-kernel-modules (570.133.20, 580.142,
590.48.01), GPU_DOC is a checkout of open-gpu-doc. A C compiler finds sizes and offsets.
"""

import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TABLES = Path(__file__).parents[3] / "src/treadle/emulate/nv/tables"
RELEASES = ("570.133.20", "580.142", "590.48.01")
INCLUDES = (
    "nvos.h", "nv-ioctl.h", "nv-unix-nvos-params-wrappers.h", "alloc/alloc_channel.h",
    "class/cl0070.h", "class/cl0080.h", "class/cl2080.h", "class/cl83de.h", "class/clc56f.h",
    "ctrl/ctrl0000/ctrl0000gpu.h", "ctrl/ctrl0080/ctrl0080gpu.h", "ctrl/ctrl2080/ctrl2080gpu.h",
    "ctrl/ctrl2080/ctrl2080gr.h", "ctrl/ctrl2080/ctrl2080fb.h", "ctrl/ctrl83de/ctrl83dedebug.h",
    "ctrl/ctrla06c.h", "ctrl/ctrlc36f.h", "uvm_ioctl.h", "uvm_linux_ioctl.h",
)  # fmt: skip
STRUCTS = {
    "NVOS00_PARAMETERS": "hRoot hObjectParent hObjectOld status",
    "nv_ioctl_nvos02_parameters_with_fd": "params.hRoot params.hObjectParent params.hObjectNew "
    "params.hClass params.flags params.pMemory params.limit params.status fd",
    "NVOS21_PARAMETERS": "hRoot hObjectParent hObjectNew hClass pAllocParms paramsSize status",
    "nv_ioctl_nvos33_parameters_with_fd": "params.hClient params.hDevice params.hMemory "
    "params.offset params.length params.pLinearAddress params.status params.flags fd",
    "NVOS46_PARAMETERS": "hClient hDevice hDma hMemory offset length flags dmaOffset status",
    "NVOS54_PARAMETERS": "hClient hObject cmd flags params paramsSize status",
    "nv_ioctl_card_info_t": "valid pci_info.domain pci_info.bus pci_info.slot pci_info.function "
    "pci_info.vendor_id pci_info.device_id gpu_id minor_number",
    "nv_ioctl_register_fd_t": "ctl_fd",
    "nv_ioctl_rm_api_version_t": "cmd reply versionString",
    "NV0080_ALLOC_PARAMETERS": "deviceId hClientShare hTargetClient hTargetDevice flags "
    "vaSpaceSize vaStartInternal vaLimitInternal vaMode",
    "NV2080_ALLOC_PARAMETERS": "subDeviceId",
    "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS": "offset limit hVASpace",
    "NV_VASPACE_ALLOCATION_PARAMETERS": "index flags vaSize vaStartInternal vaLimitInternal "
    "bigPageSize vaBase",
    "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS": "hObjectError hObjectEccError hVASpace engineType",
    "NV_CTXSHARE_ALLOCATION_PARAMETERS": "hVASpace flags subctxId",
    "NV_MEMORY_ALLOCATION_PARAMS": "owner type flags attr attr2 format size alignment offset limit "
    "hVASpace",
    "NV_CHANNEL_ALLOC_PARAMS": "hObjectError hObjectBuffer gpFifoOffset gpFifoEntries flags "
    "hContextShare hVASpace hUserdMemory userdOffset engineType",
    "NV83DE_ALLOC_PARAMETERS": "hDebuggerClient_Obsolete hAppClient hClass3dObject",
    "NV_HOPPER_USERMODE_A_PARAMS": "bBar1Mapping bPriv",
    "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS": "gpuId gpuFlags deviceInstance subDeviceInstance",
    "NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS": "numClasses classList",
    "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS": "index flags length data",
    "NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS": "gpuNameStringFlags gpuNameString",
    "NV2080_CTRL_GR_GET_INFO_PARAMS": "grInfoListSize grInfoList",
    "NV2080_CTRL_GR_INFO": "index data",
    "NV2080_CTRL_FB_GET_INFO_V2_PARAMS": "fbInfoListSize fbInfoList",
    "NV2080_CTRL_FB_INFO": "index data",
    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS": "workSubmitToken",
    "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS": "bEnable bSkipSubmit",
    "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS": "mmuFaultInfoList count",
    "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY": "faultAddress faultType accessType",
    "Nvc56fControl": "GPGet GPPut",
    "NvNotification": "timeStamp info32 info16 status",
    "UVM_INITIALIZE_PARAMS": "flags rmStatus",
    "UVM_MM_INITIALIZE_PARAMS": "uvmFd rmStatus",
    "UVM_REGISTER_GPU_PARAMS": "gpu_uuid rmCtrlFd hClient hSmcPartRef rmStatus",
    "UVM_REGISTER_GPU_VASPACE_PARAMS": "gpuUuid rmCtrlFd hClient hVaSpace rmStatus",
    "UVM_REGISTER_CHANNEL_PARAMS": "gpuUuid rmCtrlFd hClient hChannel base length rmStatus",
    "UVM_CREATE_EXTERNAL_RANGE_PARAMS": "base length rmStatus",
    "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS": "base length offset perGpuAttributes gpuAttributesCount "
    "rmCtrlFd hClient hMemory rmStatus",
    "UvmGpuMappingAttributes": "gpuUuid gpuMappingType gpuCachingType gpuFormatType gpuElementBits "
    "gpuCompressionType",
    "UVM_FREE_PARAMS": "base rmStatus",
    "UVM_ENABLE_PEER_ACCESS_PARAMS": "gpuUuidA gpuUuidB rmStatus",
}
CONSTANTS = [
    "NV_ESC_RM_ALLOC_MEMORY",
    "NV_ESC_RM_FREE",
    "NV_ESC_RM_CONTROL",
    "NV_ESC_RM_ALLOC",
    "NV_ESC_RM_MAP_MEMORY",
    "NV_ESC_RM_MAP_MEMORY_DMA",
    "NV_ESC_CARD_INFO",
    "NV_ESC_REGISTER_FD",
    "NV_ESC_CHECK_VERSION_STR",
    "NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2",
    "NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2",
    "NV2080_CTRL_CMD_GPU_GET_GID_INFO",
    "NV2080_CTRL_CMD_GPU_GET_NAME_STRING",
    "NV2080_CTRL_CMD_GR_GET_INFO",
    "NV2080_CTRL_CMD_FB_GET_INFO_V2",
    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN",
    "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE",
    "NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO",
    "NV2080_CTRL_GR_INFO_INDEX_SM_VERSION",
    "NV2080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM",
    "NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS",
    "NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC",
    "NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC",
    "NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE",
    "NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE",
    "UVM_INITIALIZE",
    "UVM_MM_INITIALIZE",
    "UVM_REGISTER_GPU",
    "UVM_REGISTER_GPU_VASPACE",
    "UVM_REGISTER_CHANNEL",
    "UVM_CREATE_EXTERNAL_RANGE",
    "UVM_MAP_EXTERNAL_ALLOCATION",
    "UVM_FREE",
    "UVM_ENABLE_PEER_ACCESS",
    "NV01_ROOT_CLIENT",
    "NV01_DEVICE_0",
    "NV20_SUBDEVICE_0",
    "NV01_MEMORY_VIRTUAL",
    "NV01_MEMORY_SYSTEM",
    "NV01_MEMORY_LOCAL_USER",
    "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR",
    "FERMI_VASPACE_A",
    "KEPLER_CHANNEL_GROUP_A",
    "FERMI_CONTEXT_SHARE_A",
    "GT200_DEBUGGER",
    "AMPERE_USERMODE_A",
    "HOPPER_USERMODE_A",
    "BLACKWELL_USERMODE_A",
    "AMPERE_CHANNEL_GPFIFO_A",
    "HOPPER_CHANNEL_GPFIFO_A",
    "BLACKWELL_CHANNEL_GPFIFO_A",
    "AMPERE_COMPUTE_A",
    "AMPERE_COMPUTE_B",
    "ADA_COMPUTE_A",
    "HOPPER_COMPUTE_A",
    "BLACKWELL_COMPUTE_A",
    "BLACKWELL_COMPUTE_B",
    "AMPERE_DMA_COPY_A",
    "AMPERE_DMA_COPY_B",
    "HOPPER_DMA_COPY_A",
    "BLACKWELL_DMA_COPY_A",
    "BLACKWELL_DMA_COPY_B",
    "NV_OK",
    "NV_ERR_GPU_IS_LOST",
    "NV_ERR_INSERT_DUPLICATE_NAME",
    "NV_ERR_INSUFFICIENT_PERMISSIONS",
    "NV_ERR_INVALID_ADDRESS",
    "NV_ERR_INVALID_ARGUMENT",
    "NV_ERR_INVALID_CLASS",
    "NV_ERR_INVALID_CLIENT",
    "NV_ERR_INVALID_DEVICE",
    "NV_ERR_INVALID_LIMIT",
    "NV_ERR_INVALID_OBJECT_HANDLE",
    "NV_ERR_INVALID_OBJECT_PARENT",
    "NV_ERR_INVALID_PARAM_STRUCT",
    "NV_ERR_INVALID_STATE",
    "NV_ERR_NO_MEMORY",
    "NV_ERR_NOT_SUPPORTED",
    "NV_ERR_OBJECT_NOT_FOUND",
    "NV_ERR_UVM_ADDRESS_IN_USE",
    "ROBUST_CHANNEL_GR_EXCEPTION",
    "ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT",
    "ROBUST_CHANNEL_PBDMA_ERROR",
    "ROBUST_CHANNEL_CE0_ERROR",
    "ROBUST_CHANNEL_GR_CLASS_ERROR",
    "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS",
    "NV2080_ENGINE_TYPE_GRAPHICS",
    "NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED",
    "NV_VASPACE_ALLOCATION_FLAGS_ENABLE_PAGE_FAULTING",
]
PLACES = {"compute": "classes/compute", "copy": "classes/dma-copy", "host": "classes/host"}
CLASSES = {
    "compute": ("c6c0", "c7c0", "c9c0", "cbc0", "cdc0", "cec0"),
    "copy": ("c6b5", "c7b5", "c8b5", "c9b5", "cab5"),
}
QMD = {"3.0": ("c9c0", "V03_00"), "4.0": ("cbc0", "V04_00"), "5.0": ("cdc0", "V05_00")}


def abi(release):
    """Sizes and offsets of the structures, and constants, as a C compiler finds them."""
    inc = release / "src/common/sdk/nvidia/inc"
    folders = [inc, release / "src/nvidia/arch/nvalloc/unix/include"]
    folders += [release / "kernel-open/nvidia-uvm", release / "kernel-open/common/inc"]
    lines = ["#include <stddef.h>", "#include <stdio.h>"]
    more = ("nverror.h", "nvstatus.h", "nv_escape.h", "nv-ioctl-numbers.h", "g_allclasses.h",
            "class/cl2080_notification.h")  # fmt: skip
    lines += [f"#include <{name}>" for name in (*INCLUDES, *more)]
    lines += ["#define BIT(n) (1 << (n))", "int main(void) {"]
    for name, fields in STRUCTS.items():
        lines.append(f'printf("S {name} %zu\\n", sizeof({name}));')
        for field in present(release, name, fields.split()):
            lines.append(
                f'printf("F {name} {field} %zu %zu\\n", offsetof({name}, {field}), '
                f"sizeof((({name} *)0)->{field}));"
            )
    for name in CONSTANTS:
        lines.append(f'printf("C {name} %llu\\n", (unsigned long long)({name}));')
    lines += ["return 0; }"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "facts.c"
        source.write_text("\n".join(lines))
        command = ["gcc", "-w", "-o", source.with_suffix(""), source]
        generated = release / "src/nvidia/generated"
        command += [f"-I{one}" for one in (*folders, generated)]
        subprocess.run(command, check=True)
        told = subprocess.run([source.with_suffix("")], check=True, capture_output=True, text=True)
    structs, constants = {}, {}
    for line in told.stdout.splitlines():
        kind, name, *rest = line.split()
        if kind == "S":
            structs[name] = {"size": int(rest[0]), "fields": {}}
        elif kind == "F":
            structs[name]["fields"][rest[0].removeprefix("params.").replace("pci_info.", "")] = [
                int(rest[1]), int(rest[2]),
            ]  # fmt: skip
        else:
            constants[name] = int(rest[0])
    return structs, constants


def present(release, name, fields):
    """Fields that a release has: bSkipSubmit came later than 570."""
    if name == "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS":
        text = (release / "src/common/sdk/nvidia/inc/ctrl/ctrla06c.h").read_text()
        return [one for one in fields if re.search(rf"NvBool\s+{one}\b", text)]
    return fields


def methods(document, kind, number):
    """{method: [name, {field: [low, high]}]} of a class header."""
    text = (document / PLACES[kind] / f"cl{number}.h").read_text()
    prefix = f"NV{number.upper()}_"
    found, fields = {}, {}
    for name, value in re.findall(rf"#define {prefix}(\w+)(?:\(i\))?\s+(\S+)", text):
        if re.fullmatch(r"\(?0x[0-9a-fA-F]+\)?", value) and len(value.strip("()")) in (6, 10):
            fields.setdefault(name, (int(value.strip("()"), 16), {}))
        place = re.fullmatch(r"(\d+):(\d+)", value)
        if place:
            owners = [one for one in fields if name.startswith(one + "_")]
            if owners:
                owner = max(owners, key=len)
                fields[owner][1][name[len(owner) + 1 :]] = [int(place[2]), int(place[1])]
    for name, (at, places) in fields.items():
        if places:
            found[at] = [name, places]
    return found


def qmd(document, number, version):
    """{field: [low, high, step]} in bits; step is how far apart the elements of an array are."""
    text = (document / PLACES["compute"] / f"cl{number}qmd.h").read_text()
    prefix = f"NV{number.upper()}_QMD{version}_"
    start = text.index(f"#define {prefix}")
    end = text.find("(inferred arrays", start)
    found = {}
    for line in text[start : end if end > 0 else None].splitlines():
        one = re.match(rf"#define {prefix}(\w+)(?:\(i\))?\s+MW\((.+):(.+)\)$", line)
        if one:
            high, low = (re.findall(r"\d+", part) for part in one.groups()[1:])
            found[one[1]] = [int(low[0]), int(high[0]), int(high[1]) if len(high) > 1 else 0]
    return found


def main(kernel_modules, document):
    releases = {one.split(".")[0]: abi(kernel_modules / one) for one in RELEASES}
    structs, constants = releases["580"]
    drift = {
        major: {name: one for name, one in found.items() if one != structs[name]}
        for major, (found, _) in releases.items()
        if major != "580"
    }
    for major, (_, others) in releases.items():
        assert others == constants, major
    made = {"structs": structs, "drift": drift, "constants": constants}
    write("rm.json.gz", made)
    write(
        "classes.json.gz",
        {kind: {one: methods(document, kind, one) for one in CLASSES[kind]} for kind in CLASSES}
        | {"host": {"c56f": methods(document, "host", "c56f")}},
    )
    write("qmd.json.gz", {version: qmd(document, *where) for version, where in QMD.items()})


def write(name, table):
    text = json.dumps(table, separators=(",", ":"), sort_keys=True)
    (TABLES / name).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
