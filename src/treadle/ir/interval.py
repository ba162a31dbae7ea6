"""Interval analysis: bounds(node) -> (low, high), inclusive, for index and bool arithmetic.

    r = Node.range(8, 0); bounds(r * 4 + 3) -> (3, 31)

Bounds are Python ints, or -inf/inf where nothing is known. Bool nodes have bounds within (0, 1), so
a condition is proved true by (1, 1).
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

from .graph import AnyNode, N, toposort
from .op import Op

__all__ = ["Bounds", "always", "arithmetic", "bounds", "bounds_of_leaf", "never"]

Bounds = tuple[Any, Any]
_UNKNOWN: Bounds = (-math.inf, math.inf)
_cache: weakref.WeakKeyDictionary[AnyNode, Bounds] = weakref.WeakKeyDictionary()


def bounds(node: AnyNode) -> Bounds:
    """Inclusive bounds of every value that an integer, index or bool node can take."""
    found = _cache.get(node)
    if found is not None:
        return found
    for item in toposort((node,), lambda n: n not in _cache):
        if item not in _cache:
            _cache[item] = _of(item)
    return _cache[node]


def always(condition: AnyNode) -> bool:
    """Whether a bool node is proved to hold."""
    return bounds(condition)[0] == 1


def never(condition: AnyNode) -> bool:
    """Whether a bool node is proved not to hold."""
    return bounds(condition)[1] == 0


def _of(node: AnyNode) -> Bounds:
    op = node.op
    if node.dtype.kind == "float" or node.dtype.count > 1:
        return _UNKNOWN
    leaf = bounds_of_leaf(node, bounds)
    if leaf is not None:
        return leaf
    if op is Op.BIND:
        return (node.src[1].arg, node.src[1].arg)
    default = (0, 1) if node.dtype.is_bool else _type_range(node)
    if node.dtype.kind not in ("index", "bool") or not node.src:
        return default
    if any(s.dtype.kind not in ("index", "bool") or s.shape != () for s in node.src):
        return default
    return arithmetic(op, [_cache[s] for s in node.src], default)


def bounds_of_leaf(node: N, of: Callable[[N], Bounds]) -> Bounds | None:
    """The bounds of a constant, a loop or what a launch says, by those `of` a loop's size."""
    if node.op is Op.CONST:
        return (int(node.arg), int(node.arg))
    if node.op is Op.RANGE:
        return (0, max(0, of(node.src[0])[1] - 1))
    if node.op in (Op.VARIABLE, Op.WORK_ITEM):
        return (node.arg.low, node.arg.high)
    return None


def _type_range(node: AnyNode) -> Bounds:
    if node.dtype.kind in ("int", "uint"):
        return (node.dtype.min, node.dtype.max)
    return _UNKNOWN


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def arithmetic(op: Op, src: list[Bounds], default: Bounds) -> Bounds:
    """The bounds of `op` over the unbounded integers; `default` where nothing better is known."""
    if op is Op.WHERE:
        (lo, hi), yes, no = src
        if lo == 1:
            return yes
        return no if hi == 0 else (min(yes[0], no[0]), max(yes[1], no[1]))
    if op is Op.CAST:
        return src[0]
    if len(src) != 2:
        return default
    (a, b), (c, d) = src
    if op is Op.ADD:
        return (a + c, b + d)
    if op is Op.SUB and default != (0, 1):
        return (a - d, b - c)
    if op is Op.MUL:
        corners = [_times(x, y) for x in (a, b) for y in (c, d)]
        return (min(corners), max(corners))
    if op is Op.MAX:
        return (max(a, c), max(b, d))
    if op is Op.MIN:
        return (min(a, c), min(b, d))
    if op is Op.CMPLT:
        return (int(b < c), int(a < d))
    if op in (Op.CMPEQ, Op.CMPNE):
        equal = (int(a == b == c == d), int(a <= d and c <= b))
        return equal if op is Op.CMPEQ else (1 - equal[1], 1 - equal[0])
    if op is Op.IDIV and c == d and c > 0:
        return (_floor(a, c), _floor(b, c))
    if op is Op.IDIV and c > 0 and a >= 0:
        return (_floor(a, d), _floor(b, c))
    if op is Op.MOD and c > 0:
        if c == d and _floor(a, c) == _floor(b, c) and not math.isinf(a):
            return (a % c, b % c)
        return (0, min(b, d - 1) if a >= 0 else d - 1)
    if op is Op.AND and default == (0, 1):
        return (min(a, c), min(b, d))
    if op is Op.OR and default == (0, 1):
        return (max(a, c), max(b, d))
    if op is Op.XOR and default == _UNKNOWN and min(a, c) >= 0 and not math.isinf(max(b, d)):
        return (0, (1 << max(b, d).bit_length()) - 1)
    if op is Op.XOR and default == (0, 1) and a == b and c == d:
        return (a ^ c, a ^ c)
    if op is Op.XOR and default == (0, 1) and c == d == 1:
        return (1 - b, 1 - a)
    if op is Op.XOR and default != (0, 1) and a >= 0 and c >= 0 and not math.isinf(max(b, d)):
        return (0, (1 << int(max(b, d)).bit_length()) - 1)
    return default


def _floor(a: float, b: float) -> float:
    if math.isinf(a):
        return a
    return 0 if math.isinf(b) else a // b
