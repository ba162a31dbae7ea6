"""Matmul-like nests on the units of warpgroups: four subgroups that multiply from shared memory.

    out[i, j] = sum over k of x[i, k] * y[k, j],  x and y of one dtype of one to four bytes

A workgroup of one or two warpgroups computes a tile of the output, each of them 64 rows by all of
its columns. Slices of both operands are in shared STAGEs, in rows of 128 bytes: of k, or where an
operand is contiguous in its lines (rows of x, columns of y), of those. Rows are swizzled, as the
units take them without conflicts of banks.

What one of the 128 work items of a warpgroup holds is said by the unit's map (target/matrix.py). A
WGMMA has both STAGEs as sources and gives the sums of one product of a slice; a REDUCE over the
slices adds them up, and EXTRACT takes one.

Operands that are tensors in memory are copied in bulk, several slices ahead, by one work item that
does nothing else (lower/bulk_copy_producer.py). What is computed or masked, the work items store
themselves.

Of halves units take either kind of rows, of all else rows of k. float32 along lines becomes words
of x: for each product of 8 steps a work item holds four, which it reads from rows of lines. So what
is y has its rows as columns if it is such a factor, and x is not. Of two such factors one is
packed, turned in memory before, and so is what the copy engine does not bring, if enough is
multiplied with it (packed_operands.py); else the work items turn both as they store them.

Why these tiles, and what they can reach at most, is on the page docs/design/nvidia.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from ..ir.args import WgmmaArg
from ..ir.choices import take
from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..target import Digit, Fragment, MatrixUnit, Target
from .choose_tile import Tile
from .k_tiling import TiledProduct, TileForWorkgroups, tile_product
from .matmul_problem import MatmulProblem
from .matrix_units import narrow_factors, narrowed, unit_for
from .moves import Moves
from .nest import stride
from .packed_operands import packed
from .shared_operands import SharedOperand, SourceTensor, bulk, stored, tensor_of
from .unit_loops import place_in

__all__ = ["TileForWarpgroups"]

WARPS, WORK_ITEMS = 4, 128  # of a warpgroup
ENOUGH = 512  # lines that a factor is multiplied with which is packed in memory first


@dataclass(frozen=True)
class TileForWarpgroups(TileForWorkgroups):
    """The units of warpgroups compute tiles of a product. Then it is scheduled."""

    word = "warpgroup_units"
    who = "warpgroups"

    is_swapped: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        return (self.word, "swapped_matmul") if self.is_swapped else (self.word,)

    @classmethod
    def chosen(cls, nest: int, problem: MatmulProblem, target: Target) -> Self | None:
        unit = cls.unit_for(problem, target)
        is_swapped = unit is not None and _is_better_swapped(problem, unit)
        move = super().chosen(nest, problem.swapped() if is_swapped else problem, target)
        return move and replace(move, is_swapped=is_swapped)

    @staticmethod
    def unit_for(problem: MatmulProblem, target: Target) -> MatrixUnit | None:
        return unit_for(problem, target.warpgroup_units)

    def tile_for(self, moves: Moves, problem: MatmulProblem, unit: MatrixUnit) -> None:
        problem = problem.swapped() if self.is_swapped else problem
        tensors = _tensors_if_enough(problem, unit)
        is_held = tensors is not None and tensors[0].fits and tensors[0].is_held
        kinds = ("vector", "unroll") if _is_along(moves, problem.rows) else ("unroll", "vector")
        out = _results(self.tile, unit, is_held)
        tiled = tile_product(moves, problem, out, self.tile.depth, *kinds)
        x, y = _operands(moves, tiled, tensors, unit, self.tile)
        total = _product(tiled, out, x, y, unit, is_held)
        moves.root = moves.root.substitute({tiled.reduce: total})


Tensors = tuple[SourceTensor, SourceTensor]


def _is_better_swapped(problem: MatmulProblem, unit: MatrixUnit) -> bool:
    """Whether units take the problem best with its rows as columns.

    What has to be held has to be x: units take words of one factor. Of two such factors the one
    that is less is packed, and so is what does not fit.
    """
    tensors = _tensors(problem, unit)
    if tensors is None:
        return False
    x_held, y_held = (tensor.fits and tensor.is_held for tensor in tensors)
    return y_held and (loop_size(*problem.rows) < loop_size(*problem.columns) or not x_held)


def _tensors_if_enough(problem: MatmulProblem, unit: MatrixUnit) -> Tensors | None:
    """Both, unless one is to be packed and multiplied with few lines of the other then."""
    tensors = _tensors(problem, unit)
    if tensors is None:
        return None
    (x, y), rows, columns = tensors, loop_size(*problem.rows), loop_size(*problem.columns)
    x_pays, y_pays = x.fits or columns >= ENOUGH, _is_taken(y) or rows >= ENOUGH
    return tensors if x_pays and y_pays else None


def _is_taken(y: SourceTensor) -> bool:
    return y.fits and not y.is_held


def _tensors(problem: MatmulProblem, unit: MatrixUnit) -> Tensors | None:
    x, y = (narrowed(factor, unit.dtype) for factor in (problem.x, problem.y))
    of_x = tensor_of(x, problem.rows, problem.steps, problem.batch)
    of_y = tensor_of(y, problem.columns, problem.steps, problem.batch)
    return None if of_x is None or of_y is None else (of_x, of_y)


def _is_along(moves: Moves, loops: tuple[Node, ...]) -> bool:
    """Whether results that are neighbours in memory are so in these loops."""
    nest = moves.nest_with(*loops)
    return any(stride(index, loops[-1]) == 1 for index in nest.stores())


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
    moves: Moves, tiled: TiledProduct, tensors: Tensors | None, unit: MatrixUnit, tile: Tile
) -> tuple[SharedOperand, SharedOperand]:
    """Both factors of a slice in shared memory."""
    work_items = tile.workers[0] * WORK_ITEMS
    buffers = 1 if tiled.outer is None else min(tile.buffers, loop_size(tiled.outer))
    if tensors is not None and buffers > 1:
        x, y = tensors
        x = x if x.fits else packed(moves, x, work_items)
        y = y if _is_taken(y) else packed(moves, y, work_items)
        take("bulk_copies")
        return (
            bulk(moves, x, tiled.row, tiled, tile.depth, buffers),
            bulk(moves, y, tiled.column, tiled, tile.depth, buffers),
        )
    x, y = (
        stored(moves, factor, line, tiled.inner, tile.depth, work_items, buffers)
        for factor, line in [*narrow_factors(tiled, unit)]
    )
    return x, y


def _product(
    tiled: TiledProduct, out: Fragment, x: SharedOperand, y: SharedOperand, unit: MatrixUnit,
    is_held: bool,
) -> Node:  # fmt: skip
    """One result of the work item, of those that its product has."""
    turns, loops = x.layout.steps // unit.steps, tiled.loops
    layout = None if is_held else x.matrix(turns)
    arg = WgmmaArg(unit.name, y.layout.lines, turns, layout, y.matrix(turns))
    dtype, zero = unit.sums.vec(out.count), Node.index(0)
    if is_held:
        row, _ = place_in(out, loops.lane, zero)
        of_x = x.read(row, loops.lane[0])
    else:
        of_x = x.read(loops.lane[-1] // WARPS * unit.rows, zero)
    total = Node(Op.WGMMA, dtype, (of_x, y.read(zero, zero)), arg)
    if tiled.outer is not None:
        total = Node(Op.REDUCE, dtype, (total, tiled.outer), tiled.reduce.arg)
    return Node(Op.EXTRACT, dtype.scalar, (total, loops.element)).cast(tiled.reduce.dtype)
