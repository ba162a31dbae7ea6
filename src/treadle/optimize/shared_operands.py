"""Factors of a product in shared memory, as units of warpgroups read them: in swizzled rows.

    of 128 bytes, which hold steps of the sum of one line (a row of x, a column of y)
    or, where neighbouring lines are contiguous in memory, 64 lines of one step

An operand is one slice of steps of one tile of lines, in a STAGE. Stored ones are put there by the
work items of the workgroup, whatever they are computed from. Bulk ones are boxes of a tensor in
memory, which a copy engine brings by a description of the tensor: `tensor_of` says where that is
possible. Units read float32 as TF32, without its last 13 bits: those who store it round it before,
and so does the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.args import MatrixLayout, StageArg, TensorBox
from ..ir.loops import TRUE, Split, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import Stage
from ..target import WGMMA_ROWS
from .k_tiling import TiledProduct
from .layout import Layout, StagedSlice, copied, is_contiguous, is_in_memory, lines_of
from .moves import Moves

__all__ = ["HELD", "PIECE", "ROW", "SharedOperand", "SourceTensor", "bulk", "stored", "tensor_of"]

ROW, PIECE = WGMMA_ROWS.row, WGMMA_ROWS.piece  # bytes; a work item copies a piece at a time
BLOCK = WGMMA_ROWS.together * ROW  # what is swizzled together
TURNED = WGMMA_ROWS.turned  # bytes of the elements that units take with lines side by side
HELD = 4  # and of those that work items take so, to hold them
MOST_AXES = 5
_LOST, _INFINITY, _NAN = 13, 0x7F800000, 0x7FC00000  # of float32: bits that TF32 has not; values
LONGEST = 1 << 31  # elements of an axis


@dataclass(frozen=True)
class SharedOperand(StagedSlice):
    """A slice, in rows of lines or of steps."""

    def matrix(self, turns: int) -> MatrixLayout:
        """Where units find it that take the slice in so many turns."""
        if self.layout.of_lines:
            steps = self.layout.steps
            return MatrixLayout(True, steps * ROW, BLOCK, steps // turns * ROW)
        return MatrixLayout(False, PIECE, BLOCK, ROW // turns)


# -- by the work items -----------------------------------------------------------------------------


def stored(
    moves: Moves, factor: Node, line: Split, inner: Node, depth: int, work_items: int, buffers: int
) -> SharedOperand:
    """`factor` for one slice and one tile of lines, stored by all work items in whole pieces.

    So many slices as `buffers` are in memory at a time where pieces are copied as they are.
    """
    lines, here = loop_size(*lines_of(line)), lines_of(line)[-1]
    wide, each = ROW // factor.dtype.itemsize, PIECE // factor.dtype.itemsize
    along_steps = is_contiguous(factor, inner)
    can_turn = factor.dtype.itemsize == TURNED and lines % wide == 0
    is_turned = can_turn and not along_steps and is_contiguous(factor, here)
    order = "steps" if along_steps else "panels" if is_turned else "across"
    factor = _as_tf32(factor) if factor.dtype is dtypes.float32 else factor
    buffers = buffers if order != "across" and is_in_memory(factor) else 1
    layout = Layout(lines, depth, is_turned, wide, is_swizzled=True)
    made = copied(moves, factor, line, inner, layout, work_items, buffers, each, order)
    return SharedOperand(made.stage, layout)


def _as_tf32(value: Node) -> Node:
    """float32 with eleven digits of two, the nearest (PTX's cvt.rna); a NaN stays one."""
    bits = value.bitcast(dtypes.int32)
    near = (bits + (1 << _LOST - 1)) & -(1 << _LOST)
    is_nan = (bits & 0x7FFFFFFF) > _INFINITY
    return is_nan.where(bits | _NAN, near).bitcast(value.dtype)


# -- by bulk copies -------------------------------------------------------------------------------


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
    def element(self) -> Node:
        """One of them."""
        index = Node.index(self.offset)
        for loop, apart in self.axes:
            index = index + loop * apart
        return Node(Op.LOAD, self.memory.dtype, (self.memory, simplify(index)))

    @property
    def is_held(self) -> bool:
        """Whether work items have to hold it, as units do not take it so from shared memory."""
        return self.is_turned and self.memory.dtype.itemsize == HELD


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


def bulk(
    moves: Moves, tensor: SourceTensor, line: Split, tiled: TiledProduct, depth: int, buffers: int
) -> SharedOperand:
    """The slices of a tensor for one tile of lines, so many of them in memory at a time."""
    assert tiled.outer is not None
    mine, dtype = lines_of(line), tensor.memory.dtype
    lines, wide = loop_size(*mine), ROW // dtype.itemsize
    first = simplify(line.expr.substitute({r: Node.index(0) for r in mine}))
    step, turn = tiled.outer * depth, None
    layout = Layout(lines, depth, tensor.is_turned, wide, is_swizzled=True)
    places, box, zero = (step, first), (wide, lines), Node.index(0)
    panel = zero
    if tensor.is_turned:
        turn = moves.loop(lines // wide, "unroll") if lines > wide else None
        panel = zero if turn is None else turn * wide
        places, box = (first + panel, step), (wide, depth)
    others = tuple(tiled.batch[loop] for loop, _ in tensor.axes[2:])
    shape = tuple(loop_size(loop) for loop, _ in tensor.axes)
    strides = tuple(apart for _, apart in tensor.axes[1:])
    arg = TensorBox(tensor.offset, shape, strides, box + (1,) * len(others))
    src = (tensor.memory, *(simplify(place) for place in (*places, *others)))
    value = Node(Op.BOX, dtype, src, arg)
    closed = () if turn is None else (turn,)
    stage_arg = StageArg("shared", layout.sizes, buffers, "boxes", ROW)
    at, read = layout.place(panel, zero), layout.place(zero, zero)
    return SharedOperand(Stage(value, TRUE, at, read, closed, stage_arg, dtype).node(), layout)
