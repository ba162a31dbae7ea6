"""One row, measured for several libraries in turns."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .libraries.base import Library, NotOffered
from .results import WorkResult
from .timing import interleave
from .work import Work

if TYPE_CHECKING:
    import numpy as np

__all__ = ["measure"]

CAPTURED = 3  # calls, behind which a TinyJit replays: what can go wrong has done so by then
SAME = 1e-3  # of the largest number: what shows that two libraries have done the same work


def measure(
    work: Work, libraries: Mapping[str, Callable[[], Library]], rounds: int, budget: float
) -> WorkResult:
    """Seconds of each library for one run of `work`, over `rounds` or `budget` seconds.

    A library that has no form of it is left out; one that fails is, with its reason. So is one
    whose numbers are not those of the first one, where the row's numbers are `compared`.
    """
    result, runs, numbers = WorkResult(work, {}), {}, {}
    for name, library in libraries.items():
        # One peer that cannot do a row, or treadle itself, must not cost all other numbers.
        try:
            prepared = library().prepare(work)
            for _ in range(CAPTURED):
                found = prepared()
            if work.compared:
                results = library().arrays(found)
                numbers[name] = results if work.task == "gradients" else results[:1]
                _agree(numbers)
            runs[name] = prepared
        except NotOffered:
            continue
        except Exception as error:
            lines = str(error).strip().splitlines() or ["no message"]
            result.failed[name] = f"{type(error).__name__}: {lines[0]}"
    times = interleave(runs, rounds, budget)
    result.times = {name: [t / work.count for t in found] for name, found in times.items()}
    runs.clear()
    gc.collect()
    return result


def _agree(numbers: Mapping[str, Sequence[np.ndarray]]) -> None:
    """Raises ValueError where the last library's results are not the first one's.

    Of several that are no gradients only the first counts: equal elements are sorted in any order.
    """
    (first, ours), *_ = numbers.items()
    last, theirs = list(numbers.items())[-1]
    for a, b in zip(ours, theirs, strict=True):
        _agree_on(a, b, f"{last} gives", f"{first} gives")


def _agree_on(ours: np.ndarray, theirs: np.ndarray, last: str, first: str) -> None:
    import numpy as np

    if ours.shape != theirs.shape:
        raise ValueError(f"{last} {theirs.shape} where {first} {ours.shape}")
    largest = float(np.abs(ours).max(initial=0))
    if not np.allclose(theirs, ours, rtol=0, atol=SAME * largest):
        worst = float(np.abs(theirs.astype(float) - ours.astype(float)).max())
        raise ValueError(
            f"{last} numbers up to {worst:.3g} off what {first}, at most {largest:.3g}"
        )
