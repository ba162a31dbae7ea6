"""What an NVIDIA GPU is, as the Target that scheduling and code generation know.

target_of("sm_80", facts, None, False)    ->  Target(name="NVIDIA A100 (sm_80)", ...)

One surprise: there are no units of a warpgroup (sm_90a). Their kernels take tensor maps, and only
NVIDIA's own library knows how these are encoded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.errors import DeviceError
from treadle.runtime.hardware.adapter import check_arch, described
from treadle.runtime.hardware.failures import opening
from treadle.runtime.hardware.nv.objects import GPUObjects
from treadle.target.nvidia import nvidia_target

if TYPE_CHECKING:
    from treadle.runtime.hardware.nv.objects import Facts
    from treadle.runtime.hardware.nv.rm import RM
    from treadle.target import Target

__all__ = ["describe", "plain_target", "target_of"]


def plain_target(arch: str) -> Target:
    """The Target of an architecture. Raises SettingError for one that is not known."""
    return replace(nvidia_target(arch), warpgroup_units=(), rounding_warpgroup_units=())


def target_of(own: str, facts: Facts, arch: str | None, is_emulated: bool) -> Target:
    """The Target of a GPU. `arch` is what was asked for; machine code runs on its own chip alone.

    Raises DeviceError for a GPU of another architecture.
    """
    check_arch("NV", facts.name, own, arch)
    return described(plain_target(own), facts.name, own, facts.multiprocessors, is_emulated)


def describe(rm: RM) -> str:
    """The GPUs in one line, for `treadle doctor`. Raises DeviceError if there is none to use."""
    if not rm.cards:
        raise DeviceError("NV: the kernel driver shows no GPU; sudo dmesg | grep NVRM")
    shown, refusals = [], []
    for number, card in enumerate(rm.cards):
        try:
            with opening("NV", f"look at GPU {number}"):
                objects = GPUObjects(rm, card, number, "NV")
                objects.close()
        except DeviceError as error:
            refusals.append(error)
            continue
        facts, arch = objects.facts, objects.generation.arch
        target = target_of(arch, facts, None, rm.platform.is_emulated)
        shown.append(f"{target.name} with {facts.memory >> 30} GiB")
    if not shown:
        raise refusals[0]
    return f"{', '.join(shown)}, driver {rm.version}"
