"""The driver's calls and their arguments, by the numbers of `msm_kgsl.h`."""

from __future__ import annotations

from treadle.runtime.hardware.structs import Struct

__all__ = [
    "ADDRESS_MEMORY", "CALLS", "COMMAND", "CONTEXT_FLAGS", "DEVICE_INFO", "FOREVER", "IB",
    "INFO_PROPERTY", "SAME_ADDRESS",
]  # fmt: skip

_IOC_TYPE = 9
INFO_PROPERTY = 1
IB = 1  # KGSL_CMDLIST_IB
ADDRESS_MEMORY = 2  # KGSL_USER_MEM_TYPE_ADDR
SAME_ADDRESS = 1 << 28  # KGSL_MEMFLAGS_USE_CPU_MAP: the GPU's address is the host's
FOREVER = 0xFFFFFFFF
# NO_GMEM_ALLOC, PREAMBLE, NO_FAULT_TOLERANCE, priority 8 and preemption in the middle of work.
CONTEXT_FLAGS = 0x2 | 0x10 | 0x200 | 8 << 12 | 2 << 25

DEVICE_INFO = Struct(
    "kgsl_devinfo", device_id="u32", chip_id="u32", mmu_enabled="u32", gmem_gpubaseaddr="u64",
    gpu_id="u32", gmem_sizebytes="u64",
)  # fmt: skip
COMMAND = Struct(
    "kgsl_command_object", offset="u64", gpuaddr="u64", size="u64", flags="u32", id="u32"
)


def _call(number: int, direction: int, layout: Struct) -> tuple[int, Struct]:
    return direction << 30 | layout.nbytes << 16 | _IOC_TYPE << 8 | number, layout


_WRITE, _BOTH = 1, 3
CALLS: dict[str, tuple[int, Struct]] = {
    "getproperty": _call(0x02, _BOTH, Struct("", type="u32", value="u64", sizebytes="u64")),
    "wait": _call(0x07, _WRITE, Struct("", context_id="u32", timestamp="u32", timeout="u32")),
    "create": _call(0x13, _BOTH, Struct("", flags="u32", drawctxt_id="u32")),
    "destroy": _call(0x14, _WRITE, Struct("", drawctxt_id="u32")),
    "map_user": _call(0x15, _BOTH, Struct(
        "", fd="i32", gpuaddr="u64", len="u64", offset="u64", hostptr="u64", memtype="u32",
        flags="u32",
    )),
    "unmap_user": _call(0x21, _WRITE, Struct("", gpuaddr="u64")),
    "alloc": _call(0x45, _BOTH, Struct(
        "", size="u64", flags="u64", va_len="u64", mmapsize="u64", id="u32", metadata_len="u32",
        metadata="u64",
    )),
    "free": _call(0x46, _WRITE, Struct(
        "", flags="u64", priv="u64", id="u32", type="u32", len="u32"
    )),
    "info": _call(0x47, _BOTH, Struct(
        "", gpuaddr="u64", flags="u64", size="u64", va_len="u64", va_addr="u64", id="u32"
    )),
    "command": _call(0x4A, _BOTH, Struct(
        "", flags="u64", cmdlist="u64", cmdsize="u32", numcmds="u32", objlist="u64",
        objsize="u32", numobjs="u32", synclist="u64", syncsize="u32", numsyncs="u32",
        context_id="u32", timestamp="u32",
    )),
}  # fmt: skip
