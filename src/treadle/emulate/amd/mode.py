"""The register MODE: what becomes of denormals. Floats are rounded to the nearest.

    Mode.of(rsrc1).flushes_sources("f32")

A kernel's descriptor sets it. Here it is known where an instruction is translated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

__all__ = ["Mode"]

_FLUSHES_RESULTS, _FLUSHES_SOURCES = (0, 1), (0, 2)


@dataclass(frozen=True)
class Mode:
    """Two bits each: 0 flushes all, 1 results, 2 sources, 3 nothing. Halves go by `denormal64`.

    `rounding` are the four bits before, of which 0 is to the nearest.
    """

    BITS: ClassVar[int] = 8

    denormal32: int = 3
    denormal64: int = 3
    rounding: int = 0

    @classmethod
    def of(cls, rsrc1: int) -> Mode:
        """What COMPUTE_PGM_RSRC1 says."""
        return cls(*(rsrc1 >> low & 3 for low in (16, 18)))

    @staticmethod
    def rounds_to_nearest(rsrc1: int) -> bool:
        """Whether COMPUTE_PGM_RSRC1 asks for what is done here."""
        return not rsrc1 >> 12 & 15

    def with_denormals(self, value: int) -> Mode:
        return replace(self, denormal32=value & 3, denormal64=value >> 2 & 3)

    @property
    def bits(self) -> int:
        """The low bits of the register."""
        return self.rounding | self.denormal32 << 4 | self.denormal64 << 6

    def with_field(self, low: int, count: int, value: int) -> Mode:
        """The mode after a field of the register was set; bits above do not matter here."""
        mask = ((1 << count) - 1) << low
        bits = self.bits & ~mask | value << low & mask
        return Mode(bits >> 4 & 3, bits >> 6 & 3, bits & 15)

    def _denormal(self, kind: str) -> int:
        return self.denormal32 if kind == "f32" else self.denormal64

    def flushes_sources(self, kind: str) -> bool:
        return self._denormal(kind) in _FLUSHES_SOURCES

    def flushes_results(self, kind: str) -> bool:
        return self._denormal(kind) in _FLUSHES_RESULTS
