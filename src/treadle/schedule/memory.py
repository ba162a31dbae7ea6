"""Memory planning: intermediate results whose lives do not overlap share the same bytes.

    plan([Life(0, 2, 100), Life(1, 3, 50), Life(2, 4, 100)])  ->  offsets and the arena's size

Greedy by size: the largest buffer is placed first, each at the lowest offset where it meets no
buffer that is alive at the same time (Pisarchyk and Lee, 2020, "Efficient memory management for
deep neural net inference").
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALIGNMENT", "Life", "plan"]

ALIGNMENT = 64


@dataclass(frozen=True)
class Life:
    """A buffer of `nbytes`, written by step `first` and read for the last time by step `last`."""

    first: int
    last: int
    nbytes: int


def plan(lives: list[Life]) -> tuple[list[int], int]:
    """An offset in bytes for each life, 64-byte aligned, and the bytes needed in all."""
    offsets = [0] * len(lives)
    placed: list[int] = []
    total = 0
    for number in sorted(range(len(lives)), key=lambda n: (-lives[n].nbytes, n)):
        life = lives[number]
        overlapping = sorted(
            (offsets[p], offsets[p] + lives[p].nbytes)
            for p in placed
            if lives[p].first <= life.last and life.first <= lives[p].last
        )
        offset = 0
        for begin, finish in overlapping:
            if offset + life.nbytes <= begin:
                break
            offset = max(offset, -(-finish // ALIGNMENT) * ALIGNMENT)
        offsets[number] = offset
        placed.append(number)
        total = max(total, offset + life.nbytes)
    return offsets, total
