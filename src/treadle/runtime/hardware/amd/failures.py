"""What AMD's driver says when something fails, beyond what all drivers say.

failures = AMDFailures("AMD", platform)
failures.memory_fault(0x7000, read_only=True, no_execute=False)
"""

from __future__ import annotations

from treadle.errors import DeviceError
from treadle.runtime.hardware.failures import Advice, DriverError, Failures

__all__ = ["ADVICE", "OLDEST_INTERFACE", "AMDFailures", "KFDError", "too_old"]

OLDEST_INTERFACE = (1, 6)  # Linux 5.15

ADVICE = Advice(
    "AMD",
    "the kernel driver amdgpu is not loaded, or has no GPU that computes",
    "sudo usermod -aG render,video $USER, and log in again",
    "sudo modprobe amdgpu",
)


class KFDError(DriverError):
    """A call of the kernel driver failed, with an `errno`."""


def too_old(version: tuple[int, int]) -> DeviceError:
    """What to say of a driver whose interface misses calls."""
    have, need = (".".join(map(str, one)) for one in (version, OLDEST_INTERFACE))
    return DeviceError(
        f"AMD: the kernel driver amdgpu is too old: its interface is {have}, and {need} is needed; "
        "update the kernel to Linux 5.15 or newer"
    )


class AMDFailures(Failures):
    """What the GPU's events tell."""

    def memory_fault(self, address: int, read_only: bool, no_execute: bool) -> None:
        """The GPU's page tables refused an access."""
        how = "wrote to read-only memory" if read_only else "used memory that is not its own"
        how = "ran code where none is" if no_execute else how
        self.stop(f"a kernel {how}, in the page at {address:#x}")

    def hw_exception(self, memory_lost: bool) -> None:
        """The GPU hangs, or the driver has reset it."""
        if memory_lost:
            self.lose("the driver has reset it, or it is no longer there")
        else:
            self.stop("a kernel or a command stopped it, such as an illegal instruction")
