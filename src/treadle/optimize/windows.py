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

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..ir.choices import take
from ..ir.loops import loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import Load
from .layout import packed
from .moves import Moves
from .nest import reads_of, stride

__all__ = ["Windows", "find_windows", "keep_image"]

MIN_CHANNELS = 16  # fewer do not fill the loop that is innermost


@dataclass(frozen=True)
class Pair:
    """A row and a step of the reduction that move along one axis.

    `apart` are the places from one step of each loop to the next: of the row, the step and, where
    steps are cut into chunks, the loop over these. Where it `runs_back`, the last step is first.
    """

    row: Node
    step: Node
    apart: dict[Node, int]
    runs_back: bool

    @property
    def extent(self) -> int:
        """How many places they reach together."""
        return 1 + sum(apart * (loop_size(loop) - 1) for loop, apart in self.apart.items())

    @property
    def place(self) -> Node:
        places = (self._forward(loop, loop) * apart for loop, apart in self.apart.items())
        return sum(places, Node.index(0))

    def _forward(self, loop: Node, place: Node) -> Node:
        """A `place` of a loop, counted from where the first pixel is read."""
        return loop_size(loop) - 1 - place if self.runs_back and loop is not self.row else place

    def joined(self, value: Node, both: Node) -> Node:
        """`value` with the loop `both` in place of what is read at the pair's places."""
        one = self.row if self.apart[self.row] == 1 else self.step
        others = self.place - self._forward(one, one)
        return simplify(value.substitute({one: self._forward(one, both - others)}))


@dataclass(frozen=True)
class Windows:
    """The operand `image` over the loops of `pairs`, each of which is what a pair's place is.

    `channels` are the steps that are left.
    """

    image: Node
    pairs: dict[Node, Pair]
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
        load, (channel,) = Load.of(self.image), self.channels
        return channel not in ranges_of(load.gate) and stride(load.index, channel) == 1

    @property
    def steps(self) -> tuple[Node, ...]:
        """The steps of the reduction in the order in which they are read."""
        return self.with_channels(pair.step for pair in self.pairs.values())

    def with_channels(self, loops: Iterable[Node]) -> tuple[Node, ...]:
        """Loops of the window, and those of channels inside or outside of them."""
        inner = self.has_inner_channels
        return (*loops, *self.channels) if inner else (*self.channels, *loops)


def find_windows(
    moves: Moves, x: Node, rows: tuple[Node, ...], steps: tuple[Node, ...], batch: tuple[Node, ...]
) -> Windows | None:
    """The windows that the rows of x are, or None."""
    image, pairs = x, dict[Node, Pair]()
    for row in rows:
        for step in steps:
            pair = _pair(image, row, step, batch)
            found = pair and _joined(moves, image, pair)
            if found is not None:
                image, both, pair = found
                pairs[both] = pair
                break
    paired = {pair.step for pair in pairs.values()}
    channels = tuple(step for step in steps if step not in paired)
    return Windows(image, pairs, channels) if pairs else None


def _joined(moves: Moves, image: Node, pair: Pair) -> tuple[Node, Node, Pair] | None:
    """(`image` over one loop of the pair's places, that loop, the pair), if no other one is left.

    It may depend on the chunks of the steps in another way than those places do.
    """
    without_chunks = replace(pair, apart={r: pair.apart[r] for r in (pair.row, pair.step)})
    for way in (pair, without_chunks)[: len(pair.apart) - 1]:
        both = moves.loop(way.extent)
        moved = way.joined(image, both)
        if ranges_of(moved).isdisjoint(way.apart):
            return moved, both, way
    return None


def _pair(x: Node, row: Node, step: Node, batch: tuple[Node, ...]) -> Pair | None:
    """How a row and a step move what is read, if both move along the same axis.

    One of them is a place of the window, the other one a place of the result. They are windows if
    these share pixels: together they reach fewer places than there are in all of them.
    """
    for index in reads_of(x):
        terms, _ = linear_terms(index)
        of_row, of_step = terms.get(row, 0), terms.get(step, 0)
        runs_back, of_step = of_step < 0, abs(of_step)
        if of_row <= 0 or of_step == 0 or max(of_row, of_step) % min(of_row, of_step):
            continue
        near = min(of_row, of_step)
        reach = of_step * loop_size(step)
        chunks = [r for r in batch if terms.get(r) == (-reach if runs_back else reach)][:1]
        pixels = {row: of_row, step: of_step, **dict.fromkeys(chunks, reach)}
        apart = {loop: places // near for loop, places in pixels.items()}
        pair = Pair(row, step, apart, runs_back)
        if pair.extent < loop_size(*apart):
            return pair
    return None


def keep_image(
    moves: Moves, windows: Windows, rows: tuple[Node, ...], beyond: int, lanes: int
) -> Node:
    """What x was, as loads from one copy of the image in memory that all workers share.

    Up to `beyond` rows after the last one may be read; what they hold is not defined.
    """
    inside = windows.with_channels(windows.pairs)
    free = ranges_of(windows.image).difference(inside)
    loops = (*sorted(free, key=lambda r: (r in rows, r.arg.number)), *inside)
    shared = loops.index(next(iter(windows.pairs))) + 1
    around, steps, line = loops[:shared], loops[shared:-1], loops[shared:][-1:]
    # The loop that the outermost row moves along has so many places more.
    by_row = {pair.row: (both, pair.apart[pair.row]) for both, pair in windows.pairs.items()}
    outermost, apart = by_row.get(rows[0], (rows[0], 1))
    more = {outermost: -(-beyond // loop_size(*rows[1:])) * apart}
    stage = packed(moves, windows.image, "grid", around, steps, line, lanes, beyond=more)
    take("window_image")
    places = {both: pair.place for both, pair in windows.pairs.items()}
    return simplify(stage.substitute(places))
