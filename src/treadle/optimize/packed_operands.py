"""A factor of a product packed in memory first, by a phase of its own, for units of warpgroups.

    y[k, j]  ->  packed[j, k], contiguous along k, lines at multiples of 16 bytes

They take halves alone from rows of lines in shared memory, and the copy engine brings what begins
at such multiples. Squares of 32 x 32 elements are read and written in rows; those of the one that
are columns of the other go through shared memory. Where enough is multiplied that costs less than
that work items store each slice for each tile that needs it.
"""

from __future__ import annotations

from ..ir.args import RangeKind, StageArg
from ..ir.choices import take
from ..ir.loops import TRUE, Split, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from .moves import Moves
from .shared_operands import PIECE, SourceTensor

__all__ = ["packed"]

SQUARE = 32  # neighbours that a subgroup reads, and writes


def packed(moves: Moves, tensor: SourceTensor, work_items: int) -> SourceTensor:
    """`tensor` along its steps, by workgroups of so many work items."""
    (line, _), (step, _) = tensor.axes[:2] if tensor.is_turned else tensor.axes[1::-1]
    others = tensor.axes[2:]
    each = PIECE // tensor.memory.dtype.itemsize
    steps = -(-loop_size(step) // each) * each
    batch = {loop: moves.loop(loop_size(loop), "grid") for loop, _ in others}
    down = moves.tiled(loop_size(line), *_across(work_items), outer="grid")
    along = moves.tiled(loop_size(step), (SQUARE, "local"), outer="grid")
    value = _element(moves, tensor, batch, {line: down, step: along}, work_items)
    gate = simplify(down.guard & along.guard)
    sizes = (*(loop_size(loop) for loop in batch), loop_size(line), steps)
    zeros = (Node.index(0),) * len(sizes)
    loops = (*batch.values(), *down.ranges, *along.ranges)
    src = (value, gate, *batch.values(), down.expr, along.expr, *zeros, *loops)
    stage = Node(Op.STAGE, value.dtype, src, StageArg("grid", sizes))
    take("transposed_operand")
    axes, apart = [(step, 1), (line, steps)], steps * loop_size(line)
    for loop in reversed(batch):
        axes.insert(2, (loop, apart))
        apart *= loop_size(loop)
    return SourceTensor(stage, 0, tuple(axes), False)


def _across(work_items: int) -> tuple[tuple[int, RangeKind], ...]:
    """The side of a square that rows of work items go along: turn, row."""
    rows = work_items // SQUARE
    return (SQUARE // rows, "unroll"), (rows, "local")


def _element(
    moves: Moves,
    tensor: SourceTensor,
    batch: dict[Node, Node],
    splits: dict[Node, Split],
    work_items: int,
) -> Node:
    """What a work item stores, read where it is or, turned, through shared memory."""
    if not tensor.is_turned:
        return _load(tensor, batch, {loop: split.expr for loop, split in splits.items()})
    (line, _), (step, _) = tensor.axes[:2]
    (turns, _), (rows, _) = _across(work_items)
    turn, row, lane = (
        moves.loop(turns, "unroll"), moves.loop(rows, "local"), moves.loop(SQUARE, "local")
    )  # fmt: skip
    deep = turn * rows + row
    value = _load(tensor, batch, {
        line: _first(splits[line]) + lane, step: _first(splits[step]) + deep
    })  # fmt: skip
    read = tuple(simplify(splits[loop].expr % SQUARE) for loop in (step, line))
    src = (value, TRUE, simplify(deep), lane, *read, turn, row, lane)
    return Node(Op.STAGE, value.dtype, src, StageArg("shared", (SQUARE, SQUARE + 1)))


def _first(split: Split) -> Node:
    """Where the square begins."""
    return split.expr.substitute({r: Node.index(0) for r in split.ranges if r.arg.kind != "grid"})


def _load(tensor: SourceTensor, batch: dict[Node, Node], places: dict[Node, Node]) -> Node:
    """An element of the tensor, or 0 outside of it."""
    index, held = Node.index(tensor.offset), TRUE
    for loop, apart in tensor.axes:
        place = places[loop] if loop in places else batch[loop]
        index = index + place * apart
        held = held & (place < loop_size(loop)) if loop in places else held
    dtype, index, held = tensor.memory.dtype, simplify(index), simplify(held)
    gate = () if held.value == 1 else (held, Node.const(dtype, 0))
    return Node(Op.LOAD, dtype, (tensor.memory, index, *gate))
