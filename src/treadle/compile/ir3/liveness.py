"""Where each lane of each virtual register is needed, as one number of bits.

    lives(kernel)[3, 0]   ->  bits of the gaps between instructions where %3 has to be kept

Gap n is what is before instruction n, counted over all blocks with one more gap behind each. An
instruction reads in the gap before it and writes in the one behind. Two lanes can share a register
where they have no gap in common.
"""

from __future__ import annotations

from itertools import accumulate

from .code import Block, Kernel, Lane, Operand, Register, Value

__all__ = ["entering_and_leaving", "gaps", "lives", "pressures"]


def gaps(kernel: Kernel) -> list[int]:
    """The first gap of each block."""
    starts, position = [], 0
    for block in kernel.blocks:
        starts.append(position)
        position += len(block.code) + 1
    return starts


def lives(kernel: Kernel) -> dict[Lane, int]:
    """The gaps in which each lane is live; a result that nobody reads is, in one."""
    _, leaving = entering_and_leaving(kernel)
    found: dict[Lane, int] = {}
    for block, start, out in zip(kernel.blocks, gaps(kernel), leaving, strict=True):
        last = start + len(block.code)
        ends = dict.fromkeys(out, last)
        for gap in range(last - 1, start - 1, -1):
            one = block.code[gap - start]
            for lane in _all_lanes(one.dsts):
                end = ends.pop(lane, gap + 1)
                found[lane] = found.get(lane, 0) | _range(gap + 1, end)
            for lane in _all_lanes(one.srcs):
                ends.setdefault(lane, gap)
        for lane, end in ends.items():
            found[lane] = found.get(lane, 0) | _range(start, end)
    return found


def pressures(kernel: Kernel, found: dict[Lane, int]) -> list[int]:
    """How many lanes are live in each gap."""
    changes = [0] * (gaps(kernel)[-1] + len(kernel.blocks[-1].code) + 3)
    for bits in found.values():
        while bits:
            first = (bits & -bits).bit_length() - 1
            ones = bits >> first
            count = (~ones & (ones + 1)).bit_length() - 1
            changes[first] += 1
            changes[first + count] -= 1
            bits &= ~(((1 << count) - 1) << first)
    return list(accumulate(changes))


def _all_lanes(operands: list[Operand] | list[Value | Register]) -> list[Lane]:
    return [lane for one in operands if isinstance(one, Value) for lane in one.lanes]


def _range(first: int, last: int) -> int:
    return ((1 << (last - first + 1)) - 1) << first


def entering_and_leaving(kernel: Kernel) -> tuple[list[set[Lane]], list[set[Lane]]]:
    """The lanes that are needed before each block, and behind it."""
    needed, made = zip(*(_needed_and_made(block) for block in kernel.blocks), strict=True)
    entering: list[set[Lane]] = [set() for _ in kernel.blocks]
    leaving: list[set[Lane]] = [set() for _ in kernel.blocks]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(kernel.blocks))):
            out: set[Lane] = set().union(*(entering[n] for n in kernel.blocks[number].after))
            into = needed[number] | (out - made[number])
            changed |= into != entering[number]
            entering[number], leaving[number] = into, out
    return entering, leaving


def _needed_and_made(block: Block) -> tuple[set[Lane], set[Lane]]:
    """The lanes that a block reads before it writes them, and those that it writes."""
    needed: set[Lane] = set()
    made: set[Lane] = set()
    for one in block.code:
        needed.update(lane for lane in _all_lanes(one.srcs) if lane not in made)
        made.update(_all_lanes(one.dsts))
    return needed, made
