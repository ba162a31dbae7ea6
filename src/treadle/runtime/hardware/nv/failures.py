"""What NVIDIA's driver says when something fails, beyond what all drivers say.

    failures = NVFailures("NV", platform)
    failures.channel_stopped(31, fault=0x7000)     # "used memory that is not its own, at 0x7000"

What stops a channel stops it for good. The driver writes why into the channel's error notifier, by
the numbers of `nverror.h`.
"""

from __future__ import annotations

from treadle.runtime.hardware.failures import Advice, Cause, DriverError, Failures

__all__ = ["ADVICE", "NVFailures", "RMError"]

ADVICE = Advice(
    "NV",
    "NVIDIA's kernel driver is not loaded, or has no GPU",
    "sudo chmod a+rw {path}, or ask whose it is",
    "sudo nvidia-modprobe -u -c 0",
)

# Status codes of `nvstatuscodes.h` that users meet.
_LOST, _NO_PERMISSION, _NO_RESOURCES, _NO_MEMORY = 0x0F, 0x1B, 0x1A, 0x51
_NAMES = {
    _LOST: "GPU_IS_LOST", 0x19: "INSERT_DUPLICATE_NAME", _NO_RESOURCES: "INSUFFICIENT_RESOURCES",
    _NO_PERMISSION: "INSUFFICIENT_PERMISSIONS", 0x1E: "INVALID_ADDRESS",
    0x1F: "INVALID_ARGUMENT", 0x22: "INVALID_CLASS", 0x23: "INVALID_CLIENT",
    0x26: "INVALID_DEVICE", 0x2E: "INVALID_LIMIT", 0x33: "INVALID_OBJECT_HANDLE",
    0x36: "INVALID_OBJECT_PARENT", 0x3A: "INVALID_PARAM_STRUCT", 0x40: "INVALID_STATE",
    _NO_MEMORY: "NO_MEMORY", 0x56: "NOT_SUPPORTED", 0x57: "OBJECT_NOT_FOUND",
    0x68: "UVM_ADDRESS_IN_USE",
}  # fmt: skip
_CAUSES = {
    _LOST: Cause.GONE, _NO_PERMISSION: Cause.NO_PERMISSION, _NO_RESOURCES: Cause.NO_MEMORY,
    _NO_MEMORY: Cause.NO_MEMORY,
}  # fmt: skip

_MMU_FAULT, _FELL_OFF = 31, 79
_ERRORS = {
    13: "a kernel stopped, such as at an illegal instruction or a trap",
    _MMU_FAULT: "a kernel or a copy used memory that is not its own",
    32: "the commands of a channel are not what the GPU understands",
    39: "a copy stopped",
    69: "a command has a value that its class does not allow",
}


class RMError(DriverError):
    """A call of the kernel driver failed: with a status of RM's or UVM's, or with an `errno`.

    `newer` is the driver's release, where its calls may not be those that this code knows.
    """

    def __init__(
        self, call: str, status: int = 0, error: OSError | None = None, newer: str = ""
    ) -> None:
        self.status = status
        super().__init__(call, error, _NAMES.get(status, f"status {status:#x}"))
        self._newer = newer if self._usual_cause is Cause.OUR_MISTAKE else ""

    def __str__(self) -> str:
        told = super().__str__()
        if not self._newer:
            return told
        return (
            f"{told} (the kernel driver is of release {self._newer}, newer than all that this "
            "version of treadle knows: install a newer treadle, or use DEV=CUDA)"
        )

    @property
    def cause(self) -> Cause:
        """What it means."""
        return Cause.UNKNOWN if self._newer else self._usual_cause

    @property
    def _usual_cause(self) -> Cause:
        return _CAUSES.get(self.status, Cause.OUR_MISTAKE) if self.status else super().cause


class NVFailures(Failures):
    """What the notifiers of channels tell."""

    def channel_stopped(self, number: int, fault: int | None) -> None:
        """A channel's notifier has an error; `fault` is the address of an MMU fault, if known."""
        if number == _FELL_OFF:
            self.lose("it has fallen off the bus")
            return
        where = f", at {fault:#x}" if fault is not None else ""
        told = _ERRORS.get(number, "a channel stopped")
        self.stop(f"{told}{where} (Xid {number})")
