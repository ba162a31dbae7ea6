"""Windows of an image as rows of a tile, read where they are instead of packed one by one.

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

from dataclasses import dataclass, replace

from ..ir.choices import take
from ..ir.loops import loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from .layout import packed
from .moves import Moves
from .nest import reads_of, stride

__all__ = ["Windows", "find_windows", "keep_image"]

MIN_CHANNELS = 16  # fewer do not fill the loop that is innermost


@dataclass(frozen=True)
class Pair:
    """A row and a step of the reduction that move along one axis, by `stride` and `dilation`.

    Where the steps are cut into chunks, `chunk` is the loop over these, `apart` the places from one
    to the next. Where it `runs_back`, the last step is at the first place.
    """

    row: Node
    step: Node
    stride: int
    dilation: int
    chunk: Node | None = None
    apart: int = 0
    runs_back: bool = False

    @property
    def extent(self) -> int:
        """How many places they reach together."""
        chunks = 0 if self.chunk is None else self.apart * (loop_size(self.chunk) - 1)
        own = self.stride * (loop_size(self.row) - 1) + self.dilation * (loop_size(self.step) - 1)
        return chunks + own + 1

    @property
    def place(self) -> Node:
        return self._of_chunk + self.row * self.stride + self._of_step

    @property
    def _of_chunk(self) -> Node:
        return Node.index(0) if self.chunk is None else self._forward(self.chunk) * self.apart

    @property
    def _of_step(self) -> Node:
        return self._forward(self.step) * self.dilation

    def _forward(self, loop: Node, place: Node | None = None) -> Node:
        """The loop, or `place` of it, counted from where the first pixel is read."""
        place = loop if place is None else place
        return loop_size(loop) - 1 - place if self.runs_back else place

    def joined(self, value: Node, both: Node) -> Node:
        """`value` with the loop `both` in place of what is read at the pair's places."""
        if self.stride == 1:
            row = both - self._of_step - self._of_chunk
            return simplify(value.substitute({self.row: row}))
        step = both - self.row * self.stride - self._of_chunk
        return simplify(value.substitute({self.step: self._forward(self.step, step)}))


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
        return loop_size(*self.channels) >= MIN_CHANNELS

    @property
    def is_in_place(self) -> bool:
        """Whether the image needs no copy, since its channels are innermost in memory.

        Beyond its borders are zeros, for all channels of a pixel or for none (lower/padded_rows).
        """
        if self.image.op is not Op.LOAD or len(self.channels) != 1 or not self.has_inner_channels:
            return False
        _, index, *gated = self.image.src
        is_same_for_all = self.channels[0] not in ranges_of(Node.sink(gated))
        return is_same_for_all and stride(index, self.channels[0]) == 1

    @property
    def steps(self) -> tuple[Node, ...]:
        """The steps of the reduction in the order in which they are read."""
        window = tuple(pair.step for pair in self.pairs)
        return (*window, *self.channels) if self.has_inner_channels else (*self.channels, *window)


def find_windows(
    moves: Moves,
    x: Node,
    rows: tuple[Node, ...],
    steps: tuple[Node, ...],
    batch: tuple[Node, ...],
) -> Windows | None:
    """The windows that the rows of x are, or None."""
    image, joined, pairs = x, list[Node](), list[Pair]()
    for row in rows:
        for step in steps:
            pair = _pair(image, row, step, batch)
            if pair is None:
                continue
            found = _joined(moves, image, pair)
            if found is not None:
                image, both, pair = found
                joined.append(both)
                pairs.append(pair)
                break
    paired = {pair.step for pair in pairs}
    channels = tuple(step for step in steps if step not in paired)
    return Windows(image, tuple(joined), tuple(pairs), channels) if pairs else None


def _joined(moves: Moves, image: Node, pair: Pair) -> tuple[Node, Node, Pair] | None:
    """(`image` over one loop of the pair's places, that loop, the pair), if no other one is left.

    It may depend on the chunks of the steps in another way than those places do.
    """
    for way in dict.fromkeys((pair, replace(pair, chunk=None))):
        both = moves.loop(way.extent)
        moved = way.joined(image, both)
        if not ranges_of(moved) & {way.row, way.step, way.chunk}:
            return moved, both, way
    return None


def _pair(x: Node, row: Node, step: Node, batch: tuple[Node, ...]) -> Pair | None:
    """How a row and a step move what is read, if both move along the same axis.

    One of them is a place of the window, the other one a place of the result: they move it by less
    than there are results, and windows overlap. Other pairs are no windows.
    """
    for index in reads_of(x):
        terms, _ = linear_terms(index)
        of_row, of_step = terms.get(row, 0), terms.get(step, 0)
        runs_back, of_step = of_step < 0, abs(of_step)
        if of_row <= 0 or of_step == 0 or max(of_row, of_step) % min(of_row, of_step):
            continue
        near = min(of_row, of_step)
        reach = of_step * loop_size(step)
        chunk = next((r for r in batch if terms.get(r) == (-reach if runs_back else reach)), None)
        steps = loop_size(step) * (1 if chunk is None else loop_size(chunk))
        pair = Pair(row, step, of_row // near, of_step // near, chunk, reach // near, runs_back)
        results, window = (pair.stride, loop_size(row)), (pair.dilation, steps)
        if window[1] > results[1]:
            results, window = window, results
        if _overlap(results, window):
            return pair
    return None


def _overlap(results: tuple[int, int], window: tuple[int, int]) -> bool:
    """Whether windows at `results`, (distance, count) of their places, share pixels.

    Together, they reach fewer places than there are in all windows.
    """
    (stride, count), (dilation, size) = results, window
    return stride * (count - 1) + dilation * (size - 1) + 1 < count * size


def keep_image(
    moves: Moves, windows: Windows, rows: tuple[Node, ...], beyond: int, lanes: int
) -> Node:
    """What x was, as loads from one copy of the image in memory that all workers share.

    Up to `beyond` rows after the last one may be read; what they hold is not defined.
    """
    inside = (*windows.joined, *windows.channels)
    if not windows.has_inner_channels:
        inside = (*windows.channels, *windows.joined)
    free = ranges_of(windows.image).difference(inside)
    loops = (*sorted(free, key=lambda r: (r in rows, r.arg.number)), *inside)
    shared = loops.index(windows.joined[0]) + 1
    around, steps, line = loops[:shared], loops[shared:-1], loops[shared:][-1:]
    more = dict((_places_beyond(windows, rows, beyond),))
    stage = packed(moves, windows.image, "grid", around, steps, line, lanes, beyond=more)
    take("window_image")
    places = {both: pair.place for both, pair in zip(windows.joined, windows.pairs, strict=True)}
    return simplify(stage.substitute(places))


def _places_beyond(windows: Windows, rows: tuple[Node, ...], beyond: int) -> tuple[Node, int]:
    """(the loop of the image that the outermost row moves along, how many places more it needs)."""
    more = -(-beyond // max(1, loop_size(*rows[1:])))
    for both, pair in zip(windows.joined, windows.pairs, strict=True):
        if pair.row is rows[0]:
            return both, more * pair.stride
    return rows[0], more
