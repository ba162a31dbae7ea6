"""A factor of a product packed in memory first, by a phase of its own, for units of warpgroups.

    y[k, j]  ->  packed[j, k], contiguous along k, lines at multiples of 16 bytes

They take halves alone from rows of lines in shared memory, and the copy engine brings what begins
at such multiples. Squares of 32 x 32 elements are read and written in rows; those of the one that
are columns of the other go through shared memory. Where enough is multiplied that costs less than
that work items store each slice for each tile that needs it.
"""

from __future__ import annotations

from ..ir.args import StageArg
from ..ir.choices import take
from ..ir.loops import Split, loop_size
from ..ir.node import Node
from ..ir.rules.index import simplify
from ..ir.views import Stage
from .layout import kept
from .moves import Moves
from .shared_operands import PIECE, SourceTensor

__all__ = ["packed"]

SQUARE = 32  # neighbours that a subgroup reads, and writes


def packed(moves: Moves, tensor: SourceTensor, work_items: int) -> SourceTensor:
    """`tensor` along its steps, by workgroups of so many work items."""
    (line, _), (step, _) = tensor.axes[:2] if tensor.is_turned else tensor.axes[1::-1]
    others = tuple(loop for loop, _ in tensor.axes[2:])
    each = PIECE // tensor.memory.dtype.itemsize
    steps = -(-loop_size(step) // each) * each
    rows = work_items // SQUARE
    fill = moves.whole(others, "grid")
    fill[line] = moves.tiled(
        loop_size(line), (SQUARE // rows, "unroll"), (rows, "local"), outer="grid"
    )
    fill[step] = moves.tiled(loop_size(step), (SQUARE, "local"), outer="grid")
    value = _turned(moves, tensor, fill, rows) if tensor.is_turned else tensor.element
    sizes = (*map(loop_size, others), loop_size(line), steps)
    stage = Stage.of(kept(value, StageArg("grid", sizes), (*others, line, step), fill))
    stage = stage._replace(read=(Node.index(0),) * len(sizes)).node()
    take("transposed_operand")
    axes, apart = [(step, 1), (line, steps)], steps * loop_size(line)
    for loop in reversed(others):
        axes.insert(2, (loop, apart))
        apart *= loop_size(loop)
    return SourceTensor(stage, 0, tuple(axes), False)


def _turned(moves: Moves, tensor: SourceTensor, fill: dict[Node, Split], rows: int) -> Node:
    """What a work item stores, read in rows of the tensor and through shared memory."""
    (line, _), (step, _) = tensor.axes[:2]
    turn, row, lane = (
        moves.loop(SQUARE // rows, "unroll"), moves.loop(rows, "local"), moves.loop(SQUARE, "local")
    )  # fmt: skip
    deep, long = _first(fill[step]) + turn * rows + row, _first(fill[line]) + lane
    square = {
        step: Split(deep, (turn, row), simplify(deep < loop_size(step))),
        line: Split(long, (lane,), simplify(long < loop_size(line))),
    }
    arg = StageArg("shared", (SQUARE, SQUARE + 1))
    return kept(tensor.element, arg, (step % SQUARE, line % SQUARE), square)


def _first(split: Split) -> Node:
    """Where the square begins."""
    return split.expr.substitute({r: Node.index(0) for r in split.ranges if r.arg.kind != "grid"})
