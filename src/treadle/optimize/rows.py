"""Rows that a kernel would compute twice are kept in cache instead.

    softmax: exp(x[r] - max) is summed over r, and wanted again for each column c
      ->  a STAGE holds the row of exponentials; the sum and the columns read it

Only costly functions are worth the detour through memory, and only rows that fit the cache.
"""

from __future__ import annotations

from ..ir.args import StageArg
from ..ir.loops import Split, free_ranges, replace_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import Target
from .moves import Moves
from .nest import Nest, sequential_loops

__all__ = ["keep_costly_rows"]

COSTLY = frozenset((Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.TANH, Op.ERF, Op.POW))
MIN_ROW = 64
UNROLL = 4


def keep_costly_rows(moves: Moves, target: Target) -> None:
    """Make a STAGE of each costly row that a reduction and the output both compute."""
    for nest in moves.nests():
        if nest.node.op is Op.END and not nest.is_scheduled and not sequential_loops(nest):
            for reduce in nest.reduces():
                _keep(moves, nest, reduce, target)


def _keep(moves: Moves, nest: Nest, reduce: Node, target: Target) -> None:
    free = free_ranges(nest.node)
    if reduce not in free or len(reduce.src) != 2 or not free[reduce] < frozenset(nest.loops):
        return
    along, rest = reduce.src[1], [r for r in nest.loops if r not in free[reduce]]
    size = along.src[0].arg
    if len(rest) != 1 or rest[0].src[0].arg != size or along.arg.kind != "loop":
        return
    fits = target.l2 // 4
    outside = {n for n in nest.nodes() if n in free and rest[0] in free[n]}
    for value in reversed(reduce.src[0].toposort()):
        if along not in free[value] or size < MIN_ROW or size * value.dtype.itemsize > fits:
            continue
        again = value.substitute({along: rest[0]})
        if again in outside and any(n.op in COSTLY for n in _computed(value, free, along)):
            _stage(moves, value, along, again, rest[0], target)
            return


def _computed(value: Node, free: dict[Node, frozenset[Node]], along: Node) -> list[Node]:
    """What is computed anew for each element of the row."""
    return [n for n in value.toposort(lambda n: along in free[n]) if along in free[n]]


def _stage(
    moves: Moves, value: Node, along: Node, again: Node, column: Node, target: Target
) -> None:
    size, lanes = along.src[0].arg, min(target.lanes(value.dtype), target.max_lanes)
    fill: Split = moves.tiled(along, (UNROLL, "unroll"), (max(lanes, 2), "vector"))
    filled = replace_ranges(value, {along: fill})
    arg = StageArg("shared", (size,))
    reads = {
        use: Node(Op.STAGE, value.dtype, (filled, fill.guard, fill.expr, at, *fill.ranges), arg)
        for use, at in ((value, along), (again, column))
    }
    moves.root = simplify(moves.root.substitute(reads))
    moves.log.append(f"keep a row of {size} (shared)")
