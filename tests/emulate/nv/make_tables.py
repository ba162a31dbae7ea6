"""Makes the emulated NVIDIA driver's tables anew from NVIDIA's published headers.

    python -m tests.emulate.nv.make_tables KERNEL_MODULES GPU_DOC

KERNEL_MODULES has a folder for each release of open-gpu-kernel-modules (570.133.20, 580.142,
590.48.01), GPU_DOC is a checkout of open-gpu-doc. Sizes and offsets of all fields are those of a C
compiler, read from its debugging information.
"""

import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

TABLES = Path(__file__).parents[3] / "src/treadle/emulate/nv/tables"
RELEASES = ("570.133.20", "580.142", "590.48.01")
INCLUDES = (
    "nvos.h", "nv-ioctl.h", "nv-unix-nvos-params-wrappers.h", "alloc/alloc_channel.h",
    "class/cl0070.h", "class/cl0080.h", "class/cl2080.h", "class/cl83de.h", "class/clc56f.h",
    "ctrl/ctrl0000/ctrl0000gpu.h", "ctrl/ctrl0080/ctrl0080gpu.h", "ctrl/ctrl2080/ctrl2080gpu.h",
    "ctrl/ctrl2080/ctrl2080gr.h", "ctrl/ctrl2080/ctrl2080fb.h", "ctrl/ctrl83de/ctrl83dedebug.h",
    "ctrl/ctrla06c.h", "ctrl/ctrlc36f.h", "uvm_ioctl.h", "uvm_linux_ioctl.h",
)  # fmt: skip
STRUCTS = (
    "NVOS00_PARAMETERS",
    "nv_ioctl_nvos02_parameters_with_fd",
    "NVOS21_PARAMETERS",
    "nv_ioctl_nvos33_parameters_with_fd",
    "NVOS46_PARAMETERS",
    "NVOS54_PARAMETERS",
    "nv_ioctl_card_info_t",
    "nv_ioctl_register_fd_t",
    "nv_ioctl_rm_api_version_t",
    "NV0080_ALLOC_PARAMETERS",
    "NV2080_ALLOC_PARAMETERS",
    "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS",
    "NV_VASPACE_ALLOCATION_PARAMETERS",
    "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS",
    "NV_CTXSHARE_ALLOCATION_PARAMETERS",
    "NV_MEMORY_ALLOCATION_PARAMS",
    "NV_CHANNEL_ALLOC_PARAMS",
    "NV83DE_ALLOC_PARAMETERS",
    "NV_HOPPER_USERMODE_A_PARAMS",
    "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS",
    "NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS",
    "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS",
    "NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS",
    "NV2080_CTRL_GR_GET_INFO_PARAMS",
    "NV2080_CTRL_GR_INFO",
    "NV2080_CTRL_FB_GET_INFO_V2_PARAMS",
    "NV2080_CTRL_FB_INFO",
    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS",
    "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS",
    "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS",
    "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY",
    "Nvc56fControl",
    "NvNotification",
    "UVM_INITIALIZE_PARAMS",
    "UVM_MM_INITIALIZE_PARAMS",
    "UVM_REGISTER_GPU_PARAMS",
    "UVM_REGISTER_GPU_VASPACE_PARAMS",
    "UVM_REGISTER_CHANNEL_PARAMS",
    "UVM_CREATE_EXTERNAL_RANGE_PARAMS",
    "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS",
    "UvmGpuMappingAttributes",
    "UVM_FREE_PARAMS",
    "UVM_ENABLE_PEER_ACCESS_PARAMS",
    "NVOS02_PARAMETERS",
    "NVOS33_PARAMETERS",
    "nv_pci_info_t",
    "NV_MEMORY_DESC_PARAMS",
    "NV2080_CTRL_GR_ROUTE_INFO",
)
# Structures of which the emulator knows the fields of one member by their own names.
FLATTENED = {
    "nv_ioctl_nvos02_parameters_with_fd": "params", "nv_ioctl_nvos33_parameters_with_fd": "params",
    "nv_ioctl_card_info_t": "pci_info",
}  # fmt: skip
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
    folders += [release / "src/nvidia/generated"]
    lines = ["#include <stdio.h>"]
    more = ("nverror.h", "nvstatus.h", "nv_escape.h", "nv-ioctl-numbers.h", "g_allclasses.h",
            "class/cl2080_notification.h")  # fmt: skip
    lines += [f"#include <{name}>" for name in (*INCLUDES, *more)]
    lines += [f"{name} of_{number};" for number, name in enumerate(STRUCTS)]
    lines += ["#define BIT(n) (1 << (n))", "int main(void) {"]
    for name in CONSTANTS:
        lines.append(f'printf("{name} %llu\\n", (unsigned long long)({name}));')
    lines += ["return 0; }"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "facts.c", Path(folder) / "facts"
        source.write_text("\n".join(lines))
        includes = [f"-I{one}" for one in folders]
        subprocess.run(["gcc", "-w", "-g", "-o", program, source, *includes], check=True)
        told = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        types = debugging_information(program)
    constants = {name: int(value) for name, value in (line.split() for line in told.splitlines())}
    structs = {}
    for number, name in enumerate(STRUCTS):
        structs[name] = layout(types, f"of_{number}", FLATTENED.get(name))
    return structs, constants


class Entry(NamedTuple):
    """An entry of debugging information: what it is, its attributes, and what is inside of it."""

    tag: str
    attributes: dict
    children: list


def debugging_information(program):
    """All entries by their places, and variables by their names."""
    command = ["readelf", "--debug-dump=info", "-W", program]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found, above = {}, {}
    for line in text.splitlines():
        if begin := re.match(r" <(\d+)><(\w+)>: Abbrev Number: \d+ \((\w+)\)", line):
            entry = Entry(begin[3], {}, [])
            found[begin[2]] = above[int(begin[1])] = entry
            if begin[1] != "0":
                above[int(begin[1]) - 1].children.append(entry)
        elif one := re.match(r"\s+<\w+>\s+(DW_AT_\w+)\s*:\s*(.*)", line):
            value = re.sub(r"^(\([^)]*\):?\s*)+", "", one[2]).strip()  # but for the form
            entry.attributes[one[1]] = value
            if one[1] == "DW_AT_name" and entry.tag == "DW_TAG_variable":
                found[value] = entry
    return found


def type_of(types, entry):
    """The entry of a type, behind its typedefs."""
    found = types[re.match(r"<0x(\w+)>", entry.attributes["DW_AT_type"])[1]]
    if found.tag in ("DW_TAG_typedef", "DW_TAG_volatile_type", "DW_TAG_const_type"):
        return type_of(types, found)
    return found


def size_of(types, entry):
    """The bytes of a type."""
    if entry.tag != "DW_TAG_array_type":
        return int(entry.attributes["DW_AT_byte_size"])
    count = 1
    for one in entry.children:
        count *= int(one.attributes["DW_AT_upper_bound"]) + 1
    return count * size_of(types, type_of(types, entry))


def layout(types, variable, flattened):
    """The size of a variable's structure, and offset and size of all its fields."""
    whole = type_of(types, types[variable])
    fields = {}
    for member in whole.children:
        if member.tag != "DW_TAG_member":
            continue
        name, kind = member.attributes["DW_AT_name"], type_of(types, member)
        at = int(member.attributes["DW_AT_data_member_location"])
        fields[name] = [at, size_of(types, kind)]
        for inner in kind.children if name == flattened else ():
            offset = at + int(inner.attributes["DW_AT_data_member_location"])
            nbytes = size_of(types, type_of(types, inner))
            fields[inner.attributes["DW_AT_name"]] = [offset, nbytes]
    return {"size": int(whole.attributes["DW_AT_byte_size"]), "fields": fields}


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
