"""Derivatives of reductions and scans.

Products are differentiated without dividing, so that zeros are exact: the derivative for one
element is the product of all the others.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dtype import sum_acc_dtype
from ..ir.args import ScatterArg
from ..ir.builders import constant, cut, expand, iota_along, padded, permute, reshape, scan
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import size_product
from ..ir.views import operand, operands
from .shapes import computed_anew, flip, reduce

__all__ = ["reduce_rule", "scan_rule"]


def reduce_rule(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The gradient of a REDUCE."""
    return (_REDUCES[node.arg.op](node, expand(g, operand(node).shape)),)


def _sum(node: Node, g: Node) -> Node:
    return g


def _extreme(node: Node, g: Node) -> Node:
    """Equal extremes share the gradient evenly."""
    x = operand(node)
    top = expand(computed_anew(node), x.shape)
    chosen = x.eq(top) | x.ne(x)
    count = reduce(chosen.cast(x.dtype), Op.ADD, node.arg.axes)
    return chosen.where(g / expand(count, x.shape), 0.0)


def _product(node: Node, g: Node) -> Node:
    return g * _others(operand(node), node.arg.axes)


def _others(x: Node, axes: tuple[int, ...]) -> Node:
    """For each element the product of all others over `axes`."""
    rest = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    order = (*rest, *axes)
    moved = permute(x, order)
    lead = tuple(x.shape[axis] for axis in rest)
    flat = reshape(moved, (*lead, size_product(x.shape[axis] for axis in axes)))
    last = len(lead)
    before = _exclusive_product(flat, last)
    after = flip(_exclusive_product(flip(flat, last), last), last)
    inverse = tuple(order.index(axis) for axis in range(len(order)))
    return permute(reshape(before * after, moved.shape), inverse)


def _exclusive_product(x: Node, axis: int) -> Node:
    """The product of the elements before each one."""
    first = iota_along(x.shape, axis) < 1
    return scan(first.where(1.0, _before(x, axis)), Op.MUL, axis)


def _before(x: Node, axis: int) -> Node:
    """What stands before each element, and 0 before the first."""
    return cut(padded(x, axis, 1, 0), axis, (0, x.shape[axis]))


_REDUCES: dict[Op, Callable[[Node, Node], Node]] = {
    Op.ADD: _sum, Op.MUL: _product, Op.MAX: _extreme, Op.MIN: _extreme,
}  # fmt: skip


def scan_rule(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The gradient of a SCAN."""
    if len(node.src) > 1:
        return _recurrence(node, g)
    return (_SCANS[node.arg.op](node, g),)


def _running_sum(node: Node, g: Node) -> Node:
    axis = node.arg.axis
    return flip(scan(flip(g, axis), Op.ADD, axis), axis)


def _running_product(node: Node, g: Node) -> Node:
    """Each product before an element, times what arrives behind it by way of all between."""
    x, axis = operand(node), node.arg.axis
    return _exclusive_product(x, axis) * _totals_behind(x, g, axis)


def _recurrence(node: Node, g: Node) -> tuple[Node, Node]:
    _, factor = operands(node)
    arriving = _totals_behind(factor, g, node.arg.axis)
    return arriving, arriving * _before(node, node.arg.axis)


def _totals_behind(factor: Node, g: Node, axis: int) -> Node:
    """t[i] = g[i] + factor[i + 1] * t[i + 1]: what arrives at each total, and at those of it."""
    following = cut(padded(factor, axis, 0, 1), axis, (1, factor.shape[axis] + 1))
    return flip(scan(flip(g, axis), Op.ADD, axis, flip(following, axis)), axis)


def _running_extreme(node: Node, g: Node) -> Node:
    """Each gradient goes to the latest element that equals the running extreme.

    Those of half types add up in float32.
    """
    x, axis = operand(node), node.arg.axis
    places = x.eq(computed_anew(node)).where(iota_along(x.shape, axis), 0)
    source = scan(places, Op.MAX, axis)
    order = (*(i for i in range(len(x.shape)) if i != axis), axis)
    rows = size_product(n for i, n in enumerate(x.shape) if i != axis)
    size = x.shape[axis]
    moved = reshape(permute(source, order), (rows, size))
    start = iota_along((rows, size), 0) * size
    flat = reshape(moved + start, (rows * size,))
    wide = sum_acc_dtype(g.dtype)
    values = reshape(permute(g, order), (rows * size,)).cast(wide)
    zeros = constant(wide, 0, (rows * size,))
    total = Node(Op.SCATTER, wide, (zeros, flat, values), ScatterArg(0, Op.ADD)).cast(g.dtype)
    shape = tuple(x.shape[i] for i in order)
    inverse = tuple(order.index(i) for i in range(len(order)))
    return permute(reshape(total, shape), inverse)


_SCANS: dict[Op, Callable[[Node, Node], Node]] = {
    Op.ADD: _running_sum, Op.MUL: _running_product, Op.MAX: _running_extreme,
    Op.MIN: _running_extreme,
}  # fmt: skip
