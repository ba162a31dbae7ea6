"""Tensors that memory holds, and boxes of them, which a copy engine brings into shared memory.

tensor_of(value, lines, steps, batch)    what a value is read from, by its loops; or None
turned_along_steps(slices, tensor)       the same in lines along steps, kept in memory first
brought(slices, tensor, line, ..)        slices of some steps of a tile of lines

A slice lies in swizzled rows of 128 bytes, which hold steps of one line or, where neighbouring
lines are contiguous in memory, 64 lines of one step. The engine finds it by a description of the
tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.args import StageArg, TensorBox
from ..ir.loops import TRUE, Split, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.shape import strides_of
from ..ir.views import Stage
from ..target import WGMMA_ROWS
from .layout import Layout, Slices, StagedSlice, lines_of, turned

__all__ = [
    "PIECE", "ROW", "TURNED", "SourceTensor", "brought", "tensor_of", "turned_along_steps",
]  # fmt: skip

ROW, PIECE = WGMMA_ROWS.row, WGMMA_ROWS.piece  # bytes; a work item copies a piece at a time
TURNED = WGMMA_ROWS.turned  # bytes of the elements that units take with lines side by side
HELD = 4  # and of those that work items take so, to hold them
MOST_AXES = 5
LONGEST = 1 << 31  # elements of an axis


@dataclass(frozen=True)
class SourceTensor:
    """What a factor is read from: element `offset` of `memory` on, axes by their loops.

    `axes` are (loop, elements between its steps), the contiguous one first, then that of the other
    of lines and steps: lines first if it `is_turned`. The engine brings boxes of it if it `fits`:
    it counts in pieces of 16 bytes from the start of the memory.
    """

    memory: Node
    offset: int
    axes: tuple[tuple[Node, int], ...]
    is_turned: bool
    fits: bool = True

    @property
    def is_held(self) -> bool:
        """Whether work items have to hold it, as units do not take it so from shared memory."""
        return self.fits and self.is_turned and self.memory.dtype.itemsize == HELD

    @property
    def is_taken(self) -> bool:
        """Whether units take it from shared memory as the engine brings it."""
        return self.fits and not self.is_held

    @property
    def element(self) -> Node:
        """One of them."""
        index = Node.index(self.offset)
        for loop, apart in self.axes:
            index = index + loop * apart
        return Node(Op.LOAD, self.memory.dtype, (self.memory, simplify(index)))


def tensor_of(
    factor: Node | None, lines: tuple[Node, ...], steps: tuple[Node, ...], batch: tuple[Node, ...]
) -> SourceTensor | None:
    """The tensor that a factor is in these loops: of five axes at most, contiguous in one."""
    if factor is None or factor.op is not Op.LOAD:
        return None
    memory, index, *gate = factor.src
    loops = (*lines, *steps)
    if gate or memory.op is not Op.PARAM or len(loops) != 2:
        return None
    terms, offset = linear_terms(simplify(index))
    line, step = (terms.pop(loop, 0) for loop in loops)
    others = tuple(terms.items())
    if any(loop not in batch or apart < 0 for loop, apart in others) or min(line, step) <= 0:
        return None
    is_turned = step != 1
    axes = [(loops[0], line), (loops[1], step)][:: 1 if is_turned else -1] + list(others)
    size = factor.dtype.itemsize
    whole = all(apart * size % PIECE == 0 for apart in (offset, *(n for _, n in axes[1:])))
    fits = whole and (not is_turned or size in (TURNED, HELD))
    long = any(loop_size(loop) >= LONGEST for loop, _ in axes)
    if axes[0][1] != 1 or long or len(axes) > MOST_AXES:
        return None
    return SourceTensor(memory, offset, tuple(axes), is_turned, fits)


def turned_along_steps(slices: Slices, tensor: SourceTensor) -> SourceTensor:
    """`tensor` in lines along its steps that begin at multiples of 16 bytes, kept in memory first.

    Where enough is multiplied that costs less than that work items store each slice for each tile.
    """
    (line, _), (step, _) = tensor.axes[:2] if tensor.is_turned else tensor.axes[1::-1]
    others = tuple(loop for loop, _ in tensor.axes[2:])
    each, work_items = PIECE // tensor.memory.dtype.itemsize, slices.work_items
    kept = turned(slices.moves, tensor.element, others, line, step, work_items, each)
    stage = Stage.of(kept)
    steps, sizes = stage.arg.sizes[-1], stage.arg.sizes
    axes = [(step, 1), (line, steps)]
    apart = strides_of(sizes)[: len(others)]
    axes += zip(others, apart, strict=True)
    start = stage._replace(read=(Node.index(0),) * len(sizes)).node()
    return SourceTensor(start, 0, tuple(axes), False)


def brought(
    slices: Slices, tensor: SourceTensor, line: Split, number: Node, batch: Mapping[Node, Node]
) -> StagedSlice:
    """The slices of a tensor for one tile of lines.

    The loop `number` is over them; `batch` says what other loops have become.
    """
    moves, depth, mine, dtype = slices.moves, slices.depth, lines_of(line), tensor.memory.dtype
    lines, wide = loop_size(*mine), ROW // dtype.itemsize
    first = simplify(line.expr.substitute({r: Node.index(0) for r in mine}))
    step, zero = number * depth, Node.index(0)
    layout = Layout(lines, depth, tensor.is_turned, wide, is_swizzled=True)
    places, box, panels = (step, first), (wide, lines), moves.digits(1)
    if tensor.is_turned:
        panels = moves.tiled(lines // wide, outer="unroll")
        places, box = (first + panels.expr * wide, step), (wide, depth)
    others = tuple(batch[loop] for loop, _ in tensor.axes[2:])
    shape = tuple(loop_size(loop) for loop, _ in tensor.axes)
    strides = tuple(apart for _, apart in tensor.axes[1:])
    arg = TensorBox(tensor.offset, shape, strides, box + (1,) * len(others))
    src = (tensor.memory, *(simplify(place) for place in (*places, *others)))
    value = Node(Op.BOX, dtype, src, arg)
    stage_arg = StageArg("shared", layout.sizes, slices.buffers, "boxes", ROW)
    at, read = layout.place(panels.expr * wide, zero), layout.place(zero, zero)
    stage = Stage(value, TRUE, at, read, panels.ranges, stage_arg, dtype)
    return StagedSlice(stage.node(), layout)
