"""The one form that equal symbolic sizes have.

    simplify_size(b * a)           ->  a * b
    simplify_size(n.bind(8) // 2)  ->  n.bind(8) // 2    and not 4

The form depends on the variables and not on their values. A graph of sizes that are bound to other
values is the same graph without its bindings, so it is not compiled again.
"""

from __future__ import annotations

from ..node import Node
from ..op import Op
from ..symbolic import exchanged
from .index import simplify

__all__ = ["simplify_size"]


def simplify_size(size: Node) -> Node:
    """`size` by the rules of index arithmetic, for every value of its variables."""
    bindings: dict[Node, Node] = {}
    for node in size.toposort():
        if node.op is Op.BIND and bindings.setdefault(node.src[0], node) is not node:
            return simplify(size)  # one variable with two values: to compute with it is an error
    if not bindings:
        return simplify(size)
    [plain] = exchanged([size], lambda node: node.src[0] if node.op is Op.BIND else None)
    [found] = exchanged([simplify(plain)], bindings.get)
    return found
