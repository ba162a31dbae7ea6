"""An AMD chip becomes a `Target`, from a table of what each of them has.

    amd_target("gfx1100").workgroup     ->  Workgroup(work_items=256, subgroup=(32, 32), ...)

Sizes are those of AMD's instruction set references and of LLVM's User Guide for AMDGPU Backend. Two
surprises: on chips that can run waves of 32 as well as of 64 lanes it is 32 here, and `dtypes`
holds float16 and bfloat16 where the hardware converts them, arithmetic is float32 all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.dtype import DType, dtypes
from treadle.errors import SettingError
from treadle.target.amd_units import CDNA2, CDNA3, CDNA4, RDNA3, RDNA4
from treadle.target.data import Target, Workgroup
from treadle.target.matrix import MatrixUnit

__all__ = ["AMD_CHIPS", "amd_target"]

TRIPLE = "amdgcn-amd-amdhsa"
LOADED_AT_ONCE = 16  # bytes of the widest load and store of one work item
WORK_ITEMS = 256
MOST_WORK_ITEMS = 1024

_COMMON = (
    dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32,
    dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.float32, dtypes.float64,
)  # fmt: skip


@dataclass(frozen=True)
class _Chip:
    """A generation, and how many compute units the largest device with the chip has.

    `wave` lanes run in step. `lds` are the bytes that a workgroup shares, `l1` those of the cache
    of each compute unit, `registers` those of 32 bits that a work item can have. `extra` are the
    dtypes that it converts besides, `units` what multiplies matrices.
    """

    generation: str
    compute_units: int
    wave: int
    l1: int
    lds: int = 64 << 10
    registers: int = 256
    extra: tuple[DType, ...] = ()
    units: dict[str, MatrixUnit] | None = None


def _of_size(units: dict[tuple[str, int], MatrixUnit], size: int = 16) -> dict[str, MatrixUnit]:
    return {kind: unit for (kind, each), unit in units.items() if each == size}


# Registers of CDNA are 256 that all instructions have, and as many that MFMA and loads have.
_TABLE = {
    "gfx90a": _Chip("CDNA2", 110, 64, 16 << 10, registers=512, units=_of_size(CDNA2)),
    "gfx942": _Chip("CDNA3", 304, 64, 32 << 10, registers=512, units=_of_size(CDNA3)),
    "gfx950": _Chip(
        "CDNA4", 256, 64, 32 << 10, 160 << 10, 512, (dtypes.bfloat16,), _of_size(CDNA4),
    ),
    "gfx1030": _Chip("RDNA2", 80, 32, 16 << 10),
    "gfx1100": _Chip("RDNA3", 96, 32, 32 << 10, units=RDNA3),
    "gfx1151": _Chip("RDNA3.5", 40, 32, 32 << 10, units=RDNA3),
    "gfx1200": _Chip("RDNA4", 32, 32, 32 << 10, units=RDNA4),
    "gfx1201": _Chip("RDNA4", 64, 32, 32 << 10, units=RDNA4),
}  # fmt: skip
AMD_CHIPS = tuple(_TABLE)
_ROUNDING = ("tf32",)  # kinds of numbers that factors are rounded to first


def amd_target(chip: str) -> Target:
    """The target of a chip, "gfx1100". Raises SettingError if there is none of that name."""
    found = _TABLE.get(chip)
    if found is None:
        raise SettingError(f"unknown AMD chip {chip!r}; known: {', '.join(AMD_CHIPS)}")
    units = found.units or {}
    return Target(
        name=f"AMD {found.generation} ({chip})",
        arch="amdgcn",
        triple=TRIPLE,
        cpu=chip,
        features="",
        dtypes=(*_COMMON, *found.extra),
        vector_bytes=LOADED_AT_ONCE,
        vector_registers=found.registers,
        has_half_convert=True,
        has_masked_memory=False,
        l1=found.l1,
        cores=found.compute_units,
        workgroup=Workgroup(
            work_items=WORK_ITEMS,
            most_work_items=MOST_WORK_ITEMS,
            shared_bytes=found.lds,
            subgroup=(found.wave, found.wave),
            tile=8,
            together=LOADED_AT_ONCE // 4,
            busy=found.compute_units,
        ),
        short_indices=True,
        max_lanes=LOADED_AT_ONCE // 2,
        matrix_units=tuple(unit for kind, unit in units.items() if kind not in _ROUNDING),
        rounding_units=tuple(unit for kind, unit in units.items() if kind in _ROUNDING),
    )
