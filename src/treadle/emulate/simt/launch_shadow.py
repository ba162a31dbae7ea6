"""The tables behind races in global memory (see global_shadow), which launches take turns with."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from treadle.emulate.simt.global_rows import ENTRIES, LAST_EPOCH, PADDING
from treadle.forks import fork_safe

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LaunchShadow"]

_idle: list[LaunchShadow] = []
_lock = fork_safe(threading.Lock())


class LaunchShadow:
    """What one launch knows of global memory: at most 12 MiB, of which it gets what it touches."""

    def __init__(self) -> None:
        self._next = 1
        self._forget()

    def _forget(self) -> None:
        self.written, self.read = (np.zeros(ENTRIES + PADDING, np.uint64) for _ in range(2))
        self.owners = np.zeros(LAST_EPOCH + 1, np.uint32)

    @classmethod
    def take(cls) -> LaunchShadow:
        """One that no launch has; give it back with `give`."""
        with _lock:
            return _idle.pop() if _idle else cls()

    def start(self, workers: int) -> None:
        """Before a launch by so many host threads: no epoch is one of an earlier launch."""
        self._shift = (workers - 1).bit_length()
        if self._next > LAST_EPOCH // 2:
            self._next = 1
            self._forget()
        self._base = -(-self._next >> self._shift) << self._shift

    def enter(self, put: Callable[[str, int], None], worker: int, stamp: int) -> None:
        """Tells a host thread, whose stamp this is, what its checks need."""
        for name, value in (
            ("global_written", self.written.ctypes.data), ("global_read", self.read.ctypes.data),
            ("owners", self.owners.ctypes.data), ("epoch_shift", self._shift),
            ("epoch_base", self._base + worker - (stamp << self._shift)),
            ("epoch_before", self._base - 1), ("worker_mask", (1 << self._shift) - 1),
            ("worker", worker),
        ):  # fmt: skip
            put(name, value)

    def leave(self, stamps: int) -> None:
        """After a launch in which no host thread took more than `stamps` stamps."""
        self._next = min(self._base + ((stamps + 1) << self._shift), LAST_EPOCH)

    def give(self) -> None:
        """Another launch may take it."""
        with _lock:
            _idle.append(self)

    def block_at(self, epoch: int) -> int:
        """The number of the block whose epoch that was."""
        mine = self.owners[epoch :: -(1 << self._shift)]
        return int(mine[np.flatnonzero(mine)[0]]) - 1
