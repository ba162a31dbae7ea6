"""A sub-generation of Adreno 6xx becomes a `Target`, from a table of what each of them has.

    adreno_target("a630").workgroup   ->  Workgroup(work_items=128, shared_bytes=32768, ...)
    adreno_chip("a643").chip_id       ->  0x06030500

Sizes are those of Mesa's list of devices (freedreno_devices.py of 25.0). A chip id has a byte each
for the major and minor number, the patch and the revision. Of the a643 nothing is known that makes
its code another one, though tinygrad reports wrong results of both of its compilers there: it has
the newest sub-generation's short register file. There is no float64. Floats are not strict:
quotients are products with a reciprocal, and mad.f32 may round its product.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.dtype import dtypes
from treadle.errors import SettingError
from treadle.target.data import Target, Workgroup

__all__ = ["ADRENO_CHIPS", "AdrenoChip", "adreno_chip", "adreno_target"]

TRIPLE = "ir3-unknown-kgsl"
LOADED_AT_ONCE = 16  # bytes of the widest load and store of one work item
WORK_ITEMS = 128
MOST_BUFFERS = 80  # 16 textures and 64 images, if all are such
LARGEST_IMAGE = 16384  # texels in each direction
MOST_WORK_ITEMS = 256  # whose waves fit the shortest register file however many each one takes

_DTYPES = (
    dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32,
    dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float32,
)  # fmt: skip


@dataclass(frozen=True)
class AdrenoChip:
    """`registers` are the vec4 of one of `granularity` register files, which take turns: with so
    many a work item, each has room for one wave of 64. `wave` are the work items of the largest
    wave. `cores` counts colour caches, one for each shader processor or two.
    """

    name: str
    chip_id: int
    registers: int
    cores: int
    wave: int = 128
    shared_bytes: int = 32 << 10
    granularity: int = 2


_CHIPS = (
    AdrenoChip("a610", 0x06010000, 48, 1, wave=64, shared_bytes=16 << 10, granularity=1),
    AdrenoChip("a612", 0x06010200, 48, 1, wave=64, shared_bytes=16 << 10, granularity=1),
    AdrenoChip("a615", 0x06010500, 96, 1),
    AdrenoChip("a616", 0x06010600, 96, 1),
    AdrenoChip("a618", 0x06010800, 96, 1),
    AdrenoChip("a619", 0x06010900, 96, 1),
    AdrenoChip("a620", 0x06020000, 96, 1),
    AdrenoChip("a621", 0x06020100, 64, 2),
    AdrenoChip("a630", 0x06030000, 96, 2),
    AdrenoChip("a640", 0x06040000, 96, 2),
    AdrenoChip("a680", 0x06080000, 96, 4),
    AdrenoChip("a643", 0x06030500, 64, 2),
    AdrenoChip("a650", 0x06050000, 64, 3),
    AdrenoChip("a660", 0x06060000, 64, 3),
    AdrenoChip("a663", 0x06060300, 64, 3),
    AdrenoChip("a690", 0x06090000, 64, 8),
)
_TABLE = {chip.name: chip for chip in _CHIPS}
ADRENO_CHIPS = tuple(_TABLE)


def adreno_chip(name: str) -> AdrenoChip:
    """The row of "a630". Raises SettingError if there is none of that name."""
    found = _TABLE.get(name)
    if found is None:
        raise SettingError(f"unknown Adreno {name!r}; known: {', '.join(ADRENO_CHIPS)}")
    return found


def adreno_target(name: str) -> Target:
    """The target of "a630". Raises SettingError if there is none of that name."""
    chip = adreno_chip(name)
    return Target(
        name=f"Adreno {name.removeprefix('a')}",
        arch="ir3",
        triple=TRIPLE,
        cpu=name,
        features=f"wave{chip.wave}",
        dtypes=_DTYPES,
        vector_bytes=LOADED_AT_ONCE,
        vector_registers=48,
        has_half_convert=True,
        has_masked_memory=False,
        has_fma=True,
        l1=16 << 10,
        l2=128 << 10,
        cores=chip.cores,
        workgroup=Workgroup(
            work_items=WORK_ITEMS,
            most_work_items=MOST_WORK_ITEMS,
            shared_bytes=chip.shared_bytes,
            tile=4,
            together=LOADED_AT_ONCE // 4,
            busy=chip.cores,
        ),
        short_indices=True,
        max_lanes=LOADED_AT_ONCE // 4,
        max_buffers=MOST_BUFFERS,
        max_image=(LARGEST_IMAGE, LARGEST_IMAGE),
        strict_floats=False,
    )
