"""Nests that store along another loop than they read: blocks of both, put in order in registers.

    out[j, i] = x[i, j]         rows of 16 x 16 blocks are loaded, their columns are stored
    out[3 * i + c] = f_c(x[i])  16 lanes of i, a copy for each c, and whole vectors are stored

In the order of either loop alone, each element of the other memory would come from a line of its
own, or most of a vector would be empty. So a block has steps of both. A loop of results that fills
vectors is the lanes of a block, and what is read in rows is turned (lower/register_transpose). One
of a few results is unrolled, and its copies are woven into one another (lower/block_stores).
"""

from __future__ import annotations

from ..ir.loops import Split, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..target import Target
from .lane_width import lanes_of
from .loop_moves import reorder, replace_loops
from .moves import Moves
from .nest import Nest, reads_of, sequential_loops, stride

__all__ = ["change_layout"]

SQUARES = 4  # beside each other along the rows that are read
FEW_RESULTS = 8
MOST_NODES = 1 << 11  # of all copies together
MOST_SHARING = 2  # rows that are computed at once, as those of the same chroma samples
HALF_LINE = 32  # bytes: the least that is stored around the caches
BUSY = 64  # steps of the grid that keep every worker busy

Blocks = tuple[tuple[Node, ...], dict[Node, Split], dict[Node, tuple[str, ...]]]


def change_layout(moves: Moves, nest: Nest, target: Target) -> bool:
    """Schedule a nest whose loads and stores are contiguous in different loops, if it is one."""
    if nest.node.op is not Op.END or nest.reduces or sequential_loops(nest):
        return False
    blocks = _woven(moves, nest, target) or _turned(moves, nest, target)
    if blocks is None:
        return False
    order, splits, reasons = blocks
    reorder(moves, nest, order)
    replace_loops(moves, splits, of=reasons)
    return True


def _reads(nest: Nest) -> list[Node]:
    return [index for value in nest.values for index in reads_of(value)]


def _turned(moves: Moves, nest: Nest, target: Target) -> Blocks | None:
    """Squares of a loop that is read along and one that is stored along: each fills vectors."""
    lanes = lanes_of(nest, target, 4)
    large, loads = [r for r in nest.loops if loop_size(r) >= lanes], _reads(nest)
    written = next((r for r in large if all(stride(s, r) == 1 for s in nest.stores())), None)
    if written is None or any(n.op is Op.LOAD for index in loads for n in index.toposort()):
        return None
    crossing = [index for index in loads if stride(index, written) != 0]
    along = (r for r in large if r is not written and any(stride(i, r) == 1 for i in crossing))
    read = next(along, None)
    if read is None:
        return None
    others = tuple(r for r in nest.loops if r not in (read, written))
    splits = moves.whole(others, "grid")
    squares = min(SQUARES, -(-loop_size(read) // lanes))
    splits[read] = moves.tiled(loop_size(read), (squares, "loop"), (lanes, "unroll"), outer="grid")
    splits[written] = moves.tiled(loop_size(written), (lanes, "vector"))
    return (*others, read, written), splits, {written: ("square_transpose",)}


def _woven(moves: Moves, nest: Nest, target: Target) -> Blocks | None:
    """Vectors of a loop that is read along, for a few results of each element side by side."""
    found = _few_beside(nest)
    if found is None:
        return None
    few, along = found
    size = loop_size(along)
    lanes = lanes_of(nest, target, 2, along)
    lanes = lanes if lanes <= size else lanes_of(nest, target, 4, along)
    nodes = len(nest.nodes) * loop_size(few)
    if size < lanes or nodes > MOST_NODES:
        return None
    others = tuple(r for r in nest.loops if r not in found)
    shared = _sharing(nest, others, MOST_NODES // nodes)
    grid = tuple(r for r in others if r is not shared)
    splits = moves.whole(grid, "grid")
    # Narrow results: so many that the copies together fill lines of memory.
    copies = max(1, HALF_LINE // (lanes * min(value.dtype.itemsize for value in nest.values)))
    copies = copies if size % (copies * lanes) == 0 else 1
    outer = "loop" if loop_size(*grid) >= BUSY else "grid"
    splits[along] = moves.tiled(size, (copies, "unroll"), (lanes, "vector"), outer=outer)
    inner = (few,) if shared is None else (shared, few)
    splits |= moves.whole(inner, "unroll")
    return (*grid, along, *inner), splits, {along: ("interleaved_results",)}


def _few_beside(nest: Nest) -> tuple[Node, Node] | None:
    """The loop over the values that are stored side by side, and the one over their elements."""
    stores, loads = nest.stores(), _reads(nest)
    for few in nest.loops:
        count = loop_size(few)
        is_beside = 1 < count <= FEW_RESULTS and all(stride(s, few) == 1 for s in stores)
        if not is_beside or any(stride(index, few) != 0 for index in loads):
            continue
        for along in nest.loops:
            steps = {stride(index, along) for index in loads}
            if {1} <= steps <= {0, 1} and all(stride(s, along) == count for s in stores):
                return few, along
    return None


def _sharing(nest: Nest, loops: tuple[Node, ...], room: int) -> Node | None:
    """A short loop whose steps, unrolled, share what some load of theirs gives."""
    loads = _reads(nest)
    for loop in loops:
        if loop_size(loop) <= min(MOST_SHARING, room):
            steps = {stride(index, loop) for index in loads}
            if 0 in steps and len(steps) > 1:
                return loop
    return None
