"""What basic blocks need from those before them: sets of values, as bits of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["live_values", "members"]


def live_values(
    uses: Sequence[int], defines: Sequence[int], targets: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """What is live before each block, and behind it.

    A block uses values of others, defines some, and leads to its targets; a target that is no block
    is the end.
    """
    count = len(uses)
    live_in, live_out = [0] * count, [0] * count
    changed = True
    while changed:
        changed = False
        for i in range(count - 1, -1, -1):
            out = 0
            for target in targets[i]:
                if target < count:
                    out |= live_in[target]
            before = uses[i] | (out & ~defines[i])
            live_out[i] = out
            changed |= before != live_in[i]
            live_in[i] = before
    return live_in, live_out


def members(names: Sequence[str], bits: int) -> list[str]:
    """The names whose numbers are in a set."""
    found = []
    while bits:
        low = bits & -bits
        found.append(names[low.bit_length() - 1])
        bits ^= low
    return found
