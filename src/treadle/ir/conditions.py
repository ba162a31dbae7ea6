"""Conditions as lists of parts, and what they say about an index.

    bounds_where(i - j + 4, [i - j >= -4, i - j < 8])  ->  (0, 11)

Intervals alone take i and j for independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..dtype import dtypes
from .interval import Bounds, bounds
from .node import Node, behind_after
from .op import Op
from .rules.index import linear_terms, sum_terms

__all__ = ["TRUE", "all_of", "bounds_where", "parts", "stays_inside", "without_not"]

TRUE = Node.const(dtypes.bool, True)

Sum = frozenset[tuple[Node, int]]  # the terms of a linear sum without its constant


def parts(condition: Node) -> list[Node]:
    """The conditions that must all hold."""
    found: dict[Node, None] = {}
    left = [condition]
    while left:
        part = left.pop()
        if part.op is Op.AND:
            left.extend(reversed(part.src))
        elif part is not TRUE:
            found[part] = None
    return list(found)


def all_of(conditions: Iterable[Node]) -> Node:
    """One condition that holds where all of `conditions` do."""
    result = TRUE
    for part in conditions:
        result = part if result is TRUE else result & part
    return result


def without_not(condition: Node) -> tuple[Node, bool]:
    """What a condition says holds, and whether it says that this does not."""
    if condition.op is Op.XOR:
        inner, flips = condition.src
        if flips is TRUE:
            return inner, True
    return condition, False


def bounds_where(index: Node, conditions: Iterable[Node]) -> Bounds:
    """Bounds of `index` wherever all of `conditions` hold; those on linear sums are made use of."""
    limits: dict[Sum, Bounds] = {}
    for condition in conditions:
        for sums, (low, high) in _limits(condition):
            least, most = limits.get(sums) or bounds(sum_terms(dict(sums), 0))
            limits[sums] = (max(low, least), min(high, most))
    terms, low = linear_terms(index)
    high = low
    for sums, (least, most) in limits.items():
        factor = _multiple(terms, sums)
        if factor > 0:
            terms = {t: c for t, c in terms.items() if (t, c // factor) not in sums}
            low, high = low + factor * least, high + factor * most
    least, most = bounds(sum_terms(terms, 0))
    return low + least, high + most


def stays_inside(index: Node, memory: Node, conditions: Iterable[Node]) -> bool:
    """Whether `index` is proved to be one of an element of `memory` wherever `conditions` hold."""
    memory = behind_after(memory)
    if memory.op not in (Op.PARAM, Op.LOCAL):
        return False
    low, high = bounds_where(index, conditions)
    size = memory.arg.size
    return low >= 0 and isinstance(size, int) and high < size


def _multiple(terms: dict[Node, int], sums: Sum) -> int:
    """How many times `sums` is among `terms`, term by term; 0 if it is not."""
    first, coefficient = next(iter(sums))
    factor = terms.get(first, 0) // coefficient
    return factor if all(terms.get(t) == factor * c for t, c in sums) else 0


def _limits(condition: Node) -> list[tuple[Sum, Bounds]]:
    """The bounds that a comparison sets on a linear sum, and on the sum's opposite."""
    compared, is_not = without_not(condition)
    if compared.op is not Op.CMPLT or compared.src[0].dtype.kind != "index":
        return []
    terms, offset = linear_terms(compared.src[0] - compared.src[1])
    if not terms:
        return []
    opposite = {t: -c for t, c in terms.items()}
    low, high = (-offset, math.inf) if is_not else (-math.inf, -offset - 1)
    return [(frozenset(terms.items()), (low, high)), (frozenset(opposite.items()), (-high, -low))]
