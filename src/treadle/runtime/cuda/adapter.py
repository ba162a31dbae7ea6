"""What a CUDA device is, as the Target that scheduling and code generation know.

target_of(facts)            ->  Target(name="NVIDIA H100 ... (sm_90a)", cpu="sm_90a", ...)
target_of(facts, "sm_80")   ->  code for an older architecture, which newer GPUs compile anew
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.errors import DeviceError
from treadle.runtime.cuda.driver import DeviceFacts
from treadle.target.nvidia import OLDEST, arch_of_capability, nvidia_target

if TYPE_CHECKING:
    from treadle.runtime.cuda.driver import Driver
    from treadle.target import Target

__all__ = ["describe", "runs_as_it_is", "target_of"]

_ORIN = (8, 7)


def target_of(facts: DeviceFacts, arch: str | None = None) -> Target:
    """The Target of a device, or of an older `arch` on it.

    Raises DeviceError for a GPU that is too old, or older than `arch`; SettingError for an `arch`
    that is not known.
    """
    own = arch_of_capability(*facts.capability)
    capability = "".join(map(str, facts.capability))
    if own is None:
        raise DeviceError(
            f"CUDA: {facts.name} is of architecture sm_{capability}, and treadle makes code for "
            f"{OLDEST} and newer; choose another device"
        )
    target = nvidia_target(arch or own)
    workgroup = target.workgroup
    number = target.cpu.removeprefix("sm_")
    fits = own == target.cpu if number.endswith("a") else int(number) <= int(capability)
    if not fits:
        raise DeviceError(
            f"CUDA: {facts.name} is of architecture {own}, which does not run code for "
            f"{target.cpu}: leave it out"
        )
    return replace(
        target,
        name=f"{facts.name} ({target.cpu})",
        l2=facts.l2 or target.l2,
        cores=facts.multiprocessors,
        workgroup=workgroup
        and replace(workgroup, busy=facts.multiprocessors, shared_bytes=facts.shared_optin),
    )


def runs_as_it_is(facts: DeviceFacts, target: Target) -> bool:
    """Whether the device takes machine code for `target`; it compiles PTX otherwise.

    Code runs on later chips of its generation, too, if it is not for one chip's own instructions;
    between Orin and the others it does not.
    """
    number, own = int(target.cpu.removeprefix("sm_").removesuffix("a")), facts.capability
    if facts.is_emulated or number == 10 * own[0] + own[1]:
        return not facts.is_emulated
    major, minor = divmod(number, 10)
    return (
        major == own[0]
        and minor < own[1]
        and target.cpu[-1] != "a"
        and _ORIN not in ((major, minor), own)
    )


def describe(driver: Driver) -> str:
    """The devices in one line, for `treadle doctor`. Raises DeviceError if there is none to use."""
    shown, useless = [], []
    for facts in driver.devices():
        try:
            shown.append(f"{target_of(facts).name} with {_features(facts)}")
        except DeviceError as error:
            useless.append(error)
            shown.append(f"{facts.name}, which is too old")
    if not shown:
        raise DeviceError("CUDA: the driver sees no NVIDIA GPU; look at CUDA_VISIBLE_DEVICES")
    if len(useless) == len(shown):
        raise useless[0]
    if driver.is_emulated:
        return ", ".join(shown)
    return f"{', '.join(shown)}, driver for CUDA {'.'.join(map(str, driver.version))}"


def _features(facts: DeviceFacts) -> str:
    """What programs there can use, and what is in their way."""
    units = sorted({unit.dtype.name for unit in target_of(facts).matrix_units})
    found = [f"{facts.memory >> 30} GiB", f"{facts.shared_optin >> 10} KiB shared by a block"]
    found.append(f"matrix units for {', '.join(units)}" if units else "no matrix units in use")
    if facts.capability >= (9, 0):
        found.append("tensor maps")
    if not facts.has_pools:
        found.append("no memory pools, so that freeing waits for the device")
    if facts.has_watchdog and not facts.is_emulated:
        found.append("a display's watchdog, which ends kernels that run for seconds")
    return ", ".join(found)
