"""Steps of a product in which a factor is zero for all rows of a tile, left out.

    x[r, c, t] = w[c, 2*t + r] if 2*t + r >= 1 else 0       steps t of row r: from (2 - r) // 2 on

The places between two strides of a convolution have windows of their own in the gradient to its
image, which are of different lengths: of a window of three, one place has two steps and the other
one. They are padded to one length. Where such rows are in tiles of their own, each tile has the
steps of its place.
"""

from __future__ import annotations

import itertools
from statistics import fmean

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
        before = known.get(step, place)
        known[step] = simplify(before.minimum(place) if is_end else before.maximum(place))
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


def share_of_steps(spans: dict[Node, Span], around: Loops) -> float:
    """The share of all steps that is left, over all places."""
    return fmean(_share_at(spans, dict(zip(around, at, strict=True))) for at in _places(around))


def _places(around: Loops) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*(range(loop_size(r)) for r in around))


def _share_at(spans: dict[Node, Span], at: dict[Node, int]) -> float:
    share = 1.0
    for step, span in spans.items():
        begin, end = (int(evaluate(place, at)) for place in (span.begin, span.end))
        share *= max(0, min(end, loop_size(step)) - max(begin, 0)) / loop_size(step)
    return share


def splits_of(spans: dict[Node, Span], rows: dict[Node, Split]) -> dict[Node, Split]:
    """Loops over the steps that are left, where `rows` have become other loops."""
    replaced = {r: split.expr for r, split in rows.items()}
    return {step: span.substitute(replaced).loop(step, 1) for step, span in spans.items()}
