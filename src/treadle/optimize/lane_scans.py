"""Scans along rows, which become running totals in the lanes of vectors (lower/lane_scans.py)."""

from __future__ import annotations

from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Update
from .nest import Nest, stride

__all__ = ["scan_along_row"]

LEAST_VECTORS = 2


def scan_along_row(nest: Nest, ordered: tuple[Node, ...], lanes: int) -> Node | None:
    """The loop of a scan whose steps lie side by side, if it is one whose parts combine.

    Products of floats do not: a part that is too large, or too small, for its type shows in the
    whole.
    """
    updates = [n for n in nest.nodes() if n.op is Op.UPDATE]
    if len(ordered) != 1 or len(updates) != 1 or any(n.op is Op.TICKET for n in nest.nodes()):
        return None
    (loop,), (update,) = ordered, updates
    is_product = update.arg is Op.MUL and Update.of(update).register.dtype.is_float
    if is_product or loop_size(loop) < LEAST_VECTORS * lanes:
        return None
    steps = [(stride(access.index, loop), access.is_store) for access in nest.accesses()]
    return loop if all(step == 1 or (step == 0 and not store) for step, store in steps) else None
