"""Memory planning: intermediate results whose lives do not overlap share the same bytes.

    plan([Life(0, 2, 100), Life(1, 3, 50), Life(2, 4, 100)])  ->  offsets and the arena's size
    plan_blocks(the same)  ->  a block for each, and the blocks' sizes

Memory with addresses is one arena; elsewhere whole blocks are shared.

Greedy by size: the largest buffer is placed first, each at the lowest offset where it meets no
buffer that is alive at the same time (Pisarchyk and Lee, 2020, "Efficient memory management for
deep neural net inference").
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALIGNMENT", "Life", "plan", "plan_blocks"]

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


def plan_blocks(lives: list[Life]) -> tuple[list[int], list[int]]:
    """The number of a block for each life, and the bytes of each block.

    The largest life comes first, and opens a block unless one is free for as long as it lives.
    """
    numbers = [0] * len(lives)
    sizes: list[int] = []
    tenants: list[list[Life]] = []
    for at in sorted(range(len(lives)), key=lambda n: (-lives[n].nbytes, n)):
        life = lives[at]
        free = (
            n
            for n, others in enumerate(tenants)
            if not any(o.first <= life.last and life.first <= o.last for o in others)
        )
        number = next(free, len(tenants))
        if number == len(tenants):
            tenants.append([])
            sizes.append(life.nbytes)
        tenants[number].append(life)
        numbers[at] = number
    return numbers, sizes
