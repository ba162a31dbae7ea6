"""Kernels that read along one loop and write along another: square blocks, turned in registers.

    out[j, i] = x[i, j]  ->  blocks of 16 x 16: rows of x are loaded, columns of it are stored

Read in the order of the output, each element would come from a line of its own.
"""

from __future__ import annotations

from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load
from ..target import Target
from .lane_width import lanes_of
from .loop_moves import reorder, replace_loops
from .moves import Moves
from .nest import Nest, sequential_loops, stride

__all__ = ["transpose"]

BLOCK = 4  # squares beside each other along the rows that are read


def transpose(moves: Moves, nest: Nest, target: Target) -> bool:
    """Schedule a nest whose loads and stores are contiguous in different loops, if it is one."""
    if nest.node.op is not Op.END or nest.reduces() or sequential_loops(nest):
        return False
    lanes = lanes_of(nest, target, 4)
    found = _loops(nest, lanes)
    if found is None:
        return False
    read, written = found
    others = tuple(r for r in nest.loops if r not in found)
    splits = moves.whole(others, "grid")
    squares = min(BLOCK, -(-loop_size(read) // lanes))
    splits[read] = moves.tiled(loop_size(read), (squares, "loop"), (lanes, "unroll"), outer="grid")
    splits[written] = moves.tiled(loop_size(written), (lanes, "vector"))
    reorder(moves, nest, (*others, read, written))
    replace_loops(moves, splits, of={written: ("square_transpose",)})
    return True


def _loops(nest: Nest, lanes: int) -> tuple[Node, Node] | None:
    """The loop that is contiguous in loads and the one that is in stores, where these differ."""
    large = [r for r in nest.loops if loop_size(r) >= lanes]
    stores = nest.stores()
    written = next((r for r in large if all(stride(s, r) == 1 for s in stores)), None)
    if written is None:
        return None
    loads = [Load.of(n).index for n in nest.nodes() if n.op is Op.LOAD]
    if any(n.op is Op.LOAD for index in loads for n in index.toposort()):
        return None
    for read in large:
        crossing = [i for i in loads if stride(i, read) == 1 and stride(i, written) != 0]
        if read is not written and crossing:
            return read, written
    return None
