"""Small builders of tensor graphs; most give a node itself where nothing has to be done.

cut(reshape(x, (4, 8)), 1, (0, 3))  ->  SHRINK(RESHAPE(x, (4, 8)), ((0, 4), (0, 3)))
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from .args import ScanArg
from .node import Node
from .op import Op
from .shape import Shape, simple_shape

__all__ = [
    "constant", "cut", "expand", "iota_along", "padded", "permute", "repeated", "reshape", "scan",
    "with_size",
]  # fmt: skip


def reshape(node: Node, shape: Shape) -> Node:
    """The same elements in another shape."""
    shape = simple_shape(shape)
    return node if node.shape == shape else Node(Op.RESHAPE, node.dtype, (node,), shape)


def permute(node: Node, order: tuple[int, ...]) -> Node:
    """Axis i of the result is axis order[i] of `node`, also where that is its own."""
    return Node(Op.PERMUTE, node.dtype, (node,), order)


def expand(node: Node, shape: Shape) -> Node:
    """`node` broadcast to `shape`; a scalar too."""
    shape = simple_shape(shape)
    if node.shape == shape:
        return node
    aligned = reshape(node, (1,) * (len(shape) - len(node.shape)) + node.shape)
    return aligned if aligned.shape == shape else Node(Op.EXPAND, node.dtype, (aligned,), shape)


def repeated(node: Node, size: int) -> Node:
    """`node` `size` times, along a new first axis."""
    return expand(node, (size, *node.shape))


def cut(node: Node, axis: int, piece: tuple[int, int]) -> Node:
    """A piece of one axis, from begin to end; what is repeated along others is, too."""
    if piece == (0, node.shape[axis]):
        return node
    size = piece[1] - piece[0]
    if node.op is Op.EXPAND and size:
        (once,) = node.src
        small = once if once.shape[axis] == 1 else cut(once, axis, piece)
        return expand(small, with_size(node.shape, axis, size))
    arg = tuple(piece if at == axis else (0, n) for at, n in enumerate(node.shape))
    return Node(Op.SHRINK, node.dtype, (node,), arg)


def padded(node: Node, axis: int, before: int, after: int) -> Node:
    """With zeros around it on one axis."""
    if not before + after:
        return node
    arg = tuple((before, after) if at == axis else (0, 0) for at in range(len(node.shape)))
    return Node(Op.PAD, node.dtype, (node,), arg)


def with_size(shape: Shape, axis: int, size: object) -> Shape:
    """`shape` with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def constant(dtype: DType, value: complex, shape: Shape) -> Node:
    """`value` everywhere in `shape`."""
    return expand(Node.const(dtype, value), shape)


def iota_along(shape: Shape, axis: int, dtype: DType = dtypes.int32) -> Node:
    """0, 1, ... along one axis of `shape`."""
    size = shape[axis]
    column = with_size((1,) * len(shape), axis, size)
    return expand(reshape(Node(Op.IOTA, dtype, (), size), column), shape)


def scan(node: Node, op: Op, axis: int, *factor: Node) -> Node:
    """All elements up to each along an axis, combined; if there is a factor, which is for ADD, then
    y[i] = factor[i] * y[i - 1] + node[i], from 0.
    """
    return Node(Op.SCAN, node.dtype, (node, *factor), ScanArg(op, axis))
