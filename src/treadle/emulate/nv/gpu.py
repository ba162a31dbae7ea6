"""One emulated GPU: its channels, its memory, and what becomes of it after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.nv import tables
from treadle.emulate.nv.channel import Channel

if TYPE_CHECKING:
    from random import Random

    from treadle.emulate.machine.platform import EmulatedPlatform
    from treadle.emulate.nv.channel import ChannelFacts
    from treadle.emulate.nv.chips import Chip
    from treadle.emulate.nv.dispatch import Execute
    from treadle.emulate.nv.faults import ChannelFault
    from treadle.emulate.nv.injection import Injection

__all__ = ["EmulatedGPU"]


class EmulatedGPU:
    """A GPU. `used` counts the bytes of its memory that are allocated.

    `is_halted`: after a fault none of its channels goes on. `is_lost`: the driver refuses calls.
    """

    def __init__(
        self, platform: EmulatedPlatform, chip: Chip, number: int, execute: Execute
    ) -> None:
        self.chip, self.number, self.execute = chip, number, execute
        self.gpu_id = 0x100 * (number + 1)
        self.uuid = bytes([number + 1]) * 16
        self.used = 0
        self.is_open = self.is_halted = self.is_lost = False
        self.fault_address: int | None = None
        self.injection: Injection | None = None
        self.channels: dict[int, Channel] = {}
        self._platform, self._tokens = platform, 0

    @property
    def random(self) -> Random:
        return self._platform.scheduler.random

    def drops(self, kind: str) -> bool:
        """Whether a command is passed over on purpose."""
        return self.injection is not None and self.injection.drops(kind)

    def clock(self) -> int:
        """Nanoseconds of the GPU's clock."""
        return self._platform.now()

    # -- channels ---------------------------------------------------------------------------------

    def add_channel(self, facts: ChannelFacts) -> Channel:
        """A new channel, which runs when it is scheduled."""
        self._tokens += 1
        channel = Channel(self, self._tokens, facts)
        self.channels[channel.token] = channel
        for engine in channel.engines:
            self._platform.scheduler.add(engine)
        return channel

    def remove_channel(self, channel: Channel) -> None:
        """A channel that is no more; what it has not done is not done."""
        del self.channels[channel.token]
        for engine in channel.engines:
            self._platform.scheduler.remove(engine)

    def rung(self, token: int) -> None:
        """A doorbell."""
        if token in self.channels:
            self.channels[token].ring()

    # -- faults -----------------------------------------------------------------------------------

    def halt(self, fault: ChannelFault) -> None:
        """A channel met what it cannot do: the driver stops all of the group."""
        self.is_halted = True
        self.fault_address = fault.address
        self._platform.failure = str(fault)
        for channel in self.channels.values():
            channel.notify(fault.number)

    def lose(self) -> None:
        """The GPU falls off the bus."""
        self.is_halted = self.is_lost = True
        for channel in self.channels.values():
            channel.notify(tables.number("ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"))
