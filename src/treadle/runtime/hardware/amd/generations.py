"""What differs between AMD's generations, as rows of one table.

generation_of(110000).name          -> "gfx11"
arch_of(90010)                      -> "gfx90a"
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.errors import DeviceError

__all__ = ["Generation", "arch_of", "generation_of"]


@dataclass(frozen=True)
class Generation:
    """One generation of compute units and the queues in front of them.

    `has_gcr` says whether packets that handle caches have GCR's fields, as from gfx10 on. A wave's
    scratch memory is counted in `scratch_unit` bytes, and its waves of one shader engine where
    `scratch_by_engine` holds, else of the whole GPU; `has_architected_scratch` says that a register
    tells waves where it is, and not scalar registers. `is_privileged` sets PRIV in a program's
    registers: gfx11 needs that where waves may be saved. A compute unit has `vector_bytes` of
    registers to save, a wave `stack_bytes` of control state, in a stack of at most `most_stack`.
    """

    name: str
    has_gcr: bool
    scratch_unit: int
    scratch_by_engine: bool
    has_architected_scratch: bool
    vector_bytes: int
    stack_bytes: int
    is_privileged: bool = False
    most_stack: int | None = None


_GFX90A = Generation("gfx90a", False, 1024, False, False, 0x80000, 8)
_GFX94 = Generation("gfx94", False, 1024, False, True, 0x80000, 8)
_GFX103 = Generation("gfx10.3", True, 1024, False, False, 0x40000, 12, most_stack=0x7000)
_GFX11 = Generation("gfx11", True, 256, True, True, 0x40000, 12, is_privileged=True)
_LARGE_GFX11 = Generation("gfx11", True, 256, True, True, 0x60000, 12, is_privileged=True)
_GFX12 = Generation("gfx12", True, 256, True, True, 0x60000, 12)

_BY_VERSION = {
    (9, 0, 10): _GFX90A, (9, 4, 2): _GFX94, (9, 5, 0): _GFX94,
    **{(10, 3, step): _GFX103 for step in range(7)},
    (11, 0, 0): _LARGE_GFX11, (11, 0, 1): _LARGE_GFX11, (11, 0, 2): _GFX11, (11, 0, 3): _GFX11,
    **{(11, 5, step): _GFX11 for step in range(4)},
    (12, 0, 0): _GFX12, (12, 0, 1): _GFX12,
}  # fmt: skip


def _parts(version: int) -> tuple[int, int, int]:
    return version // 10000, version // 100 % 100, version % 100


def arch_of(version: int) -> str:
    """The architecture of the driver's gfx_target_version."""
    major, minor, step = _parts(version)
    return f"gfx{major}{minor:x}{step:x}"


def generation_of(version: int) -> Generation:
    """The generation of a gfx_target_version. Raises DeviceError for one that is not known."""
    found = _BY_VERSION.get(_parts(version))
    if found is None:
        raise DeviceError(
            f"AMD: {arch_of(version)} is not supported: RDNA2 to RDNA4 and CDNA2 to CDNA3 are; "
            "choose another device, such as CL"
        )
    return found
