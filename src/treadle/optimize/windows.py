"""Windows of an image as rows of a matmul, read where they are instead of packed one by one.

    x[row, step] = image[channel, y + ky, x + kx]       row is (y, x), step is (channel, ky, kx)

Packed like any other operand, such rows hold each pixel once for each place of the window. But
they depend on y and ky only through y + ky. So one copy of the image, with its borders and with
channels innermost, serves all of them:

    kept[y + ky, x + kx, channel]

A row of it is contiguous over the innermost step, as a packed row is, and neighbouring rows share
what they read.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.loops import Split, free_ranges, steps_of
from ..ir.node import Node
from ..ir.rules.index import linear_terms, simplify
from .moves import Moves
from .nest import reads_of

__all__ = ["Windows", "find_windows", "keep_image"]

MIN_CHANNELS = 16  # fewer do not fill the loop that is innermost


@dataclass(frozen=True)
class Windows:
    """The operand `image` over the `joined` loops, which are `row + dilation * step` each.

    `pairs` holds (row, step, dilation) for each of them, `channels` the steps that are left.
    """

    image: Node
    joined: tuple[Node, ...]
    pairs: tuple[tuple[Node, Node, int], ...]
    channels: tuple[Node, ...]

    @property
    def steps(self) -> tuple[Node, ...]:
        """The steps of the reduction in the order in which they are read."""
        return (*(step for _, step, _ in self.pairs), *self.channels)


def find_windows(
    moves: Moves, x: Node, rows: tuple[Node, ...], steps: tuple[Node, ...]
) -> Windows | None:
    """The windows that the rows of x are, or None."""
    image, joined, pairs = x, [], []
    for row in rows:
        for step in steps:
            dilation = _dilation(image, row, step)
            if dilation is None:
                continue
            both = moves.loop(steps_of(row) + dilation * (steps_of(step) - 1))
            moved = simplify(image.substitute({row: both - step * dilation}))
            if not free_ranges(moved)[moved] & {row, step}:  # so it depends on their sum alone
                image = moved
                joined.append(both)
                pairs.append((row, step, dilation))
                break
    channels = tuple(step for step in steps if step not in [pair[1] for pair in pairs])
    if not pairs or steps_of(*channels) < MIN_CHANNELS:
        return None
    return Windows(image, tuple(joined), tuple(pairs), channels)


def _dilation(x: Node, row: Node, step: Node) -> int | None:
    """By how many rows a step moves what is read, if both move along the same axis.

    All steps together move it by less than there are rows: other pairs are no windows.
    """
    for index in reads_of(x):
        terms, _ = linear_terms(index)
        of_row, of_step = terms.get(row, 0), terms.get(step, 0)
        if of_row and of_step and of_step % of_row == 0:
            dilation = of_step // of_row
            if 0 < dilation * (steps_of(step) - 1) < steps_of(row):
                return dilation
    return None


def keep_image(
    moves: Moves, windows: Windows, rows: tuple[Node, ...], beyond: int, lanes: int
) -> Node:
    """What x was, as loads from one copy of the image in memory that all workers share.

    Up to `beyond` rows after the last one may be read; what they hold is not defined.
    """
    free = free_ranges(windows.image)[windows.image]
    inside = (*windows.joined, *windows.channels)
    around = sorted(free.difference(inside), key=lambda r: (r in rows, r.arg.number))
    loops = (*around, *inside)
    sizes = [steps_of(r) for r in loops]
    outermost = next(n for n, r in enumerate(loops) if r in (*rows, *windows.joined))
    sizes[outermost] += -(-beyond // max(1, steps_of(*rows[1:])))
    grid = (*around, windows.joined[0])
    fill = {r: Split(n, (n,)) for r, n in moves.copies(loops, dict.fromkeys(grid, "grid")).items()}
    column, channel = windows.joined[-1], windows.channels[-1]
    if column is not windows.joined[0]:  # squares of memory, turned in registers
        fill[column] = moves.tiled(column, (lanes, "unroll"))
    fill[channel] = moves.tiled(channel, (lanes, "vector"))
    stage = moves.staged(windows.image, "grid", tuple(sizes), loops, fill)
    moves.log.append("keep the image (grid)")
    sums = {
        both: row + step * dilation
        for both, (row, step, dilation) in zip(windows.joined, windows.pairs, strict=True)
    }
    return simplify(stage.substitute(sums))
