"""What the emulated GPUs of all drivers have in common: engines, and what stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from treadle.emulate.machine.injection import Injection
    from treadle.emulate.machine.ordering import Ordering
    from treadle.emulate.machine.platform import EmulatedPlatform
    from treadle.emulate.machine.scheduler import Engine

__all__ = ["GPU"]


class GPU:
    """A GPU. `used` counts the bytes of its memory that are allocated.

    `is_halted`: after a fault none of its engines goes on. `is_lost`: the driver refuses all calls.
    """

    def __init__(self, platform: EmulatedPlatform) -> None:
        self.used = 0
        self.is_halted = self.is_lost = False
        self.injection: Injection | None = None
        self._platform = platform

    @property
    def random(self) -> Random:
        return self._platform.scheduler.random

    @property
    def ordering(self) -> Ordering:
        return self._platform.ordering

    def drops(self, kind: str) -> bool:
        """Whether a command is passed over on purpose."""
        return self.injection is not None and self.injection.drops(kind)

    def changed(self, kind: str, data: bytes) -> bytes:
        """Bytes of a kind, which may be changed on purpose."""
        return data if self.injection is None else self.injection.changed(kind, data)

    def run(self, engines: Sequence[Engine]) -> None:
        """Engines that run from now on."""
        for engine in engines:
            self._platform.scheduler.add(engine)

    def end(self, engines: Sequence[Engine]) -> None:
        """Engines that are no more; what they have not done is not done."""
        for engine in engines:
            self._platform.scheduler.remove(engine)

    def explain(self, why: str) -> None:
        """Keeps what a failure was, for those who ask the platform."""
        self._platform.failure = why
