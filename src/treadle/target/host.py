"""This machine as a `Target`, read from what the system tells, without importing LLVM.

    host_target()  ->  Target(arch="x86_64", cpu="znver4", features="+avx,...", cores=2, ...)

One surprise: `cores` is how many threads may run at once: physical cores among those that the
affinity mask allows, cut down to the CPU quota of the control group.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.errors import DeviceError
from treadle.target.arch import AARCH64, RISCV64, make_target, x86_level, x86_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.target.data import Target

__all__ = ["available_cores", "host_target", "third_level_caches"]

# /proc/cpuinfo's flags that arithmetic depends on, where LLVM spells them otherwise.
_LLVM_SPELLING = {
    "pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "bmi1": "bmi", "abm": "lzcnt",
    "avx512_bf16": "avx512bf16", "avx512_vnni": "avx512vnni", "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2", "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq", "avx_vnni": "avxvnni",
}  # fmt: skip
# Stated explicitly, on or off: a hypervisor may hide what the CPU's name promises. Order matters
# to LLVM: an earlier feature must not be implied by a later one that is present when it is absent.
_STATED = (
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "movbe", "lzcnt", "bmi", "bmi2",
    "avx", "f16c", "fma", "avx2", "avxvnni", "gfni",
    "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi",
    "avx512vbmi2", "avx512vnni", "avx512bitalg", "avx512vpopcntdq", "avx512bf16", "avx512fp16",
)  # fmt: skip
# (family, first model, last model) -> LLVM's CPU name.
_AMD = (
    (0x17, 0x00, 0x2F, "znver1"), (0x17, 0x30, 0xFF, "znver2"),
    (0x19, 0x10, 0x1F, "znver4"), (0x19, 0x60, 0xAF, "znver4"), (0x19, 0x00, 0x5F, "znver3"),
)  # fmt: skip
_INTEL = {
    **dict.fromkeys((0x3C, 0x3F, 0x45, 0x46), "haswell"),
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), "broadwell"),
    **dict.fromkeys((0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6), "skylake"),
    **dict.fromkeys((0x6A, 0x6C), "icelake-server"),
    **dict.fromkeys((0x7D, 0x7E), "icelake-client"),
    **dict.fromkeys((0x8C, 0x8D), "tigerlake"),
    **dict.fromkeys((0x97, 0x9A, 0xB7, 0xBA, 0xBF), "alderlake"),
    **dict.fromkeys((0x8F, 0xCF), "sapphirerapids"),
}
# (implementer, part) of /proc/cpuinfo -> LLVM's CPU name.
_ARM_PARTS = {
    (0x41, 0xD08): "cortex-a72", (0x41, 0xD0B): "cortex-a76", (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD40): "neoverse-v1", (0x41, 0xD49): "neoverse-n2", (0x41, 0xD4F): "neoverse-v2",
    (0x46, 0x001): "a64fx", (0xC0, 0xAC3): "ampere1",
}  # fmt: skip
_ARM_FLAGS = {"asimdhp": "fullfp16", "asimddp": "dotprod", "bf16": "bf16", "i8mm": "i8mm"}


@functools.cache
def host_target() -> Target:
    """The target of this machine. Raises DeviceError on a processor of an unknown family."""
    machine = platform.machine().lower()
    detect = _DETECT.get(machine)
    if detect is None:
        raise DeviceError(
            f"treadle has no code generator for a {machine or 'nameless'} processor; "
            "it supports x86-64, AArch64 and RISC-V (64 bits)"
        )
    l1, l2, l3 = _cache_sizes()
    return replace(detect(), l1=l1, l2=l2, l3=l3, cores=available_cores())


def _cpuinfo() -> dict[str, str]:
    """The first processor's entries of /proc/cpuinfo, empty where there is none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read().split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _detect_x86() -> Target:
    info = _cpuinfo()
    if "flags" not in info:
        return _ask_llvm()
    flags = frozenset(_LLVM_SPELLING.get(flag, flag) for flag in info["flags"].split())
    family, model = int(info.get("cpu family", 0)), int(info.get("model", 0))
    cpu = _x86_name(info.get("vendor_id", ""), family, model, flags)
    # Absent features first: LLVM turns dependents off with a feature, so present ones come last.
    absent = tuple(f"-{name}" for name in _STATED if name not in flags)
    return x86_target(cpu, (*absent, *(name for name in _STATED if name in flags)))


def _x86_name(vendor: str, family: int, model: int, flags: frozenset[str]) -> str:
    if vendor == "AuthenticAMD":
        for known, first, last, name in _AMD:
            if family == known and first <= model <= last:
                return name
    if vendor == "GenuineIntel" and family == 6:
        if model == 0x55:  # three server generations share one model number
            newer = "cascadelake" if "avx512vnni" in flags else "skylake-avx512"
            return "cooperlake" if "avx512bf16" in flags else newer
        if model in _INTEL:
            return _INTEL[model]
    return x86_level(flags)


def _ask_llvm() -> Target:
    """Where the system lists no features (Windows, Intel Macs), LLVM reads CPUID."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return x86_target("x86-64")
    known = llvm.get_host_cpu_features()
    absent = tuple(f"-{name}" for name in _STATED if not known.get(name))
    return x86_target(
        llvm.get_host_cpu_name(), (*absent, *(name for name in _STATED if known.get(name)))
    )


def _detect_arm() -> Target:
    if sys.platform == "darwin":
        # Every Apple Silicon core has what an M1 has, and half-precision arithmetic is part of it.
        return make_target(AARCH64, "apple-m1", ("fullfp16", "dotprod"))
    info = _cpuinfo()
    flags = info.get("Features", "").split()
    part = int(info.get("CPU implementer", "0"), 0), int(info.get("CPU part", "0"), 0)
    words = tuple(name for flag, name in _ARM_FLAGS.items() if flag in flags)
    return make_target(AARCH64, _ARM_PARTS.get(part, AARCH64.cpu), words)


def _detect_riscv() -> Target:
    return make_target(RISCV64, RISCV64.cpu)


_DETECT = {
    **dict.fromkeys(("x86_64", "amd64"), _detect_x86),
    **dict.fromkeys(("aarch64", "arm64"), _detect_arm),
    "riscv64": _detect_riscv,
}


def _cache_sizes() -> tuple[int, int, int]:
    """The (l1 data, l2, l3) bytes that a core reaches; typical sizes where the system is silent."""
    typical = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
    sizes = {**typical, **(_sysctl_caches() or _sysfs_caches())}
    return sizes[1], sizes[2], sizes[3]


def _sysfs_caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[int, int]:
    found: dict[int, int] = {}
    for index in folder.glob("index*"):
        try:
            kind, level, size = (
                (index / name).read_text().strip() for name in ("type", "level", "size")
            )
        except OSError:
            continue
        unit = {"K": 10, "M": 20, "G": 30}.get(size[-1:], 0)
        if kind != "Instruction":
            found[int(level)] = int(size.rstrip("KMG")) << unit
    return found


def _sysctl_caches() -> dict[int, int]:
    if sys.platform != "darwin":
        return {}
    names = {1: "hw.perflevel0.l1dcachesize", 2: "hw.perflevel0.l2cachesize"}
    found = {level: _sysctl_number(name) for level, name in names.items()}
    return {level: size for level, size in found.items() if size}


def _sysctl_number(name: str) -> int:
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    call = ctypes.CDLL(None).sysctlbyname
    if call(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)):
        return 0
    return value.value


def available_cores(root: Path = Path("/")) -> int:
    """How many threads can run at once, at least 1, by affinity, SMT siblings and CPU quota."""
    if sys.platform == "darwin":
        # Efficiency cores would hold up each barrier, so only the performance cores count.
        return _sysctl_number("hw.perflevel0.physicalcpu") or os.cpu_count() or 1
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = _physical(os.sched_getaffinity(0), root)
    quota = _cgroup_quota(root)
    return max(1, cores if quota is None else min(cores, int(quota)))


def third_level_caches(root: Path = Path("/")) -> int:
    """How many third-level caches the cores have together that this process may use, at least 1."""
    if not hasattr(os, "sched_getaffinity"):
        return 1
    cpus = "sys/devices/system/cpu/cpu{}/cache/index3/shared_cpu_list"
    return len({_read(root / cpus.format(cpu)) for cpu in os.sched_getaffinity(0)})


def _physical(cpus: set[int], root: Path) -> int:
    siblings = set()
    for cpu in cpus:
        path = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        siblings.add(_read(path) or str(cpu))
    return len(siblings)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cgroup_quota(root: Path) -> float | None:
    """The smallest CPU quota, in cores, of this process's control groups, versions 1 and 2."""
    quotas = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            quotas += _quotas(root / "sys/fs/cgroup", path, _quota_v2)
        elif "cpu" in controllers.split(","):
            quotas += _quotas(root / "sys/fs/cgroup/cpu", path, _quota_v1)
    return min(quotas, default=None)


def _quotas(mount: Path, path: str, read: Callable[[Path], float | None]) -> list[float]:
    """Quotas of a group and of every group above it: a limit holds for all below."""
    group = Path(path.strip("/"))
    levels = [mount / group, *(mount / parent for parent in group.parents), mount]
    return [quota for folder in levels if (quota := read(folder)) is not None]


def _quota_v2(folder: Path) -> float | None:
    limit, _, period = _read(folder / "cpu.max").partition(" ")
    return int(limit) / int(period) if limit.isdigit() and period.isdigit() else None


def _quota_v1(folder: Path) -> float | None:
    limit, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return int(limit) / int(period) if limit.isdigit() and period.isdigit() else None
