"""What the engines of a channel ask of their GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from random import Random

    from treadle.emulate.nv.chips import Chip
    from treadle.emulate.nv.dispatch import Execute
    from treadle.emulate.nv.faults import ChannelFault
    from treadle.emulate.nv.injection import Injection

__all__ = ["GPU"]


class GPU(Protocol):
    """What a channel asks of its GPU, an EmulatedGPU."""

    chip: Chip
    execute: Execute
    is_halted: bool
    injection: Injection | None

    @property
    def random(self) -> Random: ...
    def drops(self, kind: str) -> bool: ...
    def clock(self) -> int: ...
    def halt(self, fault: ChannelFault) -> None: ...
