"""Steps of a product in which a factor is zero for all rows of a tile, left out.

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

from ..ir.conditions import without_not
from ..ir.evaluate import evaluate
from ..ir.loops import Split, has_fixed_size, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify, sum_terms
from .hoist_masks import zero_unless
from .masked_bounds import Span

__all__ = ["rows_with_own_steps", "share_of_steps", "spans_of", "splits_of"]

MOST_PLACES = 64  # that rows with steps of their own have together

Loops = tuple[Node, ...]


def rows_with_own_steps(factor: Node, rows: Loops, steps: Loops) -> Loops:
    """The rows that say in which steps `factor` is zero, if they are few."""
    found = {r for c in zero_unless(factor) if _is_about(c, rows, steps) for r in ranges_of(c)}
    around = tuple(r for r in rows if r in found)
    is_small = all(map(has_fixed_size, (*around, *steps))) and loop_size(*around) <= MOST_PLACES
    return around if is_small else ()


def _is_about(condition: Node, rows: Loops, steps: Loops) -> bool:
    """Whether a condition is about one of the steps, and about rows and nothing else.

    Not about a number that launches know, or one in memory.
    """
    if any(n.op in (Op.VARIABLE, Op.LOAD) for n in condition.toposort()):
        return False
    loops = ranges_of(condition)
    mine = loops & frozenset(steps)
    return len(mine) == 1 and bool(loops - mine) and loops - mine <= frozenset(rows)


def spans_of(factor: Node, around: Loops, steps: Loops) -> dict[Node, Span]:
    """The steps that are left of each loop, as `around` says."""
    begins: dict[Node, Node] = {}
    ends: dict[Node, Node] = {}
    for condition in zero_unless(factor):
        if not _is_about(condition, around, steps):
            continue
        [step] = ranges_of(condition) & frozenset(steps)
        limit = _limit(condition, step)
        if limit is None:
            continue
        place, is_end = limit
        known = ends if is_end else begins
        before = known.get(step)
        if before is not None and before is not place:
            place = simplify(before.minimum(place) if is_end else before.maximum(place))
        known[step] = place
    first = Node.index(0)
    return {
        step: Span(begins.get(step, first), ends.get(step, Node.index(loop_size(step))))
        for step in steps
        if step in begins or step in ends
    }


def _limit(condition: Node, step: Node) -> tuple[Node, bool] | None:
    """(the first step in which a comparison holds, False) or (the first one behind, True)."""
    compared, is_not = without_not(condition)
    if compared.op is not Op.CMPLT or compared.src[0].dtype.kind != "index":
        return None
    less, more = compared.src
    terms, offset = linear_terms(less - more if is_not else more - less - 1)  # at least 0
    by = terms.pop(step, 0)
    if by == 0 or step in {r for term in terms for r in ranges_of(term)}:
        return None
    rest = sum_terms(terms, offset)
    if by < 0:
        return simplify(rest // -by + 1), True
    return simplify((by - 1 - rest) // by), False


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


def splits_of(
    spans: dict[Node, Span], rows: dict[Node, Split], outermost: Node
) -> dict[Node, Split]:
    """Loops over the steps that are left to a tile, where `rows` have become other loops.

    Several rows of a tile have all steps that any of them has, if they are along the `outermost`
    loop that is cut into tiles.
    """
    replaced, found = {r: split.expr for r, split in rows.items()}, {}
    for step, span in spans.items():
        here = span.substitute(replaced)
        tile = [r for r in here.loops if r.arg.kind == "unroll"]
        if tile and span.loops == {outermost}:
            here = _over_tile(span, here, outermost, tile)
        elif tile:
            continue
        if here is not None:
            found[step] = here.loop(step, 1)
    return found


def _over_tile(span: Span, here: Span, row: Node, tile: list[Node]) -> Span | None:
    """The span of a tile's rows together, of which `here` is that of one in the loops `tile`.

    None where an end neither falls nor rises all the way along `row`.
    """
    ends, corners = [], [{r: Node.index(at * (loop_size(r) - 1)) for r in tile} for at in (0, 1)]
    for of_row, of_one, is_last in ((span.begin, here.begin, 0), (span.end, here.end, 1)):
        values = evaluate(of_row, {row: np.arange(loop_size(row))})
        changes = {*np.sign(np.diff(np.broadcast_to(values, (loop_size(row),)))).tolist()} - {0}
        if len(changes) > 1:
            return None
        ends.append(of_one.substitute(corners[is_last ^ (changes == {-1})]))
    return Span(*ends)
