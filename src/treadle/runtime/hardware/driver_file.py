"""A kernel driver behind one device file: its calls by their names.

class KGSL(DriverFile): ...                 # with its path, its calls, its advice and its error
KGSL(platform).call("alloc", size=4096)["id"]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from treadle.runtime.hardware.failures import Advice, DriverError, opening, opening_failed
from treadle.runtime.hardware.platform import Platform
from treadle.runtime.hardware.structs import Struct, Value

__all__ = ["DriverFile"]


class DriverFile:
    """The opened file. All threads may use it. Raises DeviceError where it does not open.

    `calls` has the number of each call and the layout of its argument, `error` is what a call that
    fails raises.
    """

    path: ClassVar[str]
    calls: ClassVar[Mapping[str, tuple[int, Struct]]]
    advice: ClassVar[Advice]
    error: ClassVar[type[DriverError]]

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        try:
            self.fd = platform.open(self.path)
        except OSError as error:
            raise opening_failed(self.advice, self.path, error) from error
        try:
            with opening(self.advice.name, "open the kernel driver"):
                self.begin()
        except BaseException:
            platform.close(self.fd)
            raise

    def begin(self) -> None:
        """Asks what has to be known first; DeviceError for a driver that does not do."""

    def call(self, name: str, /, **values: Value) -> dict[str, Value]:
        """One call; what its argument holds then. Raises `error`."""
        request, layout = self.calls[name]
        argument = layout.pack(**values)
        try:
            self.platform.ioctl(self.fd, request, argument)
        except OSError as error:
            raise self.error(name, error) from error
        return layout.unpack(argument)
