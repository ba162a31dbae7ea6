"""Kernels that store a few values for each element they read, side by side: stacked channels.

    out[w, c] = f_c(x[w])  ->  16 lanes of w, a copy for each c, and whole vectors are stored

With c as lanes most of a vector would be empty; with w as lanes alone each store would be for
places that lie apart. The copies' vectors are woven into one another instead (lower/interleave).
"""

from __future__ import annotations

from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..target import Target
from .lane_width import lanes_of
from .loop_moves import reorder, replace_loops
from .moves import Moves
from .nest import Nest, reads_of, sequential_loops, stride

__all__ = ["interleave"]

MOST_CHANNELS = 8
MOST_NODES = 1 << 11  # of all copies together
MOST_SHARING = 2  # rows that are computed at once, as those of the same chroma samples
HALF_LINE = 32  # bytes: the least that is stored around the caches
BUSY = 64  # steps of the grid that keep every worker busy


def interleave(moves: Moves, nest: Nest, target: Target) -> bool:
    """Schedule a nest whose innermost results are few and side by side, if it is one."""
    if nest.node.op is not Op.END or nest.reduces() or sequential_loops(nest):
        return False
    found = _loops(nest)
    if found is None:
        return False
    channels, along = found
    size = loop_size(along)
    lanes = lanes_of(nest, target, 2, along)
    lanes = lanes if lanes <= size else lanes_of(nest, target, 4, along)
    nodes = len(nest.nodes()) * loop_size(channels)
    if size < lanes or nodes > MOST_NODES:
        return False
    others = tuple(r for r in nest.loops if r not in found)
    shared = _sharing(nest, others, MOST_NODES // nodes)
    grid = tuple(r for r in others if r is not shared)
    splits = moves.whole(grid, "grid")
    is_busy = loop_size(*grid) >= BUSY
    # Narrow results: so many that the copies together fill lines of memory.
    copies = max(1, HALF_LINE // (lanes * min(value.dtype.itemsize for value in nest.values)))
    copies = copies if size % (copies * lanes) == 0 else 1
    outer = "loop" if is_busy else "grid"
    splits[along] = moves.tiled(
        loop_size(along), (copies, "unroll"), (lanes, "vector"), outer=outer
    )
    inner = (channels,) if shared is None else (shared, channels)
    splits |= moves.whole(inner, "unroll")
    reorder(moves, nest, (*grid, along, *inner))
    replace_loops(moves, splits, of={along: ("interleaved_results",)})
    return True


def _sharing(nest: Nest, loops: tuple[Node, ...], room: int) -> Node | None:
    """A short loop whose steps, unrolled, share what some load of theirs gives."""
    loads = [index for value in nest.values for index in reads_of(value)]
    for loop in loops:
        if loop_size(loop) <= min(MOST_SHARING, room):
            steps = {stride(index, loop) for index in loads}
            if 0 in steps and len(steps) > 1:
                return loop
    return None


def _loops(nest: Nest) -> tuple[Node, Node] | None:
    """The loop over the values that are stored side by side, and the one over their elements."""
    stores = nest.stores()
    loads = [index for value in nest.values for index in reads_of(value)]
    for channels in nest.loops:
        count = loop_size(channels)
        if not 1 < count <= MOST_CHANNELS or any(stride(s, channels) != 1 for s in stores):
            continue
        if any(stride(index, channels) != 0 for index in loads):
            continue
        for along in nest.loops:
            if all(stride(s, along) == count for s in stores):
                steps = {stride(index, along) for index in loads}
                if 1 in steps and steps <= {0, 1}:
                    return channels, along
    return None
