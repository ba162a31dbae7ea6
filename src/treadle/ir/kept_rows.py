"""Rows that a kernel keeps in memory of its own, as STAGEs (schedule/local_intermediates.py)."""

from __future__ import annotations

from collections.abc import Callable

from .node import Node
from .op import Op

__all__ = ["is_kept", "is_of_product", "without_rows"]


def is_kept(node: Node) -> bool:
    """Whether a node is a row that a kernel keeps."""
    return node.op is Op.STAGE and node.arg.scope == "shared" and len(node.arg.sizes) == 1


def is_of_product(row: Node) -> bool:
    """Whether a row is computed from a reduction: one of what is in memory gains nothing."""
    return any(n.op is Op.REDUCE for n in row.src[0].toposort())


def without_rows(root: Node, those: Callable[[Node], bool] = is_kept) -> Node:
    """`root` with what is kept, those of the rows, computed where it is read.

    But for the counters of a TICKET, which are memory that changes.
    """
    new: dict[Node, Node] = {}
    order = root.toposort()
    counters = {node.src[0] for node in order if node.op is Op.TICKET}
    for node in order:
        src = tuple(new[s] for s in node.src)
        changed = node if src == node.src else node.replace(src=src)
        if is_kept(node) and node not in counters and those(node):
            value, _, place, read, *_ = changed.src
            changed = value.substitute({place: read})
        new[node] = changed
    return new[root]
