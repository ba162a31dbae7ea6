"""Ranges of floats: the bounds that comparisons prove, for values that are no NaN.

    y = (x > 0).where(x, 0); z = (y < 1).where(y, 1)
    clamped(z)  ->  (0.0, 1.0): a NaN is not above 0, so that y is 0 then
    clamped(x)  ->  None
    clamped(byte.cast(float32) * 2 + 1)  ->  about (1, 511)

A cast of such a value to an integer has nothing to saturate.
"""

from __future__ import annotations

import math
import weakref

from ..dtype import dtypes
from .node import Node
from .op import Op

__all__ = ["clamped"]

ROUNDING = 2.0**-7  # more than bfloat16's; the bounds serve integers, for which that is nothing
LARGE = 2.0**100  # far below where float32 and bfloat16 overflow

Bounds = tuple[float, float] | None
_ANY = (-math.inf, math.inf)
_cache: weakref.WeakKeyDictionary[Node, list[Bounds]] = weakref.WeakKeyDictionary()


def clamped(node: Node) -> Bounds:
    """(low, high), inclusive, of every lane of a float, or None where it may be a NaN."""
    for item in node.toposort(lambda n: n not in _cache):
        if item not in _cache:
            _cache[item] = [_of(item)]
    return _cache[node][0]


def _known(node: Node) -> Bounds:
    return _cache[node][0] if node in _cache else None


def _of(node: Node) -> Bounds:
    if not node.dtype.is_float:
        return None
    if node.op is Op.CONST:
        return None if math.isnan(node.arg) else (node.arg, node.arg)
    if node.op is Op.CAST and (node.src[0].dtype.is_int or node.src[0].dtype.is_bool):
        kind = node.src[0].dtype.scalar
        return (float(kind.min), float(kind.max))
    if node.op is Op.WHERE:
        return _either(_where_it_holds(node), _known(node.src[2]))
    if node.op in (Op.ADD, Op.MUL) and node.dtype.scalar is not dtypes.float16:
        return _combined(node.op, *(_known(source) for source in node.src))
    if node.op in (Op.BROADCAST, Op.STACK, Op.SHUFFLE):
        total = _known(node.src[0])
        for source in node.src[1:]:
            total = _either(total, _known(source))
        return total
    return None


def _where_it_holds(node: Node) -> Bounds:
    """Bounds of a WHERE's first value, where its condition holds."""
    condition, value = node.src[:2]
    known = _known(value)
    if condition.op is not Op.CMPLT or value not in condition.src:
        return known
    low, high = _ANY if known is None else known  # what compares as less is no NaN
    below, above = condition.src
    limit = _known(above if value is below else below)
    if limit is not None and value is below:
        high = min(high, limit[1])
    elif limit is not None:
        low = max(low, limit[0])
    return low, high


def _combined(op: Op, one: Bounds, other: Bounds) -> Bounds:
    """Bounds of a sum or a product, with room for what is rounded; None near overflow."""
    if one is None or other is None:
        return None
    if op is Op.ADD:
        ends = [one[0] + other[0], one[1] + other[1]]
    else:
        ends = [x * y for x in one for y in other]
    largest = max(map(abs, (*ends, *one, *other)))
    room = largest * ROUNDING
    return (min(ends) - room, max(ends) + room) if largest < LARGE else None


def _either(one: Bounds, other: Bounds) -> Bounds:
    if one is None or other is None:
        return None
    return min(one[0], other[0]), max(one[1], other[1])
