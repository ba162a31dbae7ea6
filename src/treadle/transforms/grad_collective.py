"""Derivatives of what the processes of a group compute together, and the same for many examples.

The gradient is that of the sum of what all processes differentiate: what one process gives to
another's result comes back from there. So the derivative of a collective is a collective, and all
processes have to ask for it.

    all_reduce of a sum   <->  itself                  broadcast  <->  reduce, a sum
    all_gather            <->  reduce_scatter          all_to_all <->  itself
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import UserError
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import operand

__all__ = ["again", "collective_batch", "collective_rule"]

_STACKED_SOURCE = frozenset(("reduce_scatter", "all_to_all"))  # axis 0 is that of processes
_STACKED_RESULT = frozenset(("all_gather", "all_to_all"))


def again(node: Node, x: Node, **changes: object) -> Node:
    """Another call like `node`, of `x`."""
    return Node(Op.COLLECTIVE, x.dtype, (x,), node.arg.again(**changes))


def collective_rule(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The gradient of a COLLECTIVE's operand."""
    return _RULES[node.arg.kind](node, g)


def _linear(kind: str) -> Callable[[Node, Node], tuple[Node]]:
    """The rule of a kind whose derivative is a call of `kind`."""

    def rule(node: Node, g: Node) -> tuple[Node]:
        return (again(node, g, kind=kind, op=Op.ADD, shape=operand(node).shape),)

    return rule


def _all_reduce(node: Node, g: Node) -> tuple[Node]:
    op = node.arg.op
    if op is Op.ADD:
        return _linear("all_reduce")(node, g)
    if op is Op.MUL:
        raise UserError(
            "[backward] a product over processes has no derivative here; add logarithms instead"
        )
    # All that equal the largest share what arrives anywhere.
    won = operand(node).eq(node).cast(g.dtype)
    count, total = again(node, won, op=Op.ADD), again(node, g, op=Op.ADD)
    return (total * won / count,)


def _reduce_scatter(node: Node, g: Node) -> tuple[Node]:
    if node.arg.op is not Op.ADD:
        raise UserError("[backward] of what reduce_scatter computes, only sums have a derivative")
    return _linear("all_gather")(node, g)


def _never(node: Node, g: Node) -> tuple[None, ...]:
    raise UserError(
        "[backward] what one process receives from another has no derivative here: send its "
        "gradient back, and call y.backward(gradient) there"
    )


_RULES: dict[str, Callable[[Node, Node], tuple[Node | None, ...]]] = {
    "all_reduce": _all_reduce,
    "reduce": _linear("broadcast"),
    "broadcast": _linear("reduce"),
    "all_gather": _linear("reduce_scatter"),
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _linear("all_to_all"),
    "send": _never,
    "receive": _never,
}


def collective_batch(node: Node, x: Node, size: int) -> Node:
    """One call for `size` examples, whose axis is the first one of `x`."""
    arg = node.arg
    if arg.kind in _STACKED_SOURCE:
        x = _swapped(x)
    many = (size, *arg.shape)
    if arg.kind not in _STACKED_RESULT:
        return again(node, x, shape=many)
    made = again(node, x, shape=(many[1], many[0], *many[2:]))
    return _swapped(made)


def _swapped(x: Node) -> Node:
    """With its first two axes exchanged."""
    order = (1, 0, *range(2, len(x.shape)))
    return Node(Op.PERMUTE, x.dtype, (x,), order)
