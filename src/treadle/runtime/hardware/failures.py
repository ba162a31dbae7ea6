"""A driver's failures as one clear sentence each, and what they mean for later uses of a device.

    failures = Failures("AMD", platform)
    with failures.translated("allocate 1 GiB"): driver.call(...)     # DriverErrors become sentences
    failures.stop("a kernel used memory that is not its own")        # every later use raises this

What stops a GPU's queues stops them for good: from then on every use of the device raises what
happened. A kernel's fault shows at a later call, so `launched` keeps the names of what may have
caused it.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.runtime.hardware.platform import Platform
from treadle.runtime.presence import Launching

__all__ = ["Advice", "Cause", "DriverError", "Failures", "opening", "opening_failed"]

_REFUSED = (errno.EACCES, errno.EPERM)
_GONE = (errno.ENODEV, errno.EIO, errno.ENXIO)


class Cause(enum.Enum):
    """Why a call of a driver failed, as far as users can do something about it."""

    GONE = enum.auto()
    NO_MEMORY = enum.auto()
    NO_PERMISSION = enum.auto()
    OUR_MISTAKE = enum.auto()
    UNKNOWN = enum.auto()


_CAUSES = {
    **dict.fromkeys(_GONE, Cause.GONE),
    **dict.fromkeys(_REFUSED, Cause.NO_PERMISSION),
    **dict.fromkeys((errno.EINVAL, errno.EFAULT, errno.ENOTTY), Cause.OUR_MISTAKE),
    errno.ENOMEM: Cause.NO_MEMORY,
}


class DriverError(Exception):
    """A call of a kernel driver failed: with an `errno`, where `told` says nothing else."""

    def __init__(self, call: str, error: OSError | None = None, told: str = "") -> None:
        self.call, self.errno = call, error.errno or 0 if error is not None else 0
        if error is not None:
            told = f"{errno.errorcode.get(self.errno, self.errno)} ({error.strerror})"
        super().__init__(f"{call}: {told}")

    @property
    def cause(self) -> Cause:
        """What it means."""
        return _CAUSES.get(self.errno, Cause.UNKNOWN)


@dataclass(frozen=True)
class Advice:
    """How users mend a driver `name` whose files are not to be opened.

    `missing` says what is not there. `permit` and `load` are the commands that mend it.
    """

    name: str
    missing: str
    permit: str
    load: str


def opening_failed(advice: Advice, path: str, error: OSError) -> DeviceError:
    """Why a device file cannot be opened: the reason, `;`, and what mends it."""
    name = advice.name
    if error.errno in _REFUSED:
        permit = advice.permit.format(path=path)
        return DeviceError(f"{name}: this user may not open {path}; {permit}")
    if error.errno in (errno.ENOENT, *_GONE):
        return DeviceError(
            f"{name}: there is no {path}: {advice.missing} (EMULATE=1 emulates one); {advice.load}"
        )
    return DeviceError(f"{name}: {path} cannot be opened ({error.strerror}); restart the machine")


_MENDS = {
    Cause.NO_MEMORY: "end other programs that use the GPU",
    Cause.NO_PERMISSION: "run as root, or ask who runs the machine",
}


@contextmanager
def opening(name: str, what: str) -> Iterator[None]:
    """A block before there is a device: driver errors are DeviceErrors, with what mends them."""
    try:
        yield
    except DriverError as error:
        mend = _MENDS.get(error.cause, "load the kernel driver anew, or restart the machine")
        raise DeviceError(f"{name}: could not {what} ({error}); {mend}") from error


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
        except DriverError as error:
            raise self._raised(error, what) from error
        except TimeoutError as error:
            raise DeviceError(
                self.stop(f"it has not finished what it was given: {error}")
            ) from error

    def _raised(self, error: DriverError, what: str) -> Exception:
        cause = error.cause
        if cause is Cause.GONE:
            return DeviceError(self.lose(f"the kernel driver says {error}"))
        if cause is Cause.NO_MEMORY:
            return OutOfMemory(
                f"{self.name}: no memory to {what}: delete tensors that are no longer needed, or "
                "use smaller batches"
            )
        if cause is Cause.NO_PERMISSION:
            return DeviceError(f"{self.name}: this user may not {what} ({error}); {_MENDS[cause]}")
        kind = InternalError if cause is Cause.OUR_MISTAKE else DeviceError
        return kind(f"{self.name}: could not {what}: {error}")

    def stop(self, what: str) -> str:
        """From now on every use of the device raises this; what it says."""
        suspects = ", ".join(dict.fromkeys(self._running))
        told = self._platform.explain()
        self.lost = (
            f"{self.name}: {what}{f' ({told})' if told else ''}"
            f"{f'; what ran: {suspects}' if suspects else ''}. The device's tensors are gone, and "
            "this process can use it no more: start it anew; other devices go on"
        )
        return self.lost
