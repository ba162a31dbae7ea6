"""What emulated kernel drivers have in common: GPUs of some chips, and files that are opened."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from treadle.emulate.machine.gpu import GPU
from treadle.emulate.machine.platform import refusal

if TYPE_CHECKING:
    from treadle.emulate.machine.injection import Injection
    from treadle.emulate.machine.platform import EmulatedPlatform, OpenFile

__all__ = ["DeviceNode", "Driver"]

G = TypeVar("G", bound=GPU)


class Driver(Generic[G]):
    """A driver. `refuses_access` makes its device files those of another user."""

    def __init__(self, platform: EmulatedPlatform, gpus: Sequence[G]) -> None:
        self.platform, self.gpus = platform, list(gpus)
        self.refuses_access = False

    def inject(self, injection: Injection | None) -> None:
        """Puts faults in on purpose, on all GPUs, from now on."""
        for gpu in self.gpus:
            gpu.injection = injection

    def add_file(self, path: str, make: Callable[[], OpenFile]) -> None:
        """A device file; each time that it is opened `make` gives an open file."""
        self.platform.add_device(path, DeviceNode(self, make))


class DeviceNode(Generic[G]):
    """A device file of a driver."""

    def __init__(self, driver: Driver[G], make: Callable[[], OpenFile]) -> None:
        self._driver, self._make = driver, make

    def open(self, fd: int) -> OpenFile:
        """OSError EACCES where the user may not."""
        if self._driver.refuses_access:
            raise refusal(errno.EACCES)
        return self._make()
