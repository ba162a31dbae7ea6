"""Derivatives of movements, which only say where elements are: they move gradients back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.args import WindowArg
from ..ir.builders import reshape
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import operand
from .shapes import grown_axes, reduce

__all__ = ["MOVEMENT_RULES", "adjoint"]


def adjoint(chain: Sequence[Node], g: Node) -> Node:
    """The adjoint of movements, the last one first, applied to `g`: what is beside them is 0."""
    for movement in chain:
        (g,) = MOVEMENT_RULES[movement.op](movement, g)
    return g


def _expand(node: Node, g: Node) -> tuple[Node]:
    return (reduce(g, Op.ADD, grown_axes(operand(node).shape, node.shape)),)


def _permute(node: Node, g: Node) -> tuple[Node]:
    inverse = tuple(node.arg.index(axis) for axis in range(len(node.arg)))
    return (Node(Op.PERMUTE, g.dtype, (g,), inverse),)


def _pad(node: Node, g: Node) -> tuple[Node]:
    pairs = zip(node.arg, operand(node).shape, strict=True)
    return (Node(Op.SHRINK, g.dtype, (g,), tuple((b, b + n) for (b, _), n in pairs)),)


def _shrink(node: Node, g: Node) -> tuple[Node]:
    pairs = zip(node.arg, operand(node).shape, strict=True)
    return (Node(Op.PAD, g.dtype, (g,), tuple((b, n - e) for (b, e), n in pairs)),)


def _window(node: Node, g: Node) -> tuple[Node]:
    old: WindowArg = node.arg
    extent = operand(node).shape[old.axis]
    arg = WindowArg(old.axis, old.size, old.stride, old.dilation, extent)
    return (Node(Op.UNWINDOW, g.dtype, (g,), arg),)


MOVEMENT_RULES: dict[Op, Callable[[Node, Node], tuple[Node]]] = {
    Op.RESHAPE: lambda n, g: (reshape(g, operand(n).shape),),
    Op.EXPAND: _expand,
    Op.PERMUTE: _permute,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.FLIP: lambda n, g: (Node(Op.FLIP, g.dtype, (g,), n.arg),),
    Op.WINDOW: _window,
}
