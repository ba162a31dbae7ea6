"""Facts of one real GPU for each architecture that is emulated, as its driver shows them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Chip", "chip"]

_GIB = 1 << 30
_GFX9_BASES = (0x2000, 0xA000)
_GFX10_BASES = (0x1260, 0xA000)


@dataclass(frozen=True)
class Chip:
    """One GPU.

    `family` is the form of its PM4 packets, `registers` the block of its compute registers and
    `bases` where that block's segments begin, `sdma` the form of its SDMA packets. `engines` are
    shader engines; `arrays` is the number of shader arrays in each. `waves` is the most waves of a
    compute unit that have scratch memory. `scratch_unit` is the unit of a wave's scratch in bytes,
    as COMPUTE_TMPRING_SIZE counts it; `has_architected_scratch` says whether a register, instead of
    scalar registers, tells waves where their scratch is. `caches` are the KiB of a cache for data
    of each level from 1 on. `vram` is smaller than the card's.
    """

    arch: str
    name: str
    version: int
    device_id: int
    family: str
    registers: str
    bases: tuple[int, int]
    sdma: str
    units: int
    simds_per_unit: int
    engines: int
    arrays: int
    wave: int
    waves: int
    scratch_unit: int
    has_architected_scratch: bool
    caches: tuple[int, ...]
    partitions: int = 1
    vram: int = 2 * _GIB
    lds: int = 64 << 10


_CHIPS = (
    Chip("gfx90a", "AMD Instinct MI210", 90010, 0x740F, "gfx9", "gc/gc_9_4_2", _GFX9_BASES, "4.4",
         units=104, simds_per_unit=4, engines=8, arrays=1, wave=64, waves=32, scratch_unit=1024,
         has_architected_scratch=False, caches=(16, 8192)),
    Chip("gfx942", "AMD Instinct MI300X", 90402, 0x74A1, "gfx9", "gc/gc_9_4_3", _GFX9_BASES, "4.4",
         units=304, simds_per_unit=4, engines=32, arrays=1, wave=64, waves=32, scratch_unit=1024,
         has_architected_scratch=True, caches=(32, 4096, 262144), partitions=8),
    Chip("gfx1030", "AMD Radeon RX 6900 XT", 100300, 0x73BF, "gfx10-12", "gc/gc_10_3_0",
         _GFX10_BASES, "5.2", units=80, simds_per_unit=2, engines=4, arrays=2, wave=32, waves=32,
         scratch_unit=1024, has_architected_scratch=False, caches=(16, 4096, 131072)),
    Chip("gfx1100", "AMD Radeon RX 7900 XTX", 110000, 0x744C, "gfx10-12", "gc/gc_11_0_0",
         _GFX10_BASES, "6.0", units=96, simds_per_unit=2, engines=6, arrays=2, wave=32, waves=32,
         scratch_unit=256, has_architected_scratch=True, caches=(32, 6144, 98304)),
    Chip("gfx1201", "AMD Radeon RX 9070 XT", 120001, 0x7550, "gfx10-12", "gc/gc_12_0_0",
         _GFX10_BASES, "6.0", units=64, simds_per_unit=2, engines=4, arrays=2, wave=32, waves=32,
         scratch_unit=256, has_architected_scratch=True, caches=(32, 8192, 65536)),
)  # fmt: skip


def chip(arch: str) -> Chip:
    """The GPU of an architecture. Raises ValueError for one that is not emulated."""
    for one in _CHIPS:
        if one.arch == arch:
            return one
    known = ", ".join(one.arch for one in _CHIPS)
    raise ValueError(f"no AMD GPU of {arch!r} is emulated; there are {known}")
