"""Windows of an image as rows of a matmul, read where they are instead of packed one by one.

    x[row, step] = image[channel, y + ky, x + kx]       row is (y, x), step is (channel, ky, kx)

Packed like any other operand, such rows hold each pixel once for each place of the window. But
they depend on y and ky only through y + ky (2 y + ky with strides of two). So one copy of the
image, with its borders and with channels innermost, serves all of them:

    kept[y + ky, x + kx, channel]

A row of it is contiguous over the innermost step, as a packed row is, and neighbouring rows share
what they read. Few channels stay outermost, as single elements are read from any place. An image
that has its channels innermost already is read where it is, without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.loops import Split, free_ranges, steps_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from .moves import Moves
from .nest import reads_of, stride

__all__ = ["Windows", "find_windows", "keep_image"]

MIN_CHANNELS = 16  # fewer do not fill the loop that is innermost


@dataclass(frozen=True)
class Pair:
    """A row and a step of the reduction that move along one axis, by `stride` and `dilation`."""

    row: Node
    step: Node
    stride: int
    dilation: int

    @property
    def extent(self) -> int:
        """How many places they reach together."""
        return (
            self.stride * (steps_of(self.row) - 1) + self.dilation * (steps_of(self.step) - 1) + 1
        )

    @property
    def place(self) -> Node:
        return self.row * self.stride + self.step * self.dilation

    def joined(self, value: Node, both: Node) -> Node:
        """`value` with the loop `both` in place of what is read at the pair's places."""
        if self.stride == 1:
            return simplify(value.substitute({self.row: both - self.step * self.dilation}))
        return simplify(value.substitute({self.step: both - self.row * self.stride}))


@dataclass(frozen=True)
class Windows:
    """The operand `image` over the `joined` loops, a place of one of the `pairs` each.

    `channels` are the steps that are left.
    """

    image: Node
    joined: tuple[Node, ...]
    pairs: tuple[Pair, ...]
    channels: tuple[Node, ...]

    @property
    def has_inner_channels(self) -> bool:
        """Whether channels are innermost in the copy of the image."""
        return steps_of(*self.channels) >= MIN_CHANNELS

    @property
    def is_in_place(self) -> bool:
        """Whether the image needs no copy, since its channels are innermost in memory.

        Beyond its borders are zeros, for all channels of a pixel or for none (lower/lines).
        """
        if self.image.op is not Op.LOAD or len(self.channels) != 1 or not self.has_inner_channels:
            return False
        _, index, *gated = self.image.src
        is_same_for_all = self.channels[0] not in free_ranges(Node.sink(gated))[Node.sink(gated)]
        return is_same_for_all and stride(index, self.channels[0]) == 1

    @property
    def steps(self) -> tuple[Node, ...]:
        """The steps of the reduction in the order in which they are read."""
        window = tuple(pair.step for pair in self.pairs)
        return (*window, *self.channels) if self.has_inner_channels else (*self.channels, *window)


def find_windows(
    moves: Moves, x: Node, rows: tuple[Node, ...], steps: tuple[Node, ...]
) -> Windows | None:
    """The windows that the rows of x are, or None."""
    image, joined, pairs = x, list[Node](), list[Pair]()
    for row in rows:
        for step in steps:
            pair = _pair(image, row, step)
            if pair is None:
                continue
            both = moves.loop(pair.extent)
            moved = pair.joined(image, both)
            if not free_ranges(moved)[moved] & {row, step}:  # so it depends on their place alone
                image = moved
                joined.append(both)
                pairs.append(pair)
                break
    paired = {pair.step for pair in pairs}
    channels = tuple(step for step in steps if step not in paired)
    return Windows(image, tuple(joined), tuple(pairs), channels) if pairs else None


def _pair(x: Node, row: Node, step: Node) -> Pair | None:
    """How a row and a step move what is read, if both move along the same axis.

    All steps together move it by less than there are rows, and windows overlap: other pairs are no
    windows.
    """
    for index in reads_of(x):
        terms, _ = linear_terms(index)
        of_row, of_step = terms.get(row, 0), terms.get(step, 0)
        if of_row <= 0 or of_step <= 0:
            continue
        if of_step % of_row == 0 and of_step * (steps_of(step) - 1) < of_row * steps_of(row):
            return Pair(row, step, 1, of_step // of_row)
        if of_row % of_step == 0 and of_row // of_step < steps_of(step) <= steps_of(row):
            return Pair(row, step, of_row // of_step, 1)
    return None


def keep_image(
    moves: Moves, windows: Windows, rows: tuple[Node, ...], beyond: int, lanes: int
) -> Node:
    """What x was, as loads from one copy of the image in memory that all workers share.

    Up to `beyond` rows after the last one may be read; what they hold is not defined.
    """
    free = free_ranges(windows.image)[windows.image]
    inside = (*windows.joined, *windows.channels)
    if not windows.has_inner_channels:
        inside = (*windows.channels, *windows.joined)
    around = sorted(free.difference(inside), key=lambda r: (r in rows, r.arg.number))
    loops = (*around, *inside)
    sizes = [steps_of(r) for r in loops]
    outermost = next(n for n, r in enumerate(loops) if r in (*rows, *windows.joined))
    sizes[outermost] += _places_beyond(windows, loops[outermost], rows, beyond)
    grid = loops[: loops.index(windows.joined[0]) + 1]
    fill = {r: Split(n, (n,)) for r, n in moves.copies(loops, dict.fromkeys(grid, "grid")).items()}
    if loops[-1] not in grid:
        fill[loops[-1]] = moves.tiled(loops[-1], (lanes, "vector"))
    column = windows.joined[-1]
    if windows.has_inner_channels and column not in grid:  # squares of memory, turned in registers
        fill[column] = moves.tiled(column, (lanes, "unroll"))
    stage = moves.staged(windows.image, "grid", tuple(sizes), loops, fill)
    moves.log.append("keep the image (grid)")
    places = {both: pair.place for both, pair in zip(windows.joined, windows.pairs, strict=True)}
    return simplify(stage.substitute(places))


def _places_beyond(windows: Windows, outermost: Node, rows: tuple[Node, ...], beyond: int) -> int:
    """How many places more than those of all rows the outermost loop of the image needs."""
    more = -(-beyond // max(1, steps_of(*rows[1:])))
    pairs = zip(windows.joined, windows.pairs, strict=True)
    return more * next((pair.stride for both, pair in pairs if both is outermost), 1)
