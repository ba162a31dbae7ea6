"""A factor of a product turned in memory once, by a phase of its own, for units of warpgroups.

    y[k, j], contiguous along j  ->  packed[j, k], contiguous along k

They take float32 only so from shared memory. Squares of 32 x 32 elements go through shared memory:
rows of both are read and written whole. Where enough is multiplied that costs less than to turn
each slice for each tile that needs it.
"""

from __future__ import annotations

from ..ir.args import StageArg
from ..ir.loops import TRUE, Split, steps_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from .moves import Moves
from .shared_operands import PIECE, Tensor

__all__ = ["packed"]

SQUARE = 32  # neighbours that a subgroup reads, and writes


def packed(moves: Moves, tensor: Tensor, items: int) -> Tensor:
    """`tensor`, which lies along its lines, along its steps, by groups of so many items."""
    (line, _), (step, _), *others = tensor.axes
    each = PIECE // tensor.memory.dtype.itemsize
    steps = -(-steps_of(step) // each) * each
    batch = {loop: moves.loop(steps_of(loop), "grid") for loop, _ in others}
    down, across = (_in_squares(moves, loop, items, n) for n, loop in enumerate((line, step)))
    fill = {loop: Split(new, (new,)) for loop, new in batch.items()} | {line: down, step: across}
    sizes = (*(steps_of(loop) for loop in batch), steps_of(line), steps)
    value = _turned(moves, tensor, batch, down, across, items)
    places = (*batch.values(), down.expr, across.expr)
    gate = simplify(down.guard & across.guard)
    loops = tuple(r for split in fill.values() for r in split.ranges)
    zeros = (Node.index(0),) * len(sizes)
    stage = Node(Op.STAGE, value.dtype, (value, gate, *places, *zeros, *loops),
                 StageArg("grid", sizes))  # fmt: skip
    moves.log.append("pack columns (grid)")
    axes, apart = [(step, 1), (line, steps)], steps * steps_of(line)
    for loop in reversed(batch):
        axes.insert(2, (loop, apart))
        apart *= steps_of(loop)
    return Tensor(stage, 0, tuple(axes), False)


def _in_squares(moves: Moves, loop: Node, items: int, is_whole: bool | int) -> Split:
    """A side of squares: its neighbours are neighbouring items, or rows of items and turns."""
    rows = items // SQUARE
    inner = ((SQUARE, "local"),) if is_whole else ((SQUARE // rows, "unroll"), (rows, "local"))
    return moves.tiled(moves.loop(steps_of(loop)), *inner, outer="grid")


def _turned(
    moves: Moves, tensor: Tensor, batch: dict[Node, Node], down: Split, across: Split, items: int
) -> Node:
    """The element of a square, which is read the other way round into shared memory first."""
    rows = items // SQUARE
    turn, row, lane = (
        moves.loop(SQUARE // rows, "unroll"),
        moves.loop(rows, "local"),
        moves.loop(SQUARE, "local"),
    )
    (line, of_line), (step, of_step), *others = tensor.axes
    inside = {r: Node.index(0) for r in (*down.ranges, *across.ranges) if r.arg.kind != "grid"}
    deep = turn * rows + row
    at_line = simplify(down.expr.substitute(inside)) + lane
    at_step = simplify(across.expr.substitute(inside)) + deep
    index = at_line * of_line + at_step * of_step + tensor.offset
    for loop, apart in others:
        index = index + batch[loop] * apart
    held = (at_line < steps_of(line)) & (at_step < steps_of(step))
    element = Node(Op.LOAD, tensor.memory.dtype, (
        tensor.memory, simplify(index), simplify(held), Node.const(tensor.memory.dtype, 0),
    ))  # fmt: skip
    if simplify(held).value == 1:
        element = element.replace(src=element.src[:2])
    read = tuple(simplify(split.expr % SQUARE) for split in (across, down))
    src = (element, TRUE, simplify(deep), lane, *read, turn, row, lane)
    return Node(Op.STAGE, element.dtype, src, StageArg("shared", (SQUARE, SQUARE + 1)))
