"""Call lists: launches as one block of native memory, which a single call replays.

    calls = CallList(pool, [Launch([Phase(address, grid=64, grain=8)], args=[a, b], vars=[n])])
    calls.set_arg(0, 1, other_pointer)
    calls.run()

A kernel has the C signature `void kernel(void **args, int64_t *vars, int64_t begin, int64_t
end)` and does the slice [begin, end) of its grid. One surprise: the list holds bare addresses;
`keep` names the libraries and buffers behind them, which then live as long as the list.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.runtime.base import Launch
    from treadle.runtime.pool import WorkerPool

__all__ = ["CallList", "Phase"]

_HEADER, _CALL, _PHASE = 4, 4, 3  # words of the native records


class Phase(NamedTuple):
    """One parallel pass over `grid`, handed out in slices of `grain`; a barrier follows it.

    A grid that is no larger than the grain runs on the calling thread at once.
    """

    function: int
    grid: int
    grain: int


class CallList:
    """A prepared sequence of launches. Two threads must not run or change one list at once."""

    def __init__(self, pool: WorkerPool, launches: Sequence[Launch], keep: object = None) -> None:
        self._pool, self._keep, self._count = pool, keep, len(launches)
        words = [0] * (_HEADER + _CALL * self._count)
        self._offsets: list[tuple[int, int, int]] = []
        for phases, args, variables in launches:
            offset = len(words)
            for phase in phases:
                words += phase
            self._offsets.append((offset, offset + _PHASE * len(phases), len(words) + len(args)))
            words += args
            words += variables
        self._words = array("q", words)
        self._base = self._words.buffer_info()[0]
        self._link(launches)

    def _link(self, launches: Sequence[Launch]) -> None:
        words, base = self._words, self._base
        words[0], words[1], words[2] = self._pool.address, base + 8 * _HEADER, self._count
        at = _HEADER
        for (phases, _, _), (first, args, variables) in zip(launches, self._offsets, strict=True):
            words[at] = len(phases)
            words[at + 1] = base + 8 * first
            words[at + 2] = base + 8 * args
            words[at + 3] = base + 8 * variables
            at += _CALL

    def __len__(self) -> int:
        return self._count

    def set_arg(self, call: int, slot: int, pointer: int) -> None:
        """Replaces the pointer in argument `slot` of launch `call`."""
        self._words[self._offsets[call][1] + slot] = pointer

    def set_var(self, call: int, slot: int, value: int) -> None:
        """Replaces the integer in variable `slot` of launch `call`."""
        self._words[self._offsets[call][2] + slot] = value

    def run(self) -> None:
        """Runs all launches in order, by one native call that does not hold the GIL."""
        self._pool.replay(self._base)

    def run_timed(self) -> list[tuple[int, int]]:
        """Runs all launches; the start and end of each, in ns of the system's monotonic clock."""
        times = array("q", bytes(16 * self._count))
        self._words[3] = times.buffer_info()[0]
        try:
            self._pool.replay(self._base)
        finally:
            self._words[3] = 0
        return list(zip(times[::2], times[1::2], strict=True))
