"""python -m treadle.bench.index_checks: the command."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from ..work import Work
from . import PAIRS, Times, indexed, pairs_of


def main(words: Sequence[str]) -> None:
    """A line for each row whose name has one of `words`, or for all."""
    for work in indexed(quick=False):
        if not words or any(word in work.name for word in words):
            print(_line(work), flush=True)


def _line(work: Work) -> str:
    """The ratios of a row: medians of the pairs, and those of the least times."""
    pairs = pairs_of(work, PAIRS)
    parts = []
    for name in Times._fields:
        on, off = ([getattr(one, name) for one in side] for side in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in zip(on, off, strict=True))
        parts.append(
            f"{name} {ratio:.3f} (least {min(on) / min(off):.3f}, of {1e3 * min(off):.2f} ms)"
        )
    return f"{work.name}: {'; '.join(parts)}"


if __name__ == "__main__":
    main(sys.argv[1:])
