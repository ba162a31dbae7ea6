"""Whether this process still has a device that a driver gave it.

    presence = Presence("WEBGPU", "Dawn")
    presence.lose("unplugged")
    presence.check()               # DeviceError("WEBGPU: the device was lost (unplugged); ...")

Whoever is about to use the driver checks first. A child has no device of its parent's: drivers hold
threads and connections that no fork copies. What is lost stays lost, whatever the driver says next.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from treadle.errors import DeviceError
from treadle.forks import before_forks

__all__ = ["Launching", "Presence", "finish_first"]

_MOST_NAMES = 64  # of kernels that may still run


class Presence:
    """One device, by its name, and the driver that gave it."""

    def __init__(self, name: str, driver: str) -> None:
        self.name, self._driver, self._pid = name, driver, os.getpid()
        self.lost: str | None = None  # what every later use is told

    def lose(self, why: str) -> str:
        """From now on `check` raises; what it says."""
        self.lost = (
            f"{self.name}: the device was lost ({why}); its tensors are gone, other devices go on"
        )
        return self.lost

    def check(self) -> None:
        """Raises DeviceError in a forked child, and for a device that is lost."""
        if os.getpid() != self._pid:
            raise DeviceError(
                f"{self.name} was opened before this process was forked, and {self._driver} does "
                "not survive that: open devices in the child, or start it with 'spawn'"
            )
        if self.lost is not None:
            raise DeviceError(self.lost)


class Launching(Presence):
    """A device whose launches return before kernels have run: a later error may be of any."""

    def __init__(self, name: str, driver: str) -> None:
        super().__init__(name, driver)
        self._running: deque[str] = deque(maxlen=_MOST_NAMES)

    def launched(self, names: Iterable[str]) -> None:
        """Kernels have been started, and may fail from now on."""
        self._running.extend(names)

    def finished(self) -> None:
        """Everything that was started has come to its end."""
        self._running.clear()


class _Working(Protocol):
    def synchronize(self) -> None: ...


_ending: weakref.WeakSet[_Working] = weakref.WeakSet()
_forking: weakref.WeakSet[_Working] = weakref.WeakSet()


def finish_first(device: _Working, also_before_forks: bool = False) -> None:
    """Before this process ends, the device finishes what it was given; before it forks, too.

    Only a device whose `synchronize` takes no lock can do so before forks: what another thread
    holds then may never be free.
    """
    _ending.add(device)
    if also_before_forks:
        _forking.add(device)


def _finish(devices: weakref.WeakSet[_Working]) -> None:
    """Drivers crash where a process ends while they still compute, and some hang where it forks."""
    for device in list(devices):
        with contextlib.suppress(DeviceError):
            device.synchronize()


atexit.register(_finish, _ending)
before_forks.append(functools.partial(_finish, _forking))
