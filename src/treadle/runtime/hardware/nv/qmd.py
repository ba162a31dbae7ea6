"""Queue meta data (QMD): the block of bits by which the GPU is told of one launch.

    LAYOUTS["3.0"].pack(CTA_RASTER_WIDTH=8, ...)         -> 256 bytes
    meta_data(generation, kernel, launch)                -> the same, of all that a launch is

Fields are called as in NVIDIA's headers, and are where their `MW(high:low)` says: version 3.0 in
`clc9c0qmd.h`, 4.0 in `clcbc0qmd.h`, 5.0 in `clcdc0qmd.h`. Only those that a launch needs are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LAYOUTS", "LaunchFacts", "Layout", "meta_data", "with_dependent"]

_Place = tuple[int, int]  # the lowest bit and the highest
_GRID_CTA = 2  # QMD_TYPE
_SYSMEMBAR = 1  # CWD_MEMBAR_TYPE_L1_SYSMEMBAR
_ALL_GROUPS = 0x3F  # QMD_GROUP_ID: of none
_SCHEDULE = 1  # DEPENDENT_QMD0_ACTION_QMD_SCHEDULE
_KIB = 1 << 10
# KiB of shared memory that a multiprocessor can be set to have; chips end earlier.
_CONFIGS = (8, 16, 32, 64, 100, 132, 164, 196, 228)


@dataclass(frozen=True)
class Layout:
    """One version: its size, where fields are, and those of constant bank i, `step` bits apart.

    A bank's `address` is split after 32 bits, and counted in units of `unit` bytes. `dependent` is
    the field that says whether another QMD is started when this one has ended.
    """

    nbytes: int
    fields: Mapping[str, _Place]
    banks: Mapping[str, tuple[int, int, int]]
    bank_shift: int
    program_shift: int
    shared_shift: int
    local_shift: int
    constants: Mapping[str, int]

    def put(self, words: int, name: str, value: int) -> int:
        """The bits with one more field. Raises ValueError for a value that it does not hold."""
        return _put(words, name, self.fields[name], value)


def _put(words: int, name: str, place: _Place, value: int) -> int:
    low, high = place
    mask = (1 << high - low + 1) - 1
    if value < 0 or value > mask:
        raise ValueError(f"{name} is {value:#x}, and has {high - low + 1} bits")
    return words & ~(mask << low) | value << low


_INVALIDATIONS = (
    "INVALIDATE_TEXTURE_HEADER_CACHE", "INVALIDATE_TEXTURE_SAMPLER_CACHE",
    "INVALIDATE_TEXTURE_DATA_CACHE", "INVALIDATE_SHADER_DATA_CACHE",
    "INVALIDATE_INSTRUCTION_CACHE", "INVALIDATE_SHADER_CONSTANT_CACHE",
)  # fmt: skip


def _invalidations(first: int) -> dict[str, _Place]:
    return {name: (first + n, first + n) for n, name in enumerate(_INVALIDATIONS)}


_ALWAYS = dict.fromkeys(_INVALIDATIONS, 1) | {
    "CWD_MEMBAR_TYPE": _SYSMEMBAR, "API_VISIBLE_CALL_LIMIT": 1, "SAMPLER_INDEX": 1,
    "QMD_GROUP_ID": _ALL_GROUPS,
}  # fmt: skip

LAYOUTS = {
    "3.0": Layout(
        256,
        {
            "QMD_GROUP_ID": (128, 133), "SM_GLOBAL_CACHING_ENABLE": (134, 134),
            **_invalidations(186), "CWD_MEMBAR_TYPE": (368, 369),
            "API_VISIBLE_CALL_LIMIT": (378, 378), "SAMPLER_INDEX": (382, 382),
            "GRID_WIDTH": (384, 415), "GRID_HEIGHT": (416, 431), "GRID_DEPTH": (448, 463),
            "DEPENDENT_QMD0_POINTER": (480, 511), "DEPENDENT_QMD0_ENABLE": (512, 512),
            "DEPENDENT_QMD0_ACTION": (513, 515), "DEPENDENT_QMD0_PREFETCH": (516, 516),
            "SHARED_MEMORY_SIZE": (544, 561), "MIN_SM_CONFIG_SHARED_MEM_SIZE": (562, 567),
            "MAX_SM_CONFIG_SHARED_MEM_SIZE": (569, 574), "QMD_MINOR_VERSION": (576, 579),
            "QMD_MAJOR_VERSION": (580, 583), "CTA_THREAD_DIMENSION0": (592, 607),
            "CTA_THREAD_DIMENSION1": (608, 623), "CTA_THREAD_DIMENSION2": (624, 639),
            "REGISTER_COUNT": (648, 656), "TARGET_SM_CONFIG_SHARED_MEM_SIZE": (657, 662),
            "SHADER_LOCAL_MEMORY_LOW_SIZE": (736, 759), "BARRIER_COUNT": (763, 767),
            "PROGRAM_ADDRESS_LOWER": (1536, 1567), "PROGRAM_ADDRESS_UPPER": (1568, 1584),
            "SHADER_LOCAL_MEMORY_HIGH_SIZE": (1600, 1623), "SASS_VERSION": (1656, 1663),
        },
        {
            "VALID": (640, 640, 1), "LOWER": (1024, 1055, 64), "UPPER": (1056, 1072, 64),
            "INVALIDATE": (1074, 1074, 64), "SIZE_SHIFTED4": (1075, 1087, 64),
        },
        bank_shift=0, program_shift=0, shared_shift=0, local_shift=0,
        constants={**_ALWAYS, "SM_GLOBAL_CACHING_ENABLE": 1, "QMD_MAJOR_VERSION": 3},
    ),
    "4.0": Layout(
        384,
        {
            "QMD_GROUP_ID": (16, 21), "QMD_TYPE": (23, 25),
            "DEPENDENT_QMD0_ENABLE": (368, 368), "DEPENDENT_QMD0_ACTION": (369, 371),
            "DEPENDENT_QMD0_PREFETCH": (372, 372), "DEPENDENT_QMD0_POINTER": (448, 479),
            "SHADER_LOCAL_MEMORY_LOW_SIZE": (512, 535), "SASS_VERSION": (536, 543),
            "SHADER_LOCAL_MEMORY_HIGH_SIZE": (544, 567), "API_VISIBLE_CALL_LIMIT": (568, 568),
            "SAMPLER_INDEX": (569, 569), "QMD_MINOR_VERSION": (576, 579),
            "QMD_MAJOR_VERSION": (580, 583), "SHARED_MEMORY_SIZE": (584, 601),
            **_invalidations(602), "MIN_SM_CONFIG_SHARED_MEM_SIZE": (608, 613),
            "MAX_SM_CONFIG_SHARED_MEM_SIZE": (614, 619),
            "TARGET_SM_CONFIG_SHARED_MEM_SIZE": (620, 625), "GRID_WIDTH": (1024, 1055),
            "GRID_HEIGHT": (1056, 1071), "GRID_DEPTH": (1088, 1103),
            "CWD_MEMBAR_TYPE": (1136, 1137), "CTA_THREAD_DIMENSION0": (1152, 1167),
            "CTA_THREAD_DIMENSION1": (1168, 1183), "CTA_THREAD_DIMENSION2": (1184, 1199),
            "REGISTER_COUNT": (1200, 1208), "BARRIER_COUNT": (1211, 1215),
            "PROGRAM_ADDRESS_LOWER": (1216, 1247), "PROGRAM_ADDRESS_UPPER": (1248, 1272),
        },
        {
            "VALID": (416, 416, 4), "INVALIDATE": (419, 419, 4), "LOWER": (1536, 1567, 64),
            "UPPER": (1568, 1586, 64), "SIZE_SHIFTED4": (1587, 1599, 64),
        },
        bank_shift=6, program_shift=0, shared_shift=0, local_shift=0,
        constants={**_ALWAYS, "QMD_MAJOR_VERSION": 4, "QMD_TYPE": _GRID_CTA},
    ),
    "5.0": Layout(
        384,
        {
            "QMD_GROUP_ID": (144, 149), "QMD_TYPE": (151, 153),
            "DEPENDENT_QMD0_ENABLE": (336, 336), "DEPENDENT_QMD0_ACTION": (337, 339),
            "DEPENDENT_QMD0_PREFETCH": (340, 340), "DEPENDENT_QMD0_POINTER": (384, 415),
            "SASS_VERSION": (448, 455), "API_VISIBLE_CALL_LIMIT": (456, 456),
            "SAMPLER_INDEX": (457, 457), "QMD_MINOR_VERSION": (464, 467),
            "QMD_MAJOR_VERSION": (468, 471), **_invalidations(472),
            "CWD_MEMBAR_TYPE": (624, 625), "PROGRAM_ADDRESS_LOWER": (1024, 1055),
            "PROGRAM_ADDRESS_UPPER": (1056, 1076), "CTA_THREAD_DIMENSION0": (1088, 1103),
            "CTA_THREAD_DIMENSION1": (1104, 1119), "CTA_THREAD_DIMENSION2": (1120, 1127),
            "REGISTER_COUNT": (1128, 1136), "BARRIER_COUNT": (1137, 1141),
            "SHARED_MEMORY_SIZE": (1152, 1162), "MIN_SM_CONFIG_SHARED_MEM_SIZE": (1163, 1168),
            "MAX_SM_CONFIG_SHARED_MEM_SIZE": (1169, 1174),
            "TARGET_SM_CONFIG_SHARED_MEM_SIZE": (1175, 1180),
            "SHADER_LOCAL_MEMORY_LOW_SIZE": (1184, 1199),
            "SHADER_LOCAL_MEMORY_HIGH_SIZE": (1200, 1215), "GRID_WIDTH": (1248, 1279),
            "GRID_HEIGHT": (1280, 1295), "GRID_DEPTH": (1312, 1327),
        },
        {
            "LOWER": (1344, 1375, 64), "UPPER": (1376, 1394, 64),
            "SIZE_SHIFTED4": (1395, 1407, 64), "VALID": (1856, 1856, 4),
            "INVALIDATE": (1859, 1859, 4),
        },
        bank_shift=6, program_shift=4, shared_shift=7, local_shift=4,
        constants={**_ALWAYS, "QMD_MAJOR_VERSION": 5, "QMD_TYPE": _GRID_CTA},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class LaunchFacts:
    """All that a launch is. Sizes in bytes, `local` for each work item; `banks` by their numbers:
    address and size. `most_shared` is what a multiprocessor has.
    """

    program: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    barriers: int
    shared: int
    most_shared: int
    local: int
    sass_version: int
    banks: Mapping[int, tuple[int, int]]


def _config(nbytes: int) -> int:
    """How a size of a multiprocessor's shared memory is written."""
    return nbytes // _KIB // 4 + 1


def meta_data(version: str, facts: LaunchFacts) -> bytes:
    """The bytes of a launch."""
    layout = LAYOUTS[version]
    shared = max(_KIB, -(-facts.shared // 256) * 256)
    sizes = [one * _KIB for one in _CONFIGS if one * _KIB >= shared]
    config = _config(min(min(sizes, default=facts.most_shared), facts.most_shared))
    program = facts.program >> layout.program_shift
    values = dict(layout.constants) | {
        "PROGRAM_ADDRESS_LOWER": program & 0xFFFFFFFF,
        "PROGRAM_ADDRESS_UPPER": program >> 32,
        "REGISTER_COUNT": facts.registers,
        "BARRIER_COUNT": facts.barriers,
        "SHARED_MEMORY_SIZE": shared >> layout.shared_shift,
        "MIN_SM_CONFIG_SHARED_MEM_SIZE": config,
        "TARGET_SM_CONFIG_SHARED_MEM_SIZE": config,
        "MAX_SM_CONFIG_SHARED_MEM_SIZE": _config(facts.most_shared),
        "SHADER_LOCAL_MEMORY_HIGH_SIZE": facts.local >> layout.local_shift,
        "SASS_VERSION": facts.sass_version,
    }
    values |= dict(zip(("GRID_WIDTH", "GRID_HEIGHT", "GRID_DEPTH"), facts.grid, strict=True))
    values |= {f"CTA_THREAD_DIMENSION{axis}": size for axis, size in enumerate(facts.block)}
    words = 0
    for name, value in values.items():
        words = layout.put(words, name, value)
    for bank, (address, nbytes) in facts.banks.items():
        words = _with_bank(layout, words, bank, address, nbytes)
    return words.to_bytes(layout.nbytes, "little")


def _with_bank(layout: Layout, words: int, bank: int, address: int, nbytes: int) -> int:
    place = address >> layout.bank_shift
    for name, value in (
        ("VALID", 1), ("INVALIDATE", 1), ("LOWER", place & 0xFFFFFFFF), ("UPPER", place >> 32),
        ("SIZE_SHIFTED4", -(-nbytes // 16)),
    ):  # fmt: skip
        low, high, step = layout.banks[name]
        at = low + bank * step, high + bank * step
        words = _put(words, f"CONSTANT_BUFFER_{name}({bank})", at, value)
    return words


def with_dependent(version: str, data: bytes, address: int) -> bytes:
    """The same launch, which starts the one whose QMD is at an address when it has ended."""
    layout, words = LAYOUTS[version], int.from_bytes(data, "little")
    for name, value in (
        ("DEPENDENT_QMD0_POINTER", address >> 8), ("DEPENDENT_QMD0_ENABLE", 1),
        ("DEPENDENT_QMD0_ACTION", _SCHEDULE), ("DEPENDENT_QMD0_PREFETCH", 1),
    ):  # fmt: skip
        words = layout.put(words, name, value)
    return words.to_bytes(len(data), "little")
