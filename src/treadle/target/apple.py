"""An Apple GPU family becomes a `Target`, from a table of what each of them has.

    apple_target("apple7").workgroup     ->  Workgroup(work_items=256, subgroup=(32, 32), ...)

Limits are those of Apple's "Metal Feature Set Tables": 31 buffers, 1024 threads and 32 KiB of
threadgroup memory for each family here. The families are what Metal calls them: apple7 is M1,
apple8 M2, apple9 M3 and M4. There is no float64. One surprise: `dtypes` holds float16 and bfloat16
because Metal converts them, arithmetic is float32 all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.dtype import dtypes
from treadle.errors import SettingError
from treadle.target.apple_units import SIMDGROUP
from treadle.target.data import Target, Workgroup

__all__ = ["APPLE_FAMILIES", "VARIABLES_AT", "AppleFamily", "apple_target"]

TRIPLE = "air64-apple-macosx"
LOADED_AT_ONCE = 16  # bytes of the widest load and store of one work item
SIMD_WIDTH = 32
WORK_ITEMS = 256
MOST_WORK_ITEMS = 1024
SHARED = 32 << 10
BUFFERS = 31
VARIABLES_AT = BUFFERS - 1  # the buffer with a launch's integers; those before are for memory
REGISTERS = 128  # of 32 bits, for each work item

_DTYPES = (
    dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32,
    dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32,
)  # fmt: skip


@dataclass(frozen=True)
class AppleFamily:
    """What one family has that others have not.

    `chip` is its first chip of a Mac, whose GPU has so many `cores`; `number` is Metal's
    MTLGPUFamily. `loads_indirect` says whether the pipelines of an indirect command buffer are
    loaded by themselves; elsewhere an encoder has to have dispatched each of them.
    """

    chip: str
    cores: int
    number: int
    loads_indirect: bool


APPLE_FAMILIES = {
    "apple7": AppleFamily("M1", 8, 1007, loads_indirect=False),
    "apple8": AppleFamily("M2", 10, 1008, loads_indirect=False),
    "apple9": AppleFamily("M3", 10, 1009, loads_indirect=True),
}


def apple_target(family: str) -> Target:
    """The target of a family, "apple7". Raises SettingError if there is none of that name."""
    found = APPLE_FAMILIES.get(family)
    if found is None:
        raise SettingError(
            f"unknown Apple GPU family {family!r}; known: {', '.join(APPLE_FAMILIES)}"
        )
    return Target(
        name=f"Apple {found.chip} ({family})",
        arch="air64",
        triple=TRIPLE,
        cpu=family,
        features="",
        dtypes=_DTYPES,
        vector_bytes=LOADED_AT_ONCE,
        vector_registers=REGISTERS,
        has_half_convert=True,
        has_masked_memory=False,
        l1=8 << 10,
        cores=found.cores,
        workgroup=Workgroup(
            work_items=WORK_ITEMS,
            most_work_items=MOST_WORK_ITEMS,
            shared_bytes=SHARED,
            subgroup=(SIMD_WIDTH, SIMD_WIDTH),
            tile=4,
            together=LOADED_AT_ONCE // 4,
            busy=found.cores,
        ),
        max_buffers=VARIABLES_AT,
        short_indices=True,
        max_lanes=LOADED_AT_ONCE // 4,
        matrix_units=tuple(SIMDGROUP.values()),
    )
