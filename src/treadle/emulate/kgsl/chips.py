"""The chips of the generation Adreno 6xx: what kernels and drivers see of them.

From Mesa's list of devices. `lacks` are instructions that a chip does not have, though others do.
Where there is a scalar ALU, it computes what is in registers that all lanes share.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHIPS", "Chip", "chip"]


@dataclass(frozen=True)
class Chip:
    """`chip_id` is core, major, minor and patch, a byte each. `waves` are the widths of waves."""

    name: str
    chip_id: int
    waves: tuple[int, ...] = (64, 128)
    lacks: frozenset[str] = frozenset()
    has_scalar_alu: bool = False

    @property
    def gpu_id(self) -> int:
        """The number by which it is known: 630."""
        return int(self.name[1:])


_DOT = frozenset({"dp2acc", "dp4acc"})
_FIRST = _DOT | {"getfiberid", "sad.s16", "sad.s32"}
_THIRD = frozenset({"dp4acc", "getfiberid", "sad.s16", "sad.s32"})


def _chip_id(major: int, minor: int, patch: int) -> int:
    return 6 << 24 | major << 16 | minor << 8 | patch


CHIPS = {
    one.name: one
    for one in (
        Chip("a610", _chip_id(1, 0, 0), (64,), _FIRST),
        Chip("a612", _chip_id(1, 2, 0), (64,), _FIRST),
        Chip("a615", _chip_id(1, 5, 0), lacks=_FIRST),
        Chip("a616", _chip_id(1, 6, 0), lacks=_FIRST),
        Chip("a618", _chip_id(1, 8, 0), lacks=_FIRST),
        Chip("a619", _chip_id(1, 9, 0), lacks=_FIRST),
        Chip("a620", _chip_id(2, 0, 0), lacks=_FIRST),
        Chip("a621", _chip_id(2, 1, 0), lacks=_THIRD, has_scalar_alu=True),
        Chip("a630", _chip_id(3, 0, 1), lacks=_FIRST),
        Chip("a640", _chip_id(4, 0, 0), lacks=_FIRST),
        Chip("a643", _chip_id(3, 5, 0), has_scalar_alu=True),
        Chip("a650", _chip_id(5, 0, 2), lacks=_THIRD, has_scalar_alu=True),
        Chip("a660", _chip_id(6, 0, 1), has_scalar_alu=True),
        Chip("a663", _chip_id(6, 3, 0), has_scalar_alu=True),
        Chip("a680", _chip_id(8, 0, 0), lacks=_FIRST),
        Chip("a690", _chip_id(9, 0, 0), has_scalar_alu=True),
    )
}


def chip(name: str) -> Chip:
    """The chip of a name. Raises ValueError for one that is not known."""
    if name not in CHIPS:
        raise ValueError(f"there is no chip {name!r}: {', '.join(CHIPS)} are known")
    return CHIPS[name]
