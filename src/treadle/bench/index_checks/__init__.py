"""Rows about CHECK_INDEX=1: the time of a replay with it over that without.

gather axis 1: 9.72 ms with a flag for the indices, 9.55 ms without   ->  1.018

Both replays read the same memory, in one process, in pairs whose order alternates.

    python -m treadle.bench.index_checks [WORDS]

prints medians, least times and, for machines that others use too, processor time: that of all
threads, in which waiting for a core does not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ...config import Context
from ..libraries.tensor import TensorLibrary
from ..process import Overhead
from ..rows import works
from ..timing import timed
from ..work import Input, Work

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PAIRS", "Times", "index_checks", "indexed", "pairs_of"]

LIMIT = 1.02  # what a check may cost where the work takes a millisecond
CAPTURED = 4  # calls, behind which a step replays
PAIRS, QUICK_PAIRS = 25, 3
MAX_BURST, BURST_SECONDS = 9, 0.01
CHECKED, PLAIN = 1, 0


class Times(NamedTuple):
    """Seconds of one call: by the clock, and of all processors."""

    clock: float
    processors: float


class _SameInputs(TensorLibrary):
    """A library that gives each work the tensors that it gave the first one."""

    def __init__(self) -> None:
        super().__init__("treadle")
        self._made: list[object] = []
        self._given: Iterator[object] = iter(())

    def begin(self) -> None:
        """The next tensors are those of a work's inputs."""
        self._given = iter([*self._made])

    def tensor(self, array: np.ndarray) -> Any:
        found = next(self._given, None)
        if found is None:
            found = super().tensor(array)
            self._made.append(found)
        return found


def index_checks(quick: bool) -> list[Overhead]:
    """A row for each one that is given indices."""
    return [
        Overhead(f"CHECK_INDEX over none: {work.name}", "x", LIMIT, _ratio(work, quick))
        for work in indexed(quick)
    ]


def indexed(quick: bool) -> list[Work]:
    """The rows that are given places or labels."""
    return [work for work in works(quick) if any(map(_is_index, work.inputs))]


def _is_index(given: Input) -> bool:
    return given.below > 0 and given.dtype == "int32"


def _ratio(work: Work, quick: bool) -> Callable[[], float]:
    def measure() -> float:
        pairs = pairs_of(work, QUICK_PAIRS if quick else PAIRS)
        return statistics.median(on.clock / off.clock for on, off in pairs)

    return measure


def pairs_of(work: Work, count: int) -> list[tuple[Times, Times]]:
    """Times with CHECK_INDEX and without it."""
    library = _SameInputs()
    runs = {value: _prepared(library, work, value) for value in (CHECKED, PLAIN)}
    burst = min(MAX_BURST, max(1, int(BURST_SECONDS / max(timed(runs[PLAIN]), 1e-9))))
    found = []
    for turn in range(count):
        order = (CHECKED, PLAIN) if turn % 2 else (PLAIN, CHECKED)
        times = {value: _times(runs[value], burst) for value in order}
        found.append((times[CHECKED], times[PLAIN]))
    return found


def _prepared(library: _SameInputs, work: Work, value: int) -> Callable[[], object]:
    library.begin()
    with Context(CHECK_INDEX=value):
        run = library.prepare(work)
        for _ in range(CAPTURED):
            run()
    return Context(CHECK_INDEX=value)(run)


def _times(run: Callable[[], object], burst: int) -> Times:
    """The mean of some calls behind one that is not counted."""
    run()
    clock, processors = time.perf_counter(), time.process_time()
    for _ in range(burst):
        run()
    ended, worked = time.perf_counter(), time.process_time()
    return Times((ended - clock) / burst, (worked - processors) / burst)
