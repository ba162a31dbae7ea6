"""What the engines of a channel ask of their GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from treadle.emulate.machine import queue

if TYPE_CHECKING:
    from treadle.emulate.nv.chips import Chip
    from treadle.emulate.nv.dispatch import Execute

__all__ = ["GPU"]


class GPU(queue.GPU, Protocol):
    """What a channel asks of its GPU, an EmulatedGPU."""

    chip: Chip
    gpu_id: int
    execute: Execute

    def explain(self, why: str) -> None: ...
