"""Symbolic sizes: variables, their bindings, and the numbers that sizes come to.

    unbind([RESHAPE(x, (BIND(n, 3), 4))])  ->  [RESHAPE(x, (n, 4))], {"n": 3}

A graph without its bindings is the same for every value, so it is compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ..errors import UserError
from ..explained import explained
from .node import Node, rebuild
from .op import Op

__all__ = ["Variable", "bound_size", "size_with", "unbind"]


@explained
def Variable(name: str, low: int, high: int) -> Node:
    """An integer that is known when a kernel is launched, `low` <= value <= `high`.

    `Variable("n", 1, 10).bind(3)` is a size that tensors can have. Raises UserError for empty
    bounds.
    """
    if low > high:
        raise UserError(f"[Variable] the bounds of {name} are empty: {low} to {high}")
    return Node.variable(name, low, high)


def unbind(roots: Sequence[Node]) -> tuple[list[Node], dict[str, int]]:
    """`roots` with every BIND replaced by its VARIABLE, and the values.

    Raises UserError where one variable is bound to two values.
    """
    values: dict[str, int] = {}
    new: dict[Node, Node] = {}
    for node in Node.sink(roots).toposort():
        new[node] = _unbound(node, new, values)
    return [new[root] for root in roots], values


def _unbound(node: Node, new: dict[Node, Node], values: dict[str, int]) -> Node:
    if node.op is Op.BIND:
        variable, value = node.src[0], node.src[1].arg
        if values.setdefault(variable.arg.name, value) != value:
            raise UserError(
                f"[realize] {variable.arg.name} is bound to {values[variable.arg.name]} and to "
                f"{value} in one computation"
            )
        return variable
    src = tuple(new[s] for s in node.src)
    arg = _map_nodes(node.arg, values)
    if src == node.src and arg is node.arg:
        return node
    return rebuild(node, src) if arg is node.arg else Node(node.op, node.dtype, src, arg)


def _map_nodes(arg: Any, values: dict[str, int]) -> Any:
    """`arg` with every Node inside it unbound; the same object where there is none."""
    if isinstance(arg, Node):
        [size], found = unbind([arg])
        values.update(found)
        return size
    if isinstance(arg, tuple):
        items = tuple(_map_nodes(item, values) for item in arg)
        return arg if all(a is b for a, b in zip(items, arg, strict=True)) else items
    if is_dataclass(arg) and not isinstance(arg, type):
        changed = {f.name: _map_nodes(getattr(arg, f.name), values) for f in fields(arg)}
        same = all(changed[f.name] is getattr(arg, f.name) for f in fields(arg))
        return arg if same else replace(arg, **changed)
    return arg


def size_with(size: Any, values: dict[str, int]) -> int:
    """What a size comes to for these values of the variables."""
    if isinstance(size, int):
        return size
    from .evaluate import evaluate  # brings NumPy, which fixed sizes do not need

    variables = [n for n in size.toposort() if n.op is Op.VARIABLE]
    return int(evaluate(size, {n: values[n.arg.name] for n in variables}))


def bound_size(size: Any) -> int:
    """What a size comes to, with the bindings that it holds."""
    if isinstance(size, int):
        return size
    [plain], values = unbind([size])
    return size_with(plain, values)
