"""OpenCL C becomes a program binary, through the driver of the device itself.

    OpenCLCompiler(device.target, device.build).compile(source)  ->  bytes for device.load

One surprise: only the driver that made a binary can read it, so its version is part of `version`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compile.report import save_rejected
from treadle.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.target import Target

__all__ = ["OpenCLCompiler"]


class OpenCLCompiler:
    """Compiles by `build`, which the device offers: source to binary."""

    name = "OPENCL"
    travels = False
    target: Target

    def __init__(self, target: Target, build: Callable[[str], bytes]) -> None:
        self.target, self._build = target, build

    @property
    def version(self) -> str:
        """The device and its driver."""
        return f"{self.target.cpu} {self.target.features}"

    def available(self) -> str | None:
        """None: a device that is open has a compiler."""
        return None

    def compile(self, source: str) -> bytes:
        """The binary of `source`. Raises InternalError, naming where it was saved."""
        try:
            return self._build(source)
        except InternalError as error:
            raise InternalError(f"{error}; source: {save_rejected(source, '.cl')}") from error
