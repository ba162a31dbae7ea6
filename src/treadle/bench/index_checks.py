"""Rows about CHECK_INDEX=1: the time of a replay with it over that without.

gather axis 1: 9.72 ms with a flag for the indices, 9.55 ms without   ->  1.018

Both replays read the same memory, in one process, in pairs whose order alternates.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

from ..config import Context
from .libraries.tensor import TensorLibrary
from .process import Overhead
from .rows import works
from .timing import interleave, median_ratio
from .work import Work

__all__ = ["index_checks", "pairs_of"]

LIMIT = 1.02  # what a check may cost where the work takes a millisecond
CAPTURED = 4  # calls, behind which a step replays
PAIRS, QUICK_PAIRS = 25, 3
SECONDS = 60.0  # no row takes as long as that


def index_checks(quick: bool) -> list[Overhead]:
    """A row for each one that is given indices."""
    return [
        Overhead(f"CHECK_INDEX over none: {work.name}", "x", LIMIT, _ratio(work, quick))
        for work in works(quick)
        if any(given.below for given in work.inputs)
    ]


def _ratio(work: Work, quick: bool) -> Callable[[], float]:
    def measure() -> float:
        times = pairs_of(work, QUICK_PAIRS if quick else PAIRS)
        return median_ratio(times["1"], times["0"])

    return measure


def pairs_of(work: Work, pairs: int) -> dict[str, list[float]]:
    """Seconds of `work` in each pair of runs, by the value of CHECK_INDEX."""
    library = _SameInputs()
    runs = {str(value): _prepared(library, work, value) for value in (1, 0)}
    return interleave(runs, pairs, SECONDS)


def _prepared(library: _SameInputs, work: Work, value: int) -> Callable[[], Any]:
    with Context(CHECK_INDEX=value):
        library.begin()
        run = library.prepare(work)
        for _ in range(CAPTURED):
            run()

    def checked() -> Any:
        with Context(CHECK_INDEX=value):
            return run()

    return checked


class _SameInputs(TensorLibrary):
    """A library that gives each work the tensors that it gave the first one."""

    def __init__(self) -> None:
        super().__init__("treadle")
        self._made: list[Any] = []
        self._given: Iterator[Any] = iter(())

    def begin(self) -> None:
        """The next tensors are those of a work's inputs."""
        self._given = iter([*self._made])

    def tensor(self, array: Any) -> Any:
        found = next(self._given, None)
        if found is None:
            found = super().tensor(array)
            self._made.append(found)
        return found


def _show() -> None:
    """Every row's medians and least times, and the median of its pairs' ratios."""
    for work in works(False):
        if any(given.below for given in work.inputs):
            times = pairs_of(work, PAIRS)
            on, off = times["1"], times["0"]
            print(
                f"{work.name}: {median_ratio(on, off):.4f}, least times {min(on) / min(off):.4f}; "
                f"{1e3 * statistics.median(on):.3f} and {1e3 * statistics.median(off):.3f} ms"
            )


if __name__ == "__main__":
    _show()
