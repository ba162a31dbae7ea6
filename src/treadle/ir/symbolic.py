"""Symbolic sizes: variables, their bindings, and the numbers that sizes come to.

    unbind([RESHAPE(x, (BIND(n, 3), 4))])  ->  [RESHAPE(x, (n, 4))], {"n": 3}
    bind([RESHAPE(x, (n, 4))], {"n": 3})   ->  [RESHAPE(x, (BIND(n, 3), 4))]

A graph without its bindings is the same for every value, so it is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TypeAlias

from ..errors import UserError
from ..explained import explained
from .node import Node, rebuild
from .op import Op

__all__ = ["Size", "Variable", "bind", "bound_size", "exchanged", "no_value", "size_with", "unbind"]

Size: TypeAlias = "int | Node"


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

    def unbound(node: Node) -> Node | None:
        if node.op is not Op.BIND:
            return None
        variable, value = node.src[0], node.src[1].arg
        if values.setdefault(variable.arg.name, value) != value:
            raise UserError(
                f"[realize] {variable.arg.name} is bound to {values[variable.arg.name]} and to "
                f"{value} in one computation; realize() what is made with the one value before "
                "the other is used"
            )
        return variable

    return exchanged(roots, unbound), values


def bind(roots: Sequence[Node], values: Mapping[str, int]) -> list[Node]:
    """`roots`, without bindings, with one for every VARIABLE that `values` names."""

    def bound(node: Node) -> Node | None:
        if node.op is not Op.VARIABLE or node.arg.name not in values:
            return None
        return node.bind(values[node.arg.name])

    return exchanged(roots, bound)


_Exchange = Callable[[Node], Node | None]


def exchanged(roots: Sequence[Node], exchange: _Exchange) -> list[Node]:
    """`roots` with what `exchange` gives in place of nodes, also of those inside of args."""
    new: dict[Node, Node] = {}
    for node in Node.sink(roots).toposort():
        found = exchange(node)
        new[node] = _rebuilt(node, new, exchange) if found is None else found
    return [new[root] for root in roots]


def _rebuilt(node: Node, new: dict[Node, Node], exchange: _Exchange) -> Node:
    src = tuple(new[s] for s in node.src)
    arg = _map_nodes(node.arg, exchange)
    if src == node.src and arg is node.arg:
        return node
    return rebuild(node, src) if arg is node.arg else Node(node.op, node.dtype, src, arg)


def _map_nodes(arg: object, exchange: _Exchange) -> object:
    """`arg` with every Node inside it exchanged; the same object where there is none."""
    if isinstance(arg, Node):
        [size] = exchanged([arg], exchange)
        return size
    if isinstance(arg, tuple):
        items = tuple(_map_nodes(item, exchange) for item in arg)
        return arg if all(a is b for a, b in zip(items, arg, strict=True)) else items
    if is_dataclass(arg) and not isinstance(arg, type):
        changed = {f.name: _map_nodes(getattr(arg, f.name), exchange) for f in fields(arg)}
        same = all(changed[f.name] is getattr(arg, f.name) for f in fields(arg))
        return arg if same else replace(arg, **changed)
    return arg


def no_value(name: str) -> UserError:
    """What to raise where the variable `name` is needed and is bound to nothing."""
    return UserError(
        f"[realize] the variable {name} has no value here: give {name}.bind(...) where a number is "
        "needed. In a captured function, what it is bound to is known to kernels alone"
    )


def size_with(size: Size, values: dict[str, int]) -> int:
    """What a size comes to for these values of the variables."""
    if isinstance(size, int):
        return size
    from .evaluate import evaluate  # brings NumPy, which fixed sizes do not need

    variables = [n for n in size.toposort() if n.op is Op.VARIABLE]
    for variable in variables:
        if variable.arg.name not in values:
            raise no_value(variable.arg.name)
    return int(evaluate(size, {n: values[n.arg.name] for n in variables}))


def bound_size(size: Size, values: Mapping[str, int] | None = None) -> int:
    """What a size comes to, with the bindings that it holds and `values` of other variables."""
    if isinstance(size, int):
        return size
    [plain], bound = unbind([size])
    return size_with(plain, {**(values or {}), **bound})
