"""An NVIDIA architecture becomes a `Target`, from a table of what each of them has.

    nvidia_target("sm_90a").workgroup     ->  Workgroup(work_items=256, subgroup=(32, 32), ...)

Sizes are those of "Technical Specifications per Compute Capability" in NVIDIA's CUDA C++
Programming Guide. An "a" at the end allows instructions that later architectures lack. A surprise:
`dtypes` holds float16 and bfloat16 where the hardware converts them, arithmetic is float32 all the
same.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.dtype import DType, dtypes
from treadle.errors import SettingError
from treadle.target.data import Target, Workgroup
from treadle.target.nvidia_units import MMA, WGMMA

__all__ = ["NVIDIA_ARCHITECTURES", "OLDEST", "arch_of_capability", "nvidia_target"]

TRIPLE = "nvptx64-nvidia-cuda"
WARP = 32
WITH_WGMMA = "sm_90a"
DECLARED_SHARED = 48 << 10
LOADED_AT_ONCE = 16  # bytes of the widest load and store of one work item
REGISTERS = 255  # of 32 bits, for each work item
WORK_ITEMS = 256
MOST_WORK_ITEMS = 1024

_COMMON = (
    dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32,
    dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.float32, dtypes.float64,
)  # fmt: skip


# The kinds of numbers that units multiply since sm_80, those since sm_89, and what is rounded.
_KINDS, _FP8, _ROUNDED = ("float16", "bfloat16", "int8", "uint8"), ("fp8e4m3", "fp8e5m2"), ("tf32",)


@dataclass(frozen=True)
class _Architecture:
    """A generation, and how many multiprocessors a common device of it has.

    `l1`: bytes of each multiprocessor's memory that caches and shared memory have together;
    `shared`: those that one block can have.
    """

    generation: str
    multiprocessors: int
    l1: int
    shared: int
    extra: tuple[DType, ...] = (dtypes.bfloat16,)


_TABLE = {
    "sm_75": _Architecture("Turing", 40, 96 << 10, 64 << 10, ()),
    "sm_80": _Architecture("Ampere", 108, 192 << 10, 163 << 10),
    "sm_86": _Architecture("Ampere", 46, 128 << 10, 99 << 10),
    "sm_87": _Architecture("Ampere", 16, 192 << 10, 163 << 10),
    "sm_89": _Architecture("Ada", 46, 128 << 10, 99 << 10),
    "sm_90": _Architecture("Hopper", 132, 256 << 10, 227 << 10),
    "sm_90a": _Architecture("Hopper", 132, 256 << 10, 227 << 10),
    "sm_100": _Architecture("Blackwell", 148, 256 << 10, 227 << 10),
    "sm_100a": _Architecture("Blackwell", 148, 256 << 10, 227 << 10),
    "sm_103a": _Architecture("Blackwell", 148, 256 << 10, 227 << 10),
    "sm_120": _Architecture("Blackwell", 48, 128 << 10, 99 << 10),
    "sm_120a": _Architecture("Blackwell", 48, 128 << 10, 99 << 10),
}
NVIDIA_ARCHITECTURES = tuple(_TABLE)
OLDEST = NVIDIA_ARCHITECTURES[0]


def nvidia_target(arch: str) -> Target:
    """The target of an architecture, "sm_80". Raises SettingError if there is none of that name."""
    found = _TABLE.get(arch)
    if found is None:
        raise SettingError(
            f"unknown NVIDIA architecture {arch!r}; known: {', '.join(NVIDIA_ARCHITECTURES)}"
        )
    kinds = _kinds(arch)
    rounded = _ROUNDED if kinds else ()
    return Target(
        name=f"NVIDIA {found.generation} ({arch})",
        arch="nvptx64",
        triple=TRIPLE,
        cpu=arch,
        features="",
        dtypes=(*_COMMON, *found.extra),
        vector_bytes=LOADED_AT_ONCE,
        vector_registers=REGISTERS,
        has_half_convert=True,
        has_masked_memory=False,
        l1=found.l1,
        cores=found.multiprocessors,
        workgroup=Workgroup(
            work_items=WORK_ITEMS,
            most_work_items=MOST_WORK_ITEMS,
            shared_bytes=found.shared,
            declared_bytes=DECLARED_SHARED,
            copies_ahead=bool(kinds),
            subgroup=(WARP, WARP),
            tile=8,
            together=LOADED_AT_ONCE // 4,
            busy=found.multiprocessors,
        ),
        short_indices=True,
        max_lanes=LOADED_AT_ONCE // 2,
        matrix_units=tuple(MMA[kind] for kind in kinds),
        rounding_units=tuple(MMA[kind] for kind in rounded),
        warpgroup_units=tuple(WGMMA[kind] for kind in kinds if arch == WITH_WGMMA),
        rounding_warpgroup_units=tuple(WGMMA[kind] for kind in rounded if arch == WITH_WGMMA),
    )


def _kinds(arch: str) -> tuple[str, ...]:
    number = int(arch.rstrip("a")[3:])
    return (*_KINDS, *_FP8) if number >= 89 else _KINDS if number >= 80 else ()


def arch_of_capability(major: int, minor: int) -> str | None:
    """The architecture whose code a GPU of this compute capability runs best, None if too old.

    (9, 0) is "sm_90a"; a GPU that is newer than the table gets the newest before it.
    """
    exact = f"sm_{major}{minor}"
    for name in (f"{exact}a", exact):
        if name in _TABLE:
            return name
    older = [name for name in _TABLE if name[-1] != "a" and int(name[3:]) < 10 * major + minor]
    return max(older, key=lambda name: int(name[3:]), default=None)
