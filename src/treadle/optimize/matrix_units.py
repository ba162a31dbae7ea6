"""Matmul-like nests on matrix units: subgroups that multiply small matrices.

    out[i, j] = sum over k of x[i, k] * y[k, j],  x and y of one narrow type (or tf32, see below)

A workgroup computes a tile of the output, each of its subgroups some rows and columns of that, as
products of 16 rows by 8 columns over 32 bytes of k. Slices of both operands are in shared STAGEs
(fragments.py), in several buffers if there are several slices, so that the next ones arrive while
one is multiplied.

What each work item of a subgroup holds, words of 32 bits of both factors and sums of the output, is
said by the unit's maps (target/matrix.py). An MMA has these words as sources and gives the sums of
one product; a REDUCE over the slices adds them up, and EXTRACT takes one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..dtype import DType
from ..ir.conditions import parts
from ..ir.loops import Split, number_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import operand
from ..target import MatrixUnit, Target
from .choose_tile import Tile, tiles_near
from .fragments import staged
from .hoist_masks import masked
from .k_tiling import TiledReduction, TileForWorkgroups, tile_workgroup_loops
from .moves import Moves
from .tile_problem import TileProblem
from .unit_loops import UnitLoops, unit_loops

__all__ = ["TileForUnits", "narrow_factors", "narrowed", "unit_for"]


@dataclass(frozen=True)
class TileForUnits(TileForWorkgroups):
    """The matrix units of subgroups compute tiles of a product. Then it is scheduled."""

    word = "matrix_units"
    who = "matrix units"

    def forms(self) -> tuple[TileForUnits, ...]:
        """Tiles of half and of twice as many rows, or columns, or slices in memory."""
        return tuple(replace(self, tile=tile) for tile in tiles_near(self.tile))

    @staticmethod
    def unit_for(problem: TileProblem, target: Target) -> MatrixUnit | None:
        return unit_for(problem, target.matrix_units)

    def tile_for(self, moves: Moves, problem: TileProblem, unit: MatrixUnit) -> None:
        _, _, out = unit.held
        whole = out.tiled(self.tile.each, self.tile.workers)
        has_neighbours = any(digit.axis == 1 and digit.step == 1 for digit in out.elements)
        kind = "vector" if has_neighbours else "unroll"
        tiled = tile_workgroup_loops(moves, problem, whole, self.tile.depth, "unroll", kind)
        loops = unit_loops(tiled.row, tiled.column, out)
        total = _product(moves, tiled, loops, unit, self.tile)
        moves.root = moves.root.substitute({tiled.reduce: total})


def unit_for(problem: TileProblem, units: tuple[MatrixUnit, ...]) -> MatrixUnit | None:
    """The one of `units` for a sum of products, whose factors had its dtype before they were wider.

    None for any other reduction.
    """
    if not problem.is_product:
        return None
    wanted = problem.reduce.dtype
    for unit in units:
        wraps = wanted is unit.dtype and unit.sums.is_int  # as sums of more bits do, once cut off
        narrow = (narrowed(factor, unit.dtype) for factor in (problem.x, problem.y))
        if (wanted is unit.sums or wraps) and None not in narrow:
            return unit
    return None


def narrowed(value: Node, dtype: DType) -> Node | None:
    """The value of `dtype` that `value` is, or is widened from."""
    if value.dtype is dtype:
        return value
    if value.op is Op.CAST and operand(value).dtype is dtype:
        return operand(value)
    if value.op is Op.CONST and value.arg == 0:
        return Node.const(dtype, 0)
    if value.op is Op.WHERE:
        condition, yes, no = value.src
        one, other = narrowed(yes, dtype), narrowed(no, dtype)
        if one is None or other is None:
            return None
        is_masked = other.value == 0
        return masked(parts(condition), one) if is_masked else condition.where(one, other)
    return None


def narrow_factors(tiled: TiledReduction, unit: MatrixUnit) -> Iterator[tuple[Node, Split]]:
    """Both factors as a unit takes them, each with its lines."""
    for factor, line in ((tiled.x, tiled.row), (tiled.y, tiled.column)):
        narrow = narrowed(factor, unit.dtype)
        assert narrow is not None  # masks do not change that
        yield narrow, line


def _product(
    moves: Moves, tiled: TiledReduction, loops: UnitLoops, unit: MatrixUnit, tile: Tile
) -> Node:
    """One result of the work item, of those that its products have."""
    of_x, of_y, out = unit.held
    step = moves.loop(tile.depth // unit.steps)
    work_items = math.prod(tile.workers) * out.width
    x, y = (
        staged(moves, factor, line, tiled.inner, tile.depth, work_items, tile.buffers, unit.load)
        for factor, line in narrow_factors(tiled, unit)
    )
    deep, first = step * unit.steps, Node.index(0)
    read = x.words(of_x, loops.lane, number_of(loops.rows) * unit.rows, deep)
    words = [read(Node.index(number)) for number in range(of_x.count)]
    at = number_of(loops.columns)
    wide, *several = loops.columns
    if several and unit.load is not None:  # two neighbouring products have their words read at once
        at = wide * tile.each[1] + several[0] // 2 * 2
        first = several[0] % 2 * of_y.count
        of_y = of_y.tiled((2, 1))
    read = y.words(of_y, loops.lane, at * unit.columns, deep)
    words += [read(first + number) for number in range(unit.held[1].count)]
    sums = Node(Op.MMA, unit.sums.vec(out.count), tuple(words), unit.name)
    along = (step,) if tiled.outer is None else (tiled.outer, step)
    total = Node(Op.REDUCE, sums.dtype, (sums, *along), tiled.reduce.arg)
    return Node(Op.EXTRACT, unit.sums, (total, loops.element)).cast(tiled.reduce.dtype)
