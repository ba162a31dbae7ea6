"""The kernel driver KGSL, as one object of a process: its calls.

kgsl = KGSL(platform)                     # DeviceError where it is not there
kgsl.call("alloc", size=4096)["id"]
"""

from __future__ import annotations

from treadle.runtime.hardware.failures import opening_failed
from treadle.runtime.hardware.host_memory import address_of
from treadle.runtime.hardware.platform import Platform
from treadle.runtime.hardware.qcom.abi import (
    CALLS,
    COMMAND,
    CONTEXT_FLAGS,
    DEVICE_INFO,
    IB,
    INFO_PROPERTY,
)
from treadle.runtime.hardware.qcom.failures import ADVICE, KGSLError
from treadle.runtime.hardware.structs import Value

__all__ = ["KGSL"]

_PATH = "/dev/kgsl-3d0"


class KGSL:
    """The opened driver. All threads may use it."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        try:
            self.fd = platform.open(_PATH)
        except OSError as error:
            raise opening_failed(ADVICE, _PATH, error) from error
        self.chip_id: int = self._info()["chip_id"]

    def call(self, name: str, /, **values: Value) -> dict[str, Value]:
        """One call; what its argument holds then. Raises KGSLError."""
        request, layout = CALLS[name]
        argument = layout.pack(**values)
        try:
            self.platform.ioctl(self.fd, request, argument)
        except OSError as error:
            raise KGSLError(name, error) from error
        return layout.unpack(argument)

    def _info(self) -> dict[str, Value]:
        block = DEVICE_INFO.pack()
        self.call("getproperty", type=INFO_PROPERTY, value=address_of(block), sizebytes=len(block))
        return DEVICE_INFO.unpack(block)

    def create_context(self) -> int:
        """A context that has one queue of work."""
        return self.call("create", flags=CONTEXT_FLAGS)["drawctxt_id"]

    def submit(self, context: int, address: int, nbytes: int) -> int:
        """Starts packets behind what was started before, and gives their timestamp."""
        command = COMMAND.pack(gpuaddr=address, size=nbytes, flags=IB)
        told = self.call(
            "command", cmdlist=address_of(command), cmdsize=len(command), numcmds=1,
            context_id=context,
        )  # fmt: skip
        return told["timestamp"]

    def wait(self, context: int, timestamp: int, milliseconds: int) -> bool:
        """Sleeps until work has ended, or for so long; whether it has. Raises KGSLError."""
        try:
            self.call("wait", context_id=context, timestamp=timestamp, timeout=milliseconds)
        except KGSLError as error:
            if error.is_timeout:
                return False
            raise
        return True
