"""Matmul-like nests on the units of warpgroups: four subgroups that multiply from shared memory.

    out[i, j] = sum over k of x[i, k] * y[k, j],  x and y of one dtype of one to four bytes

Each of one or two warpgroups of a workgroup computes 64 rows by all columns of its tile. A WGMMA
has slices of both operands as sources, shared STAGEs in swizzled rows of 128 bytes: of k, or where
an operand is contiguous in its lines (rows of x, columns of y), of those.

Operands that are tensors in memory are copied in bulk, several slices ahead, by one work item that
does nothing else (lower/bulk_copy_producer.py). What is computed or masked, the work items store
themselves.

Of halves units take either kind of rows, of all else rows of k. float32 along lines becomes words
of x: for each product of 8 steps a work item holds four, which it reads from rows of lines. So what
is y has its rows as columns if it is such a factor, and x is not. Of two such factors one is
packed, turned in memory before, and so is what the copy engine does not bring, if enough is
multiplied with it; else the work items turn both as they store them.

Why these tiles, and what they can reach at most, is on the page docs/design/nvidia.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from ..dtype import dtypes
from ..ir.args import MatrixLayout, StageArg, TensorBox, WgmmaArg
from ..ir.choices import take
from ..ir.loops import TRUE, Split, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.shape import strides_of
from ..ir.views import Stage
from ..target import WGMMA_ROWS, Digit, Fragment, MatrixUnit, Target
from .choose_tile import Tile
from .layout import (
    Layout,
    Slices,
    StagedSlice,
    copied,
    is_contiguous,
    is_in_memory,
    lines_of,
    turned,
)
from .matrix_units import narrow_factors, narrowed, unit_for
from .moves import Moves
from .nest import stride
from .shared_tiles import TiledReduction, TileForWorkgroups, place_in, tile_workgroup_loops
from .tile_problem import TileProblem

__all__ = ["TileForWarpgroups", "shared_product", "stored"]

WARPS = 4  # of a warpgroup
ROW, PIECE = WGMMA_ROWS.row, WGMMA_ROWS.piece  # bytes; a work item copies a piece at a time
TURNED = WGMMA_ROWS.turned  # bytes of the elements that units take with lines side by side
HELD = 4  # and of those that work items take so, to hold them
MOST_AXES = 5  # of a tensor that the copy engine knows
LONGEST = 1 << 31  # elements of an axis
BLOCK = WGMMA_ROWS.together * ROW  # bytes that are swizzled together
_LOST, _INFINITY, _NAN = 13, 0x7F800000, 0x7FC00000  # of float32: bits that TF32 has not; values
ENOUGH = 512  # lines that a factor is multiplied with which is packed in memory first


@dataclass(frozen=True)
class TileForWarpgroups(TileForWorkgroups):
    """The units of warpgroups compute tiles of a product. Then it is scheduled."""

    word = "warpgroup_units"
    who = "warpgroups"

    is_swapped: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        return (self.word, "swapped_tile") if self.is_swapped else (self.word,)

    @classmethod
    def chosen(cls, nest: int, problem: TileProblem, target: Target) -> Self | None:
        unit = cls.unit_for(problem, target)
        is_swapped = unit is not None and _is_better_swapped(problem, unit)
        move = super().chosen(nest, problem.swapped() if is_swapped else problem, target)
        return move and replace(move, is_swapped=is_swapped)

    @staticmethod
    def unit_for(problem: TileProblem, target: Target) -> MatrixUnit | None:
        return unit_for(problem, target.warpgroup_units)

    def tile_for(self, moves: Moves, problem: TileProblem, unit: MatrixUnit) -> None:
        problem = problem.swapped() if self.is_swapped else problem
        tensors = _tensors_if_enough(problem, unit)
        is_held = tensors is not None and tensors[0].is_held
        row, nest = problem.rows[-1], moves.nest_with(*problem.rows)
        is_along_rows = any(stride(index, row) == 1 for index in nest.stores())
        kinds = ("vector", "unroll") if is_along_rows else ("unroll", "vector")
        out = _results(self.tile, unit, is_held)
        tiled = tile_workgroup_loops(moves, problem, out, self.tile, *kinds)
        x, y = _operands(tiled, tensors, unit)
        total = _product(tiled, out, x, y, unit, is_held)
        moves.root = moves.root.substitute({tiled.reduce: total})


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


Tensors = tuple[SourceTensor, SourceTensor]


def _is_better_swapped(problem: TileProblem, unit: MatrixUnit) -> bool:
    """Whether units take the problem best with its rows as columns.

    What has to be held has to be x: units take words of one factor. Of two such factors the one
    that is less is packed, and so is what does not fit.
    """
    tensors = _tensors(problem, unit)
    if tensors is None:
        return False
    x, y = tensors
    return y.is_held and (loop_size(*problem.rows) < loop_size(*problem.columns) or not x.is_held)


def _tensors_if_enough(problem: TileProblem, unit: MatrixUnit) -> Tensors | None:
    """Both, unless one is to be packed and multiplied with few lines of the other then."""
    tensors = _tensors(problem, unit)
    if tensors is None:
        return None
    (x, y), rows, columns = tensors, loop_size(*problem.rows), loop_size(*problem.columns)
    x_pays, y_pays = x.fits or columns >= ENOUGH, y.is_taken or rows >= ENOUGH
    return tensors if x_pays and y_pays else None


def _tensors(problem: TileProblem, unit: MatrixUnit) -> Tensors | None:
    x, y = (narrowed(factor, unit.dtype) for factor in (problem.x, problem.y))
    of_x = _tensor_of(x, problem.rows, problem.steps, problem.batch)
    of_y = _tensor_of(y, problem.columns, problem.steps, problem.batch)
    return None if of_x is None or of_y is None else (of_x, of_y)


def _results(tile: Tile, unit: MatrixUnit, is_held: bool) -> Fragment:
    """Which row and column of the tile each sum of each work item is.

    Work items that hold words of x read two neighbouring lines at a time, from rows of 32 lines.
    Which these are is free, so those of half a warp are in different banks: it has four steps, t,
    which are swizzled into four pieces of a row, two lines of a piece, and the same of the piece
    four further on. All of a warp have eight neighbours, 32 bytes of a row of the output.
    """
    assert unit.out is not None
    out = unit.out.with_columns(tile.columns).tiled(tile.each, tile.workers)
    if not is_held:
        return out
    (column, *_), (which, _, *eight) = out.lanes, out.elements
    low, far, near, odd = (Digit(0, 2, step) for step in (2, 16, 4, 8))
    pair = Digit(0, 2 * tile.workers[0], 32)
    return Fragment((column, low, far, near, odd, pair), (which, Digit(0, 2), *eight))


def _operands(
    tiled: TiledReduction, tensors: Tensors | None, unit: MatrixUnit
) -> tuple[StagedSlice, StagedSlice]:
    """Both factors of a slice in shared memory."""
    slices, outer = tiled.slices, tiled.outer
    slices = slices._replace(buffers=min(slices.buffers, loop_size(*outer)))
    if tensors is None or slices.buffers == 1:
        x, y = (stored(slices, *each) for each in narrow_factors(tiled, unit))
        return x, y
    of_x, of_y = tensors
    of_x = of_x if of_x.fits else _turned_along_steps(slices, of_x)
    of_y = of_y if of_y.is_taken else _turned_along_steps(slices, of_y)
    take("bulk_copies")
    x = _brought(slices, of_x, tiled.row, outer[0], tiled.batch)
    return x, _brought(slices, of_y, tiled.column, outer[0], tiled.batch)


def _product(
    tiled: TiledReduction, out: Fragment, x: StagedSlice, y: StagedSlice, unit: MatrixUnit,
    is_held: bool,
) -> Node:  # fmt: skip
    """One result of the work item, of those that its product has."""
    loops, zero = tiled.loops, Node.index(0)
    row = place_in(out, loops.lane, zero)[0] if is_held else loops.lane[-1] // WARPS * unit.rows
    of_x = x.read(row, loops.lane[0] if is_held else zero)
    layout = None if is_held else x.layout
    size = y.layout.lines, x.layout.steps
    return tiled.result(shared_product(unit, size, layout, (of_x,), y), loops.element)


def shared_product(
    unit: MatrixUnit, size: tuple[int, int], layout: Layout | None, x: tuple[Node, ...],
    y: StagedSlice, first: int = 0,
) -> Node:  # fmt: skip
    """A WGMMA for so many columns and steps, of y from a `first` step on.

    x is where its slice is read, or words.
    """
    columns, steps = size
    x_layout = layout and _matrix(layout, unit)
    words = sum(n.dtype is dtypes.uint32 for n in x)
    turns, at = steps // unit.steps, y.read(Node.index(0), Node.index(first))
    arg = WgmmaArg(unit.name, columns, turns, x_layout, _matrix(y.layout, unit), words)
    return Node(Op.WGMMA, unit.sums.vec(columns // 2), (*x, at), arg)


def _matrix(layout: Layout, unit: MatrixUnit) -> MatrixLayout:
    """Where units find a slice."""
    if layout.of_lines:
        return MatrixLayout(True, layout.steps * ROW, BLOCK, unit.steps * ROW)
    return MatrixLayout(False, PIECE, BLOCK, unit.steps * unit.dtype.itemsize)


def stored(slices: Slices, factor: Node, line: Split) -> StagedSlice:
    """`factor` for one slice and one tile of lines, stored by all work items in whole pieces.

    One slice is in memory at a time, unless pieces are copied as they are.
    """
    lines, here = loop_size(*lines_of(line)), lines_of(line)[-1]
    wide, each = ROW // factor.dtype.itemsize, PIECE // factor.dtype.itemsize
    along_steps = is_contiguous(factor, slices.inner)
    can_turn = factor.dtype.itemsize == TURNED and lines % wide == 0
    is_turned = can_turn and not along_steps and is_contiguous(factor, here)
    order = "steps" if along_steps else "panels" if is_turned else "across"
    factor = _as_tf32(factor) if factor.dtype is dtypes.float32 else factor
    if order == "across" or not is_in_memory(factor):
        slices = slices._replace(buffers=1)
    layout = Layout(lines, slices.depth, is_turned, wide, is_swizzled=True)
    return copied(slices, factor, line, layout, each, order)


def _as_tf32(value: Node) -> Node:
    """float32 with eleven digits of two, the nearest (PTX's cvt.rna); a NaN stays one."""
    bits = value.bitcast(dtypes.int32)
    near = (bits + (1 << _LOST - 1)) & -(1 << _LOST)
    is_nan = (bits & 0x7FFFFFFF) > _INFINITY
    return is_nan.where(bits | _NAN, near).bitcast(value.dtype)


# -- tensors in memory, and boxes of them ----------------------------------------------------------


def _tensor_of(
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


def _turned_along_steps(slices: Slices, tensor: SourceTensor) -> SourceTensor:
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


def _brought(
    slices: Slices, tensor: SourceTensor, line: Split, number: Node, batch: Mapping[Node, Node]
) -> StagedSlice:
    """The slices of a tensor for one tile of lines.

    A slice lies in swizzled rows of 128 bytes, which hold steps of one line or, where neighbouring
    lines are contiguous in memory, 64 lines of one step. The loop `number` is over slices; `batch`
    says what other loops have become.
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
