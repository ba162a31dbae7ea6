"""Nodes one after the other on an axis.

joined([a, b], 0)    (2, 3) and (4, 3) -> (6, 3)
"""

from __future__ import annotations

from ...dtype import dtypes
from ...ir.node import Node, alu
from ...ir.op import Op
from ...ir.shape import Shape, simple_size
from ..shapes import expand, reshape
from ..types import Extent

__all__ = ["joined"]

_TOGETHER = 64  # tensors that one kernel joins


def joined(nodes: list[Node], axis: int) -> Node:
    """Nodes one after the other: many of them by groups in memory, then these.

    Groups of equal sizes are one kernel, over other buffers each; one kernel for all would take
    minutes to compile, or be cut where each part computes every element.
    """
    while len(nodes) > _TOGETHER:
        groups = [nodes[i : i + _TOGETHER] for i in range(0, len(nodes), _TOGETHER)]
        nodes = [_stored(_side_by_side(group, axis)) for group in groups]
    return _side_by_side(nodes, axis)


def _stored(node: Node) -> Node:
    return Node(Op.CONTIGUOUS, node.dtype, (node,))


def _side_by_side(nodes: list[Node], axis: int) -> Node:
    """Each node padded to the full axis, chosen by position: exact for NaN and -0.0 too."""
    sizes = [node.shape[axis] for node in nodes]
    total = simple_size(sum(sizes[1:], sizes[0]))
    shape = (*nodes[0].shape[:axis], total, *nodes[0].shape[axis + 1 :])
    if len(nodes) == 1:
        return nodes[0]
    places = Node(Op.IOTA, dtypes.int32, (), total)
    column = tuple(total if i == axis else 1 for i in range(len(shape)))
    places = expand(reshape(places, column), shape)
    begin, result = total, None
    for node, size in zip(reversed(nodes), reversed(sizes), strict=True):
        begin = simple_size(begin - size)
        pads = tuple(
            (begin, total - begin - size) if i == axis else (0, 0) for i in range(len(shape))
        )
        padded = Node(Op.PAD, node.dtype, (node,), pads)
        if result is None:
            result, bound = padded, begin
            continue
        before = alu(Op.CMPLT, places, _as_bound(bound, shape))
        result, bound = alu(Op.WHERE, before, padded, result), begin
    assert result is not None
    return result


def _as_bound(bound: Extent, shape: Shape) -> Node:
    if not isinstance(bound, Node):
        return Node.const(dtypes.int32, bound)
    return expand(reshape(bound.cast(dtypes.int32), (1,) * len(shape)), shape)
