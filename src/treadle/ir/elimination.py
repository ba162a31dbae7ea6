"""Loops eliminated from conditions, as Fourier and Motzkin do.

    is_met_for_each([0 <= i - j, i - j < 8], {j}, [])     whether each j has an i

A lower and an upper bound of a loop leave room for it where the first is at most the second. Each
such pair is a condition without that loop. For whole numbers this is exact where one of the two
coefficients is 1; where none is, nothing is proved.
"""

from __future__ import annotations

from collections.abc import Iterable

from .conditions import bounds_where, constraints
from .loops import Ranges, has_fixed_size, loop_size, ranges_of
from .node import Node
from .op import Op
from .rules.index import Terms, linear_terms, sum_terms

__all__ = ["is_met_for_each"]

Constraint = tuple[Terms, int]  # the sum of these terms and of the number is at least 0


def is_met_for_each(conditions: Iterable[Node], loops: Ranges, kept: list[Node]) -> bool:
    """Whether all `conditions` hold in some iteration of other loops, for each one of `loops`.

    That is proved for each iteration of `loops` in which the conditions `kept` hold.
    """
    sums = [constraints(condition) for condition in conditions]
    if None in sums:
        return False
    limits = [linear_terms(one) for each in sums if each for one in each]
    terms = {term for terms, _ in limits for term in terms}
    others = {term for term in terms if not ranges_of(term) <= loops}
    for other in others:
        if other.op is not Op.RANGE or not has_fixed_size(other):
            return False
        if any(other in ranges_of(condition) for condition in kept):
            return False
        limits += [({other: 1}, 0), ({other: -1}, loop_size(other) - 1)]
    for other in others:
        left = _without(other, limits)
        if left is None:
            return False
        limits = left
    return all(bounds_where(sum_terms(*left), kept)[0] >= 0 for left in limits)


def _without(loop: Node, limits: list[Constraint]) -> list[Constraint] | None:
    """What `limits` say about all but `loop`; None where rounding would matter."""
    left = [constraint for constraint in limits if loop not in constraint[0]]
    lower = [constraint for constraint in limits if constraint[0].get(loop, 0) > 0]
    upper = [constraint for constraint in limits if constraint[0].get(loop, 0) < 0]
    for (low, least), (high, most) in ((a, b) for a in lower for b in upper):
        up, down = low[loop], -high[loop]
        if min(up, down) > 1:
            return None
        terms = {t: down * low.get(t, 0) + up * high.get(t, 0) for t in {**low, **high}}
        left.append(({t: c for t, c in terms.items() if c}, down * least + up * most))
    return left
