"""How many lanes the vectors of a nest have: by the widest of its values, or of what it adds up."""

from __future__ import annotations

from ..ir.loops import free_ranges
from ..ir.narrow_sums import added_in_part
from ..ir.node import Node
from ..ir.widths import widest_itemsize
from ..target import Target
from .nest import Nest

__all__ = ["lanes_of"]


def lanes_of(nest: Nest, target: Target, least_itemsize: int, loop: Node | None = None) -> int:
    """Lanes of a vector register for the widest type computed with, or for `least_itemsize`.

    `loop` is the one to make lanes of, if that is known: what does not depend on it has none.
    """
    nodes, reduces = nest.nodes, nest.reduces
    parts = [part for reduce in reduces if (part := added_in_part(reduce)) is not None]
    if parts and len(parts) == len(reduces):
        nodes = Node.sink(parts).toposort()
    elif loop is not None:
        free = free_ranges(nest.node)
        nodes = [n for n in nodes if loop in free.get(n, ())]
    widest = max(widest_itemsize(nodes), least_itemsize)
    return min(max(2, target.vector_bytes // widest), target.max_lanes)
