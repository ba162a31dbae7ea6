"""What an Adreno GPU is, as the Target that scheduling and code generation know.

target_of(0x06030001, None, False)    ->  Target(name="Adreno 630 (a630)", ...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.errors import DeviceError
from treadle.runtime.hardware.adapter import check_arch, described
from treadle.target import ADRENO_CHIPS, adreno_chip, adreno_target

if TYPE_CHECKING:
    from treadle.runtime.hardware.qcom.kgsl import KGSL
    from treadle.target import Target

__all__ = ["describe", "target_of"]


def _arch_of(chip_id: int) -> str:
    """The name of a chip, whatever its patch. Raises DeviceError for one without code."""
    for name in ADRENO_CHIPS:
        if adreno_chip(name).chip_id >> 8 == chip_id >> 8:
            return name
    raise DeviceError(
        f"QCOM: treadle makes no code for the GPU with chip id {chip_id:#010x}, only for "
        f"{', '.join(ADRENO_CHIPS)}; choose another device"
    )


def target_of(chip_id: int, arch: str | None, is_emulated: bool) -> Target:
    """The Target of a GPU. `arch` is what was asked for; machine code runs on its own chip alone.

    Raises DeviceError for a GPU of another chip, and for one that no code is made for.
    """
    own = _arch_of(chip_id)
    target = adreno_target(own)
    check_arch("QCOM", target.name, own, arch)
    return described(target, target.name, own, adreno_chip(own).cores, is_emulated)


def describe(kgsl: KGSL) -> str:
    """The GPU in one line, for `treadle doctor`. Raises DeviceError if there is none to use."""
    return target_of(kgsl.chip_id, None, kgsl.platform.is_emulated).name
