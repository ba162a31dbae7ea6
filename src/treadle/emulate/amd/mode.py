"""The register MODE: how floats are rounded, and what becomes of denormals.

    Mode.of(rsrc1).flushes_sources("f32")

A kernel's descriptor sets it. Here it is known where an instruction is translated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Mode"]

_FLUSHES_RESULTS, _FLUSHES_SOURCES = (0, 1), (0, 2)


@dataclass(frozen=True)
class Mode:
    """Two bits each: `round32` and `round64` (of 16 and 64 bits too; 0 is to the nearest even),
    `denormal32` and `denormal64` (0 flushes all, 1 results, 2 sources, 3 nothing).
    """

    round32: int = 0
    round64: int = 0
    denormal32: int = 3
    denormal64: int = 3

    @classmethod
    def of(cls, rsrc1: int) -> Mode:
        """What COMPUTE_PGM_RSRC1 says."""
        return cls(*(rsrc1 >> low & 3 for low in (12, 14, 16, 18)))

    def with_rounding(self, value: int) -> Mode:
        return replace(self, round32=value & 3, round64=value >> 2 & 3)

    def with_denormals(self, value: int) -> Mode:
        return replace(self, denormal32=value & 3, denormal64=value >> 2 & 3)

    def _denormal(self, kind: str) -> int:
        return self.denormal32 if kind == "f32" else self.denormal64

    def flushes_sources(self, kind: str) -> bool:
        return self._denormal(kind) in _FLUSHES_SOURCES

    def flushes_results(self, kind: str) -> bool:
        return self._denormal(kind) in _FLUSHES_RESULTS
