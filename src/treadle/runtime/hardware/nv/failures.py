"""NVIDIA's failures as one clear sentence each, and what they mean for later uses of the device.

    failures = Failures("NV", platform)
    with failures.translated("allocate 1 GiB"): rm.alloc(...)
    failures.look(notifiers)                       # DeviceError where a channel has stopped

What stops a channel stops it for good: from then on every use of the device raises what happened.
The driver writes it into the channel's error notifier; `ERRORS` are its numbers (`nverror.h`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.runtime.hardware.platform import Platform
from treadle.runtime.presence import Launching

__all__ = ["Failures", "RMError", "opening_failed"]

_GONE = (errno.ENODEV, errno.EIO, errno.ENXIO)

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

_MMU_FAULT, _FELL_OFF = 31, 79
_ERRORS = {
    13: "a kernel stopped, such as at an illegal instruction or a trap",
    _MMU_FAULT: "a kernel or a copy used memory that is not its own",
    32: "the commands of a channel are not what the GPU understands",
    39: "a copy stopped",
    69: "a command has a value that its class does not allow",
}


class RMError(Exception):
    """A call of the kernel driver failed: with a status of RM's or UVM's, or with an `errno`."""

    def __init__(self, call: str, status: int = 0, error: OSError | None = None) -> None:
        self.call, self.status = call, status
        self.errno = error.errno or 0 if error is not None else 0
        told = _NAMES.get(status, f"status {status:#x}")
        if error is not None:
            told = f"{errno.errorcode.get(self.errno, self.errno)} ({error.strerror})"
        super().__init__(f"{call}: {told}")


def opening_failed(path: str, error: OSError) -> DeviceError:
    """Why a device file cannot be opened: the reason, `;`, and what mends it."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return DeviceError(
            f"NV: this user may not open {path}; sudo chmod a+rw {path}, or ask whose it is"
        )
    if error.errno in (errno.ENOENT, *_GONE):
        return DeviceError(
            f"NV: there is no {path}: NVIDIA's kernel driver is not loaded, or has no GPU "
            "(EMULATE=1 emulates one); sudo nvidia-modprobe -u -c 0"
        )
    return DeviceError(f"NV: {path} cannot be opened ({error.strerror}); restart the machine")


class Failures(Launching):
    """What has gone wrong on one device, and what runs there that may still fail."""

    def __init__(self, name: str, platform: Platform) -> None:
        super().__init__(name, "the kernel driver")
        self._platform = platform

    @contextmanager
    def translated(self, what: str) -> Iterator[None]:
        """A block whose driver errors are raised as what users are to read."""
        self.check()
        try:
            yield
        except RMError as error:
            raise self._raised(error, what) from error
        except TimeoutError as error:
            self.stop(f"it has not finished what it was given: {error}")
            raise DeviceError(self.lost) from error

    def _raised(self, error: RMError, what: str) -> Exception:
        if error.status == _LOST or error.errno in _GONE:
            return DeviceError(self.lose(f"the kernel driver says {error}"))
        if error.status in (_NO_MEMORY, _NO_RESOURCES) or error.errno == errno.ENOMEM:
            return OutOfMemory(
                f"{self.name}: no memory to {what}: delete tensors that are no longer needed, or "
                "use smaller batches"
            )
        if error.status == _NO_PERMISSION:
            return DeviceError(
                f"{self.name}: this user may not {what} ({error}); run as root, or ask who runs "
                "the machine"
            )
        if error.status or error.errno in (errno.EINVAL, errno.EFAULT, errno.ENOTTY):
            return InternalError(f"{self.name}: could not {what}: {error}")
        return DeviceError(f"{self.name}: could not {what}: {error}")

    def channel_stopped(self, number: int, fault: int | None) -> None:
        """A channel's notifier has an error; `fault` is the address of an MMU fault, if known."""
        if number == _FELL_OFF:
            self.lose("it has fallen off the bus")
            return
        where = f", at {fault:#x}" if fault is not None else ""
        told = _ERRORS.get(number, "a channel stopped")
        self.stop(f"{told}{where} (Xid {number})")

    def stop(self, what: str) -> None:
        """From now on every use of the device raises this."""
        suspects = ", ".join(dict.fromkeys(self._running))
        told = self._platform.explain()
        self.lost = (
            f"{self.name}: {what}{f' ({told})' if told else ''}"
            f"{f'; what ran: {suspects}' if suspects else ''}. The device's tensors are gone, and "
            "this process can use it no more: start it anew; other devices go on"
        )
