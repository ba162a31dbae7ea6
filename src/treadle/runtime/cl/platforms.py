"""Which OpenCL devices there are, what they can do, and the Target that says so.

    find_devices()   ->  [Facts(platform="Portable Computing Language", is_software=True, ...)]

Every device of every platform counts: GPUs and accelerators first, processors last, so that `CL:0`
is the fastest. One surprise: `OCL_ICD_VENDORS` set to something useless hides all platforms.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from treadle.config import settings
from treadle.dtype import DType, dtypes
from treadle.errors import DeviceError, SettingError
from treadle.runtime.cl.driver_cache import take_folder
from treadle.runtime.cl.pocl import UNKNOWN, choose_method, name_processor
from treadle.target import Target, Workgroup, host_target, parse_target

if TYPE_CHECKING:
    from types import ModuleType

    import pyopencl as cl

__all__ = ["Facts", "binding", "describe", "find_devices", "target_of"]

MEND = '`pip install "treadle[cl]"` brings pyopencl and PoCL'
OLDEST = (2, 0)
MAX_LANES = 16  # OpenCL C's widest vector
GPU_LANES = 4  # what a GPU loads at once
# Subgroups pay where a kernel can fix their size. Every device that lets it offers this one.
_SUBGROUPS = frozenset(("cl_intel_subgroups", "cl_intel_required_subgroup_size"))
SUBGROUP = 16


@dataclass(frozen=True)
class Facts:
    """One OpenCL device. `handle` is pyopencl's; sizes are in bytes.

    `is_software`: a processor, not a GPU. `shares_memory`: the host sees its memory in place.
    `has_subgroups`: kernels may say how many work items form one.
    """

    handle: cl.Device
    platform: str
    name: str
    driver: str
    version: tuple[int, int]
    is_software: bool
    shares_memory: bool
    has_half: bool
    has_double: bool
    has_subgroups: bool
    max_image: tuple[int, int] | None
    local_bytes: int
    max_work_items: int
    max_alloc: int
    units: int


@functools.cache
def binding() -> ModuleType:
    """The pyopencl module. Raises DeviceError if it is missing."""
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError(f"CL needs pyopencl, which is missing ({error}); {MEND}") from error
    take_folder(settings.CACHE_DIR if settings.CACHE else "")  # before a driver looks for it
    choose_method()
    return pyopencl


@functools.cache
def find_devices() -> tuple[Facts, ...]:
    """Every usable device, GPUs first. Raises DeviceError, which says why, if there is none."""
    module = binding()
    try:
        platforms = module.get_platforms()
    except module.Error as error:
        raise DeviceError(f"no OpenCL platform was found ({error}){_vendors()}; {MEND}") from error
    found, others = [], []
    for platform in platforms:
        try:
            handles = platform.get_devices()
        except module.Error:  # a platform without devices says so by an error
            continue
        for handle in handles:
            facts = _facts(module, platform, handle)
            (found if facts.version >= OLDEST and not _is_unknown(facts) else others).append(facts)
    if not found:
        old = "".join(map(_why_not, others))
        raise DeviceError(f"no device with OpenCL 2.0 or newer was found{old}{_vendors()}; {MEND}")
    return tuple(sorted(found, key=lambda f: f.is_software))


def _is_unknown(facts: Facts) -> bool:
    """Whether PoCL does not know its own processor, for which it compiles nothing then."""
    return facts.driver.endswith(f"-{UNKNOWN}") and "x86_64" in facts.driver


def _why_not(facts: Facts) -> str:
    if _is_unknown(facts):
        return f"; {facts.name}: {facts.platform} is too old to know this processor"
    return f"; {facts.name} has OpenCL {facts.version[0]}.{facts.version[1]}"


def _vendors() -> str:
    value = os.environ.get("OCL_ICD_VENDORS")
    return "" if value is None else f", with OCL_ICD_VENDORS={value} naming the drivers to load"


def _facts(binding: ModuleType, platform: cl.Platform, handle: cl.Device) -> Facts:
    extensions = frozenset(handle.extensions.split())
    numbers = re.search(r"(\d+)\.(\d+)", handle.version)
    is_cpu = bool(handle.type & binding.device_type.CPU)
    return Facts(
        handle=handle,
        platform=platform.name.strip(),
        name=handle.name.strip(),
        driver=f"{handle.driver_version.strip()}, {name_processor(handle)}",
        version=(int(numbers[1]), int(numbers[2])) if numbers else (0, 0),
        is_software=is_cpu,
        shares_memory=is_cpu and bool(handle.host_unified_memory),
        has_half="cl_khr_fp16" in extensions,
        has_double="cl_khr_fp64" in extensions,
        has_subgroups=_SUBGROUPS <= extensions,
        max_image=_largest_image(handle),
        local_bytes=handle.local_mem_size,
        max_work_items=handle.max_work_group_size,
        max_alloc=handle.max_mem_alloc_size,
        units=handle.max_compute_units,
    )


def _largest_image(handle: cl.Device) -> tuple[int, int] | None:
    if not handle.image_support:
        return None
    return handle.image2d_max_height, handle.image2d_max_width


def describe() -> str:
    """The devices in one line, for `treadle doctor`. Raises DeviceError as `find_devices` does."""
    lines = []
    for number, facts in enumerate(find_devices()):
        kind = "processor" if facts.is_software else "GPU"
        version = ".".join(map(str, facts.version))
        about = f"{kind}, {facts.platform}, OpenCL {version}"
        about += "" if facts.has_double else ", float64 emulated"
        lines.append(f"CL:{number} {facts.name} ({about})")
    return ", ".join(lines)


# -- what a device is as a target -----------------------------------------------------------------


def target_of(facts: Facts, arch: str | None) -> Target:
    """The Target of a device; `arch` overrules what it says of itself.

    "cpu" or "gpu" says how kernels are scheduled; after it, or alone, "-fp64" has float64 emulated
    where the device has it. Raises SettingError for any other arch.
    """
    schedule, emulate = _words_of(arch or "")
    facts = replace(facts, has_double=facts.has_double and not emulate)
    slices = facts.is_software if schedule is None else schedule == "cpu"
    host = _processor(facts) if facts.is_software else host_target()
    common = replace(
        host,
        name=f"{facts.name} (OpenCL)",
        arch="opencl",
        triple="opencl",
        cpu=facts.name,
        features=f"{facts.driver}, fp16={facts.has_half}, fp64={facts.has_double}",
        dtypes=_dtypes(facts),
        emulates_float64=not facts.has_double,
        has_half_convert=facts.has_half,
        cores=facts.units,
        short_indices=True,
        chooses_addresses=False,  # constants have an address space of their own
        has_masked_memory=False,
        has_scale=False,
        max_image=facts.max_image,
        # PoCL's library may be built for a newer processor than it compiles kernels for, and ends
        # the process where a kernel hands it a vector wider than the registers.
        max_lanes=min(MAX_LANES, host.vector_bytes // 4),
    )
    if slices:
        return common
    work_items = min(256, facts.max_work_items)
    subgroup = (SUBGROUP, SUBGROUP) if facts.has_subgroups else None
    workgroup = Workgroup(work_items, facts.max_work_items, facts.local_bytes, subgroup)
    return replace(common, vector_bytes=4 * GPU_LANES, max_lanes=GPU_LANES, workgroup=workgroup)


def _words_of(arch: str) -> tuple[str | None, bool]:
    """How kernels are scheduled, if `arch` says so, and whether float64 is turned off."""
    words = arch.split(",") if arch else []
    schedule = words.pop(0) if words and words[0] in ("cpu", "gpu") else None
    if words not in ([], ["-fp64"]):
        raise SettingError(
            "CL knows the architectures cpu, gpu and -fp64, the last also behind one of the others "
            f"as in gpu,-fp64, not {arch!r}"
        )
    return schedule, bool(words)


def _dtypes(facts: Facts) -> tuple[DType, ...]:
    kinds = [
        dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
        dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float32,
    ]  # fmt: skip
    kinds += [dtypes.float16] if facts.has_half else []
    kinds += [dtypes.float64] if facts.has_double else []
    return tuple(kinds)


def _processor(facts: Facts) -> Target:
    """The processor that a driver compiles for: PoCL names it at the end of the device's version.

    Its compiler may be older than the processor, and know less of it than treadle's own.
    """
    cpu = re.search(r"x86_64-\w+-\w+-\w+-([a-z][\w.-]*)", facts.driver)
    if cpu is None:
        return host_target()
    try:
        known = parse_target(f"x86_64,{cpu[1]}")
    except SettingError:  # a processor that treadle has no table of
        return host_target()
    host = host_target()
    return replace(known, l1=host.l1, l2=host.l2, l3=host.l3)
