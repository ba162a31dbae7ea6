"""The kernel driver KGSL, as one object of a process: its calls.

kgsl = KGSL(platform)                     # DeviceError where it is not there
kgsl.call("alloc", size=4096)["id"]
"""

from __future__ import annotations

from treadle.runtime.hardware.driver_file import DriverFile
from treadle.runtime.hardware.host_memory import address_of
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


class KGSL(DriverFile):
    """The opened driver. Failures of calls are KGSLErrors."""

    path, calls, advice, error = "/dev/kgsl-3d0", CALLS, ADVICE, KGSLError
    chip_id: int

    def begin(self) -> None:
        """Asks which GPU there is."""
        self.chip_id = self._info()["chip_id"]

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
