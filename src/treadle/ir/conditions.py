"""Conditions as lists of parts, and what they say about an index.

    bounds_where(i - j + 4, [i - j >= -4, i - j < 8])  ->  (0, 11)

Intervals alone take i and j for independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ..dtype import dtypes
from .interval import Bounds, bounds
from .node import Node, behind_after
from .op import Op
from .rules.index import linear_terms, simplify, sum_terms

__all__ = [
    "TRUE", "all_of", "bounds_where", "constraints", "negation", "parts", "stays_inside",
    "without_not",
]  # fmt: skip

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


def negation(condition: Node) -> Node:
    """A condition that holds where this one does not, with NOT around comparisons alone."""
    inner, is_not = without_not(condition)
    if is_not:
        return inner
    if condition.op not in (Op.AND, Op.OR):
        return ~condition
    one, other = map(negation, condition.src)
    return one | other if condition.op is Op.AND else one & other


def constraints(condition: Node, holds: bool = True) -> list[Node] | None:
    """Sums of loops that are all at least 0 where a condition holds (or not), and there alone.

    None where that is not known, as of what has alternatives.
    """
    compared, is_not = without_not(condition)
    if is_not:
        return constraints(compared, not holds)
    if condition.op is (Op.AND if holds else Op.OR):
        sides = [constraints(side, holds) for side in condition.src]
        return None if None in sides else [one for side in sides if side for one in side]
    if condition.op is not Op.CMPLT:
        return None
    low, high = map(_as_index, condition.src)
    if low is None or high is None:
        return None
    return [high - low - 1 if holds else low - high]


def _as_index(node: Node) -> Node | None:
    """Integer arithmetic on loops as index arithmetic, where it cannot overflow."""
    if node.dtype.kind == "index":
        return node
    new: dict[Node, Node] = {}
    for item in node.toposort(lambda n: n.dtype.kind != "index"):
        if item.dtype.kind == "index":
            new[item] = item
        elif item.op is Op.CONST and item.dtype.is_int:
            new[item] = Node.index(item.arg)
        elif item.op is Op.CAST and item.src[0] in new:
            new[item] = new[item.src[0]]
        elif item.op in (Op.ADD, Op.SUB, Op.MUL) and all(s in new for s in item.src):
            left, right = (new[s] for s in item.src)
            new[item] = left.alu(item.op, right)
        else:
            return None
        low, high = bounds(new[item])
        if item.dtype.kind != "index" and not item.dtype.min <= low <= high <= item.dtype.max:
            return None
    return simplify(new[node])


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


def _limits(condition: Node) -> Iterator[tuple[Sum, Bounds]]:
    """The bounds that a condition sets on linear sums, and on their opposites."""
    for one in constraints(condition) or ():
        terms, offset = linear_terms(one)
        if terms:
            opposite = {t: -c for t, c in terms.items()}
            yield frozenset(terms.items()), (-offset, math.inf)
            yield frozenset(opposite.items()), (-math.inf, offset)
