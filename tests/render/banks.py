"""Banks of shared memory: which work items of a kernel meet there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.ir.evaluate import evaluate
from treadle.ir.loops import has_fixed_size, loop_size
from treadle.ir.node import Node, behind_after
from treadle.ir.op import Op
from treadle.lower.linearize import Phase
from treadle.render.nvidia import WARP

__all__ = ["ways_of"]


def ways_of(phase: Phase) -> Iterator[int]:
    """For each FRAGMENT and STORE: how often a bank is asked for different data at a time."""
    for node in phase.program.src:
        is_fill = node.op is Op.STORE and behind_after(node.src[0]).op is Op.LOCAL
        if node.op is not Op.FRAGMENT and not is_fill:
            continue
        leaves = [n for n in node.src[1].toposort() if n.op in (Op.RANGE, Op.WORK_ITEM)]
        work_items = np.arange(phase.work_items)
        values = {n: work_items if n.op is Op.WORK_ITEM else _step_of(n) for n in leaves}
        places = np.broadcast_to(evaluate(node.src[1], values), work_items.shape)
        yield _ways(places * node.src[0].dtype.itemsize)


def _step_of(loop: Node) -> int:
    """One in the middle, or the first of a loop as long as those around it say."""
    return loop_size(loop) // 2 if has_fixed_size(loop) else 0


def _ways(addresses: np.ndarray) -> int:
    """Where work items access 16 bytes each, which shared memory does for eight at a time."""
    most = 0
    for eight in addresses.reshape(-1, WARP // 4):
        pieces = np.unique(eight // 16)
        most = max(most, int(np.bincount(pieces % 8).max()))
    return most
