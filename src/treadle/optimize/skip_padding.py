"""Padding of convolutions: tiles at an image's borders skip the steps beyond it.

    for tile: for ky in range(5): acc += image[y + ky - 2, ..] * w[ky, ..]
      ->  for tile: for ky in range(first(tile), end(tile)): ...

Beyond its borders an image is zero. A tile whose rows all reach beyond one in a step of the window
has nothing to add there: in a 5x5 window on 28 rows that is every 23rd step. An infinity or NaN
among the weights does not meet those zeros either.
"""

from __future__ import annotations

from ..ir.choices import take
from ..ir.loops import Split, loop_size, ranges_of, replace_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Load
from .masked_bounds import Span
from .windows import Pair, Windows

__all__ = ["skip_padding", "steps_left"]

WORTH = 1 / 128  # of all steps: fewer are not worth a loop whose size varies


def skip_padding(
    reduce: Node, windows: Windows, outermost: Node, splits: dict[Node, Split]
) -> Node:
    """The REDUCE of a tile, as `splits` cut rows: in order along `outermost`, their first loop."""
    replaced = {r: split.expr for r, split in splits.items()}
    for both, pair in zip(windows.joined, windows.pairs, strict=True):
        inside = _inside(windows.image, both)
        if inside is None or not _is_worth_it(pair, inside):
            continue
        start = simplify(pair.start.substitute(replaced))
        tile = [r for r in ranges_of(start) if r.arg.kind == "unroll"]
        if tile and pair.row is not outermost:
            continue
        first, last = (
            start.substitute({r: Node.index(at * (loop_size(r) - 1)) for r in tile})
            for at in (0, 1)
        )
        take("skip_padding")
        span = _span(pair, inside, first, last)
        reduce = simplify(replace_ranges(reduce, {pair.step: span.loop(pair.step, 1)}))
    return reduce


def _inside(image: Node, both: Node) -> tuple[int, int] | None:
    """From where to where along `both` there are pixels; None if that is not known."""
    if image.op is Op.LOAD and (load := Load.of(image)).is_gated:
        gate, other = load.gate, load.other
    elif image.op is Op.WHERE:
        gate, _, other = image.src
    else:
        return None
    if other.op is not Op.CONST or other.arg != 0:
        return None
    begin, end = 0, loop_size(both)
    while begin < end and _never(gate, both, begin):
        begin += 1
    while begin < end and _never(gate, both, end - 1):
        end -= 1
    return begin, end


def _never(gate: Node, both: Node, place: int) -> bool:
    held = simplify(gate.substitute({both: Node.index(place)}))
    return held.op is Op.CONST and not held.arg


def steps_left(windows: Windows, rows: tuple[Node, ...]) -> float:
    """The share of steps that meet a pixel, of windows that move along one of `rows`."""
    share = 1.0
    for both, pair in zip(windows.joined, windows.pairs, strict=True):
        inside = _inside(windows.image, both)
        if pair.row in rows and inside is not None and _is_worth_it(pair, inside):
            share *= 1 - _share_beyond(pair, inside)
    return share


def _is_worth_it(pair: Pair, inside: tuple[int, int]) -> bool:
    """Whether enough steps of all rows together meet no pixel."""
    return pair.chunk is None and _share_beyond(pair, inside) >= WORTH


def _share_beyond(pair: Pair, inside: tuple[int, int]) -> float:
    """The share of steps of all rows together that meet no pixel."""
    rows, steps = loop_size(pair.row), loop_size(pair.step)
    places = (y * pair.stride + f * pair.dilation for y in range(rows) for f in range(steps))
    return sum(not inside[0] <= place < inside[1] for place in places) / (rows * steps)


def _span(pair: Pair, inside: tuple[int, int], first: Node, last: Node) -> Span:
    """The steps that rows whose windows start from `first` to `last` have pixels in."""
    begin = (inside[0] - last + (pair.dilation - 1)) // pair.dilation
    end = (inside[1] - 1 - first) // pair.dilation + 1
    if pair.runs_back:
        size = loop_size(pair.step)
        begin, end = size - end, size - begin
    return Span(begin, end)
