"""Small node builders that the rules of differentiation share."""

from __future__ import annotations

from ..dtype import DType, dtypes, sum_acc_dtype
from ..ir.args import ReduceArg, ScanArg, Token
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import Shape, same_size, simple_shape

__all__ = [
    "computed_anew", "constant", "expand", "flip", "iota_along", "named", "permute", "reduce",
    "repeated", "reshape", "scan",
]  # fmt: skip


def reshape(node: Node, shape: Shape) -> Node:
    shape = simple_shape(shape)
    return node if node.shape == shape else Node(Op.RESHAPE, node.dtype, (node,), shape)


def permute(node: Node, order: tuple[int, ...]) -> Node:
    return Node(Op.PERMUTE, node.dtype, (node,), order)


def flip(node: Node, axis: int) -> Node:
    return Node(Op.FLIP, node.dtype, (node,), (axis,))


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


def named(node: Node) -> Node:
    """`node` under a name that nothing else has: gradients for it are for this use of it alone."""
    return Node(Op.ALIAS, node.dtype, (node,), Token())


def computed_anew(node: Node) -> Node:
    """`node` as a value of its own: not what was computed for `node` before.

    Its sources may be computed anew as well by then, and rounded otherwise.
    """
    return node.replace(src=tuple(Node(Op.DETACH, s.dtype, (s,)) for s in node.src))


def constant(dtype: DType, value: complex, shape: Shape) -> Node:
    """`value` everywhere in `shape`."""
    return expand(Node.const(dtype, value), shape)


def reduce(node: Node, op: Op, axes: tuple[int, ...]) -> Node:
    """Over `axes`, kept as size 1; sums of half types in float32."""
    if not axes:
        return node
    wide = sum_acc_dtype(node.dtype) if node.dtype.is_float else node.dtype
    return Node(Op.REDUCE, wide, (node.cast(wide),), ReduceArg(op, axes)).cast(node.dtype)


def scan(node: Node, op: Op, axis: int) -> Node:
    return Node(Op.SCAN, node.dtype, (node,), ScanArg(op, axis))


def iota_along(shape: Shape, axis: int, dtype: DType = dtypes.int32) -> Node:
    """0, 1, ... along one axis of `shape`."""
    size = shape[axis]
    column = tuple(size if i == axis else 1 for i in range(len(shape)))
    return expand(reshape(Node(Op.IOTA, dtype, (), size), column), shape)


def grown_axes(small: Shape, large: Shape) -> tuple[int, ...]:
    """The axes on which `small` was expanded to `large`."""
    pairs = enumerate(zip(small, large, strict=True))
    return tuple(axis for axis, (a, b) in pairs if not same_size(a, b))
