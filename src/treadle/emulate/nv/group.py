"""A channel group: the channels of one client that a fault stops together.

Channels of other groups, such as other processes', go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from treadle.emulate.machine.memory import MemoryFault
from treadle.emulate.nv.faults import ChannelFault

if TYPE_CHECKING:
    from treadle.emulate.machine.faults import EngineFault
    from treadle.emulate.nv.engines import GPU

__all__ = ["ChannelGroup"]


class _Notified(Protocol):
    """A channel, as far as faults go."""

    def notify(self, number: int) -> None: ...
    def stop(self) -> None:
        """Nothing that it has not done is ever done."""
        ...


class ChannelGroup:
    """A group on a GPU. `fault_address` is that of the MMU fault that has stopped it, if any."""

    def __init__(self, gpu: GPU) -> None:
        self._gpu = gpu
        self.channels: list[_Notified] = []
        self.is_halted = False
        self.fault_address: int | None = None

    def fail(self, fault: MemoryFault | EngineFault) -> None:
        """A channel met what it cannot do: the driver stops all of the group."""
        if isinstance(fault, MemoryFault):
            fault = ChannelFault("FIFO_ERROR_MMU_ERR_FLT", str(fault), fault.address)
        elif not isinstance(fault, ChannelFault):
            fault = ChannelFault("GR_EXCEPTION", str(fault))
        self.is_halted, self.fault_address = True, fault.address
        self._gpu.explain(str(fault))
        for channel in self.channels:
            channel.stop()
            channel.notify(fault.number)
