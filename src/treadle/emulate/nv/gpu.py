"""One emulated GPU: its channels, its memory, and what becomes of it after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.machine.gpu import GPU
from treadle.emulate.machine.memory import MemoryFault
from treadle.emulate.nv import tables
from treadle.emulate.nv.channel import Channel
from treadle.emulate.nv.faults import ChannelFault

if TYPE_CHECKING:
    from treadle.emulate.machine.platform import EmulatedPlatform
    from treadle.emulate.machine.queue import EngineFault
    from treadle.emulate.nv.channel import ChannelFacts
    from treadle.emulate.nv.chips import Chip
    from treadle.emulate.nv.dispatch import Execute

__all__ = ["EmulatedGPU"]


class EmulatedGPU(GPU):
    """A GPU by its number. `is_open`: its file is registered with a client's."""

    def __init__(
        self, platform: EmulatedPlatform, chip: Chip, number: int, execute: Execute
    ) -> None:
        super().__init__(platform)
        self.chip, self.number, self.execute = chip, number, execute
        self.gpu_id = 0x100 * (number + 1)
        self.uuid = bytes([number + 1]) * 16
        self.is_open = False
        self.fault_address: int | None = None
        self.channels: dict[int, Channel] = {}
        self._tokens = 0

    def clock(self) -> int:
        """Nanoseconds of the GPU's clock."""
        return self._platform.now()

    # -- channels ---------------------------------------------------------------------------------

    def add_channel(self, facts: ChannelFacts) -> Channel:
        """A new channel, which runs when it is scheduled."""
        self._tokens += 1
        channel = Channel(self, self._tokens, facts)
        self.channels[channel.token] = channel
        self.run(channel.engines)
        return channel

    def remove_channel(self, channel: Channel) -> None:
        """A channel that is no more; what it has not done is not done."""
        del self.channels[channel.token]
        self.end(channel.engines)

    def rung(self, token: int) -> None:
        """A doorbell."""
        if token in self.channels:
            self.channels[token].ring()

    # -- faults -----------------------------------------------------------------------------------

    def fail(self, fault: MemoryFault | EngineFault) -> None:
        """A channel met what it cannot do: the driver stops all of the group."""
        if isinstance(fault, MemoryFault):
            kind = "FIFO_ERROR_MMU_ERR_FLT"
            fault = ChannelFault(kind, str(fault), fault.address)
        assert isinstance(fault, ChannelFault)
        self.halt(str(fault))
        self.fault_address = fault.address
        for channel in self.channels.values():
            channel.notify(fault.number)

    def lose(self) -> None:
        """The GPU falls off the bus."""
        self.is_halted = self.is_lost = True
        for channel in self.channels.values():
            channel.notify(tables.number("ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"))
