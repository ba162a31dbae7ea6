"""AMD's failures as one clear sentence each, and what they mean for later uses of the device.

    failures = Failures("AMD", platform)
    with failures.translated("allocate 1 GiB"): kfd.call(...)

What stops a GPU's queues stops them for good: from then on every use of the device raises what
happened. A kernel's fault shows at a later call, so `launched` keeps the names of what may have
caused it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.runtime.hardware.platform import Platform
from treadle.runtime.presence import Launching

__all__ = ["OLDEST_INTERFACE", "Failures", "KFDError", "opening_failed", "too_old"]

OLDEST_INTERFACE = (1, 6)  # Linux 5.15

_GONE = (errno.ENODEV, errno.EIO, errno.ENXIO)


class KFDError(Exception):
    """A call of the kernel driver failed, with an `errno`."""

    def __init__(self, call: str, error: OSError) -> None:
        self.call, self.errno = call, error.errno or 0
        super().__init__(
            f"{call}: {errno.errorcode.get(self.errno, self.errno)} ({error.strerror})"
        )


def opening_failed(path: str, error: OSError) -> DeviceError:
    """Why a device file cannot be opened: the reason, `;`, and what mends it."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return DeviceError(
            f"AMD: this user may not open {path}; sudo usermod -aG render,video $USER, and log in "
            "again"
        )
    if error.errno in (errno.ENOENT, *_GONE):
        return DeviceError(
            f"AMD: there is no {path}: the kernel driver amdgpu is not loaded, or has no GPU that "
            "computes; sudo modprobe amdgpu"
        )
    return DeviceError(f"AMD: {path} cannot be opened ({error.strerror}); restart the machine")


def too_old(version: tuple[int, int]) -> DeviceError:
    """What to say of a driver whose interface misses calls."""
    have, need = (".".join(map(str, one)) for one in (version, OLDEST_INTERFACE))
    return DeviceError(
        f"AMD: the kernel driver amdgpu is too old: its interface is {have}, and {need} is needed; "
        "update the kernel to Linux 5.15 or newer"
    )


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
        except KFDError as error:
            raise self._raised(error, what) from error
        except TimeoutError as error:
            self._stop(f"it has not finished what it was given: {error}")
            raise DeviceError(self.lost) from error

    def _raised(self, error: KFDError, what: str) -> Exception:
        if error.errno in _GONE:
            return DeviceError(self.lose(f"the kernel driver says {error}"))
        if error.errno == errno.ENOMEM:
            return OutOfMemory(
                f"{self.name}: no memory to {what}: delete tensors that are no longer needed, or "
                "use smaller batches"
            )
        if error.errno in (errno.EINVAL, errno.EFAULT, errno.ENOTTY):
            return InternalError(f"{self.name}: could not {what}: {error}")
        return DeviceError(f"{self.name}: could not {what}: {error}")

    # -- what the GPU's events tell ---------------------------------------------------------------

    def memory_fault(self, address: int, read_only: bool, no_execute: bool) -> None:
        """The GPU's page tables refused an access."""
        how = "wrote to read-only memory" if read_only else "used memory that is not its own"
        how = "ran code where none is" if no_execute else how
        self._stop(f"a kernel {how}, in the page at {address:#x}")

    def hw_exception(self, memory_lost: bool) -> None:
        """The GPU hangs, or the driver has reset it."""
        if memory_lost:
            self.lose("the driver has reset it, or it is no longer there")
        else:
            self._stop("a kernel or a command stopped it, such as an illegal instruction")

    def _stop(self, what: str) -> None:
        suspects = ", ".join(dict.fromkeys(self._running))
        told = self._platform.explain()
        self.lost = (
            f"{self.name}: {what}{f' ({told})' if told else ''}"
            f"{f'; what ran: {suspects}' if suspects else ''}. The device's tensors are gone, and "
            "this process can use it no more: start it anew; other devices go on"
        )
