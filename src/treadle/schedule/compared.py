"""What is compared with an extreme of its own, and so must not be computed anew.

    y = x * w + b
    y == y.max()  ->  {y: "it is compared with an extreme of its own"}

Two kernels that compute the same value may round it differently: one adds in another order, one
rounds a product before it is added. Then no element equals the maximum, and the gradient of a
maximum, which goes where they are equal, is zero. In memory a value has one rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import Node
from ..ir.op import COMPARE, MOVEMENT, SAME, Op
from ..ir.views import Gather, Scatter, operand
from .plan import BOUNDARY, behind, elements

__all__ = ["compared_with_extremes"]

REASON = "it is compared with an extreme of its own, and another kernel may round it differently"
_VIEWS = MOVEMENT | SAME
# Ops on floats whose results have one rounding, or none.
_ROUND_ONCE = COMPARE | _VIEWS | {
    Op.NEG, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND, Op.CAST, Op.BITCAST, Op.ADD, Op.SUB, Op.MUL,
    Op.MAX, Op.MIN, Op.WHERE, Op.GATHER,
}  # fmt: skip
_EXTREMES = frozenset((Op.MAX, Op.MIN))
_MIN_BITS = 32  # of a float whose arithmetic is not done in a wider type


def compared_with_extremes(nodes: Sequence[Node]) -> dict[Node, str]:
    """The values that are stored so that they equal their extremes, each with why."""
    order = Node.sink(nodes).toposort()
    found: dict[Node, str] = {}
    memory: dict[Node, bool] = {}
    for node in order:
        if node.op not in COMPARE or not node.src[0].dtype.is_float:
            continue
        for value, other in (node.src, node.src[::-1]):
            below = _below_extremes(other)
            both = next((n for n in _views(value) if n in below), None)
            if both is not None and not _rounds_once(both, memory):
                found.update(dict.fromkeys(_what_to_store(both, memory), REASON))
    return found


def _views(node: Node) -> list[Node]:
    """`node`, and what it is a view of."""
    found = [node]
    while found[-1].op in _VIEWS:
        found.append(operand(found[-1]))
    return found


def _below_extremes(node: Node) -> set[Node]:
    """The values that `node`, or what it looks up, is the extreme of, and what they view."""
    found: set[Node] = set()
    open_nodes = [node]
    while open_nodes:
        node = _views(open_nodes.pop())[-1]
        if node.op is Op.GATHER:
            open_nodes.append(Gather.of(node).source)
            continue
        if node.op in (Op.REDUCE, Op.SCAN) and node.arg.op in _EXTREMES:
            below = [operand(node)]
        elif node.op is Op.SCATTER and node.arg.op in _EXTREMES:
            scatter = Scatter.of(node)
            below = [scatter.base, scatter.values]
        else:
            continue
        open_nodes += below
        found.update(view for source in below for view in _views(source))
    return found


def _rounds_once(root: Node, known: dict[Node, bool]) -> bool:
    """Whether every kernel that computes `root` gets the same bits."""
    for node in root.toposort(lambda n: n not in known and n.op not in BOUNDARY):
        if node not in known:
            known[node] = node.op in BOUNDARY or (
                all(known[source] for source in node.src) and _is_exact(node)
            )
    return known[root]


def _is_exact(node: Node) -> bool:
    """Whether the result follows from those of the sources, bit by bit."""
    if node.op is Op.REDUCE:
        return not node.dtype.is_float or node.arg.op in _EXTREMES
    if not any(n.dtype.is_float for n in (node, *node.src)):
        return True
    if node.op in (Op.ADD, Op.SUB):  # a product that is added may be rounded or not
        added = (behind(source, _VIEWS | {Op.NEG}) for source in node.src)
        return node.dtype.bits >= _MIN_BITS and all(n.op is not Op.MUL for n in added)
    return node.dtype.bits >= _MIN_BITS if node.op is Op.MUL else node.op in _ROUND_ONCE


def _what_to_store(root: Node, known: dict[Node, bool]) -> list[Node]:
    """What `root` follows from bit by bit, or `root` itself if that takes fewer bytes."""
    below = root.toposort(lambda n: not known[n] and _is_exact(n))
    sources = [n for n in below if not known[n] and not _is_exact(n)]
    return sources if sum(map(_bytes, sources)) <= _bytes(root) else [root]


def _bytes(node: Node) -> int:
    return elements(node) * node.dtype.itemsize
