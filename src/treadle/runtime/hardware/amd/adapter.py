"""What an AMD GPU is, as the Target that scheduling and code generation know.

target_of(node, None, False)        ->  Target(name="AMD Radeon RX 7900 XTX (gfx1100)", ...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.errors import DeviceError
from treadle.runtime.hardware.adapter import check_arch, described
from treadle.target.amd import AMD_CHIPS, amd_target

if TYPE_CHECKING:
    from treadle.runtime.hardware.amd.discovery import Node
    from treadle.runtime.hardware.amd.kfd import KFD
    from treadle.target import Target

__all__ = ["describe", "target_of"]


def target_of(node: Node, arch: str | None, is_emulated: bool) -> Target:
    """The Target of a GPU. `arch` is what was asked for; machine code runs on its own chip alone.

    Raises DeviceError for a GPU of another chip, and for one that no code is made for.
    """
    check_arch("AMD", node.name, node.arch, arch)
    if node.arch not in AMD_CHIPS:
        raise DeviceError(
            f"AMD: {node.name} is of {node.arch}, and treadle makes code for "
            f"{', '.join(AMD_CHIPS)}; choose another device"
        )
    return described(amd_target(node.arch), node.name, node.arch, node.units, is_emulated)


def describe(kfd: KFD) -> str:
    """The GPUs in one line, for `treadle doctor`. Raises DeviceError if there is none to use."""
    if not kfd.nodes:
        raise DeviceError("AMD: the kernel driver shows no GPU; sudo dmesg | grep amdgpu")
    shown, refusals = [], []
    for node in kfd.nodes:
        try:
            target = target_of(node, None, kfd.platform.is_emulated)
        except DeviceError as error:
            refusals.append(error)
            continue
        shown.append(f"{target.name} with {node.memory >> 30} GiB")
    if not shown:
        raise refusals[0]
    return ", ".join(shown)
