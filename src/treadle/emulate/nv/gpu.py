"""One emulated GPU: its channels, its memory, and what becomes of it when it is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.machine.gpu import GPU
from treadle.emulate.nv import tables
from treadle.emulate.nv.channel import Channel

if TYPE_CHECKING:
    from treadle.emulate.machine.platform import EmulatedPlatform
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
        facts.group.channels.append(channel)
        self.run(channel.engines)
        return channel

    def remove_channel(self, channel: Channel) -> None:
        """A channel that is no more; what it has not done is not done."""
        del self.channels[channel.token]
        channel.facts.group.channels.remove(channel)
        channel.stop()
        self.end(channel.engines)

    def rung(self, token: int) -> None:
        """A doorbell."""
        if token in self.channels:
            self.channels[token].ring()

    # -- faults -----------------------------------------------------------------------------------

    def lose(self) -> None:
        """The GPU falls off the bus."""
        self.is_halted = self.is_lost = True
        for channel in self.channels.values():
            channel.stop()
            channel.notify(tables.number("ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"))
