"""Steps of a reduction that change nothing for all rows of a tile, left out.

    for tile: for ky in range(5): acc += image[y + ky - 2, ..] * w[ky, ..]
      ->  for tile: for ky in range(first(tile), end(tile)): ...

Beyond its borders an image is zero. A tile whose rows all reach beyond one in a step of the window
has nothing to add there: in a 5x5 window on 28 rows that is every 23rd step. An infinity or NaN
among the weights does not meet those zeros either.

    x[r, c, t] = w[c, 2*t + r] if 2*t + r >= 1 else 0       steps t of row r: from (2 - r) // 2 on

The places between two strides of a convolution have windows of their own in the gradient to its
image, which are of different lengths: of a window of three, one place has two steps and the other
one. They are padded to one length. Where such rows are in tiles of their own, each tile has the
steps of its place.
"""

from __future__ import annotations

import numpy as np

from ..ir.evaluate import evaluate
from ..ir.loops import Split, closed_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce
from .masked_bounds import Span, needed, span_of

__all__ = ["rows_with_own_steps", "share_of_steps", "spans_of", "splits_of"]

MOST_PLACES = 64  # that rows with steps of their own have together

Loops = tuple[Node, ...]


def rows_with_own_steps(reduce: Node, rows: Loops) -> Loops:
    """The rows that say which steps of `reduce` change nothing, if they are few."""
    found = frozenset[Node]().union(*(s.loops for s in spans_of(reduce, rows).values()))
    around = tuple(r for r in rows if r in found)
    is_fixed = all(map(has_fixed_size, (*around, *closed_ranges(reduce))))
    return around if is_fixed and loop_size(*around) <= MOST_PLACES else ()


def spans_of(reduce: Node, around: Loops) -> dict[Node, Span]:
    """The steps that are left of each loop, as `around` says, and no number of a launch."""
    value, steps, arg = Reduce.of(reduce)
    conditions = [c for c in needed(value, arg.op)
                  if not any(n.op is Op.VARIABLE for n in c.toposort())]  # fmt: skip
    spans = {step: span_of(conditions, step, frozenset(around)) for step in steps}
    return {step: span for step, span in spans.items() if span.loops}


def share_of_steps(spans: dict[Node, Span]) -> float:
    """The share of all steps that is left, over all places."""
    share = 1.0
    for loops in dict.fromkeys(span.loops for span in spans.values()):
        grid = np.meshgrid(*(np.arange(loop_size(r)) for r in loops), indexing="ij")
        known, left = dict(zip(loops, grid, strict=True)), np.ones(())
        for step, span in spans.items():
            if span.loops == loops:
                size = loop_size(step)
                ends = (np.clip(evaluate(n, known), 0, size) for n in (span.end, span.begin))
                left = left * np.maximum(np.subtract(*ends), 0) / size
        share *= float(left.mean())
    return share


def splits_of(spans: dict[Node, Span], rows: dict[Node, Split]) -> dict[Node, Split]:
    """Loops over the steps that are left to a tile, where `rows` have become other loops.

    Several rows of a tile have all steps that any of them has.
    """
    replaced, found = {r: split.expr for r, split in rows.items()}, {}
    for step, span in spans.items():
        here = span.substitute(replaced)
        tile = {r: (r.like(0), r.like(loop_size(r) - 1)) for r in here.loops}
        here = here.over({r: ends for r, ends in tile.items() if r.arg.kind == "unroll"})
        if here is not None and here.loops:
            found[step] = here.loop(step, 1)
    return found
