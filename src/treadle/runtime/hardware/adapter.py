"""What all GPUs of the hardware have that a driver shows: a place, an architecture, a description.

numbered(nodes, 1, "AMD:1")            ->  the second, or DeviceError
described(target, "AMD", "Radeon", "gfx1100", 96, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from treadle.errors import DeviceError
from treadle.target import Target

__all__ = ["check_arch", "described", "numbered"]

_Found = TypeVar("_Found")


def numbered(found: Sequence[_Found], index: int, name: str) -> _Found:
    """GPU `index` of those that a driver shows. Raises DeviceError if there is none."""
    if index < len(found):
        return found[index]
    count = len(found)
    raise DeviceError(
        f"there is no {name}: the kernel driver shows {count or 'no'} GPU{'s' * (count != 1)}"
    )


def check_arch(driver: str, gpu: str, own: str, wanted: str | None) -> None:
    """Raises DeviceError for code of another architecture: machine code runs on its own alone."""
    if wanted not in (None, own):
        raise DeviceError(
            f"{driver}: {gpu} is of {own}, which does not run code for {wanted}: leave it out"
        )


def described(target: Target, gpu: str, arch: str, units: int, is_emulated: bool) -> Target:
    """The Target of one GPU, which has so many units that compute."""
    assert target.workgroup is not None
    return replace(
        target,
        name=f"{'emulated ' if is_emulated else ''}{gpu} ({arch})",
        cores=units,
        workgroup=replace(target.workgroup, busy=units),
    )
