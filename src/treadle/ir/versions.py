"""Versions of memory: what an AFTER, and those that it overwrites, are all versions of.

    stored_below(AFTER(AFTER(x, ASSIGN ..), ASSIGN ..))  ->  x, a BUFFER or what gets memory

An AFTER can be the last of thousands, each asked in turn: what was found stays beside the node.
"""

from __future__ import annotations

import weakref

from .node import Node
from .op import MOVEMENT, Op

__all__ = ["memory_key", "stored_below", "view_base"]

_found: weakref.WeakKeyDictionary[Node, Node] = weakref.WeakKeyDictionary()


def view_base(node: Node) -> Node:
    """What a chain of views looks at."""
    while node.op in MOVEMENT:
        node = node.src[0]
    return node


def stored_below(node: Node) -> Node:
    """What the first version of `node`'s memory is; `node` itself if it is no AFTER."""
    versions: list[Node] = []
    while node.op is Op.AFTER:
        if (known := _found.get(node)) is not None:
            node = known
            break
        versions.append(node)
        node = view_base(node.src[0])
    for version in versions:
        _found[version] = node
    return node


def memory_key(storage: Node) -> object:
    """What the memory of a BUFFER, or of a node that is stored, is told apart by."""
    return storage.arg.token if storage.op is Op.BUFFER else storage
