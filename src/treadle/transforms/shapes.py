"""Small node builders that the rules of differentiation share."""

from __future__ import annotations

from ..dtype import sum_acc_dtype
from ..ir.args import ReduceArg, Token
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import Shape, same_size

__all__ = ["computed_anew", "flip", "grown_axes", "named", "reduce"]


def flip(node: Node, axis: int) -> Node:
    return Node(Op.FLIP, node.dtype, (node,), (axis,))


def named(node: Node) -> Node:
    """`node` under a name that nothing else has: gradients for it are for this use of it alone."""
    return Node(Op.ALIAS, node.dtype, (node,), Token())


def computed_anew(node: Node) -> Node:
    """`node` as a value of its own: not what was computed for `node` before.

    Its sources may be computed anew as well by then, and rounded otherwise.
    """
    return node.replace(src=tuple(Node(Op.DETACH, s.dtype, (s,)) for s in node.src))


def reduce(node: Node, op: Op, axes: tuple[int, ...]) -> Node:
    """Over `axes`, kept as size 1; sums of half types in float32."""
    if not axes:
        return node
    wide = sum_acc_dtype(node.dtype) if node.dtype.is_float else node.dtype
    return Node(Op.REDUCE, wide, (node.cast(wide),), ReduceArg(op, axes)).cast(node.dtype)


def grown_axes(small: Shape, large: Shape) -> tuple[int, ...]:
    """The axes on which `small` was expanded to `large`."""
    pairs = enumerate(zip(small, large, strict=True))
    return tuple(axis for axis, (a, b) in pairs if not same_size(a, b))
