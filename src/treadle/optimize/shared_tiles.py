"""Reductions whose operands results share, in workgroups: tiles of both in shared memory.

    out[i, j] = epilogue(reduction over k of f(x[i, k], y[k, j]))

A workgroup computes a tile of the output, a work item a few rows by a few columns of it, spread so
that neighbouring work items hold neighbouring columns, or neighbouring pieces of as many columns as
the target loads at once. Where subgroups have a fixed size, the work items of one are near in rows
too: 32 of them in 4 x 8, with 8 x 8 results each, read 96 different numbers for each step of k, in
2 x 16 they would read 144.

For each slice of k the workgroup first copies the slices of x and y that the tile needs into shared
STAGEs, neighbours reading neighbours; where work items can copy asynchronously, the slices after it
are on their way meanwhile. A row of a STAGE is one piece longer than needed, so that work items
that write down a column meet different banks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ir.loops import Split, loop_size
from ..ir.node import Node
from ..ir.views import Reduce
from ..target import Fragment, MatrixUnit, Target, Workgroup, fragment, work_item_unit
from .choose_tile import Tile
from .k_tiling import TileForWorkgroups, tile_workgroup_loops
from .layout import Layout, copied, is_contiguous, lines_of
from .matrix_units import TileForUnits
from .moves import Moves
from .nest import Nest
from .tile_problem import TileProblem, recognise
from .warpgroup_units import TileForWarpgroups

__all__ = ["ShareTiles", "tile_for_workgroups"]

MIN_WORK = 1 << 15


def tile_for_workgroups(moves: Moves, nest: Nest, target: Target) -> bool:
    """Tile `nest` if its results share operands and are enough; says whether it did."""
    problem = recognise(nest)
    if problem is None:
        return False
    sizes = problem.sizes
    if sizes.work < MIN_WORK or min(sizes.rows, sizes.columns, sizes.steps) < 4:
        return False
    for kind in (TileForWarpgroups, TileForUnits, ShareTiles):
        move = kind.chosen(moves.number_of(nest), problem, target)
        if move is not None:
            moves.make(move)
            return True
    return False


@dataclass(frozen=True)
class ShareTiles(TileForWorkgroups):
    """Workgroups compute tiles of results from shared memory. Then it is scheduled."""

    word = "shared_tiles"
    who = "work items"

    @staticmethod
    def unit_for(problem: TileProblem, target: Target) -> MatrixUnit | None:
        return target.workgroup and work_item_unit(target.workgroup, problem.dtype)

    def tile_for(self, moves: Moves, problem: TileProblem, unit: MatrixUnit) -> None:
        tile, workgroup = self.tile, moves.target.workgroup
        assert workgroup is not None
        out = _results(tile, workgroup)
        tiled = tile_workgroup_loops(
            moves, problem, out, tile.depth, "unroll", "unroll", bands=False
        )
        x, y = (
            _staged(moves, *each, tiled.inner, tile, workgroup.together)
            for each in ((tiled.x, tiled.row), (tiled.y, tiled.column))
        )
        reduce = Reduce.of(tiled.reduce)
        reduce = reduce._replace(value=reduce.value.substitute({tiled.x: x, tiled.y: y})).node()
        moves.root = moves.root.substitute({tiled.reduce: reduce})


def _results(tile: Tile, workgroup: Workgroup) -> Fragment:
    """Which row and column of the tile each result of each work item is: pieces of neighbours.

    The work items of a subgroup are a rectangle that is about as high as wide, or all of a row.
    """
    (high, wide), (m, n) = tile.workers, (min(each, workgroup.together) for each in tile.each)
    near_m, near_n = 1, wide
    if workgroup.subgroup is not None and workgroup.subgroup[0] == workgroup.subgroup[1]:
        rows = 1 << (workgroup.subgroup[0].bit_length() - 1) // 2
        columns = workgroup.subgroup[0] // rows
        if high % rows == 0 and wide % columns == 0:
            near_m, near_n = rows, columns
    subgroups = f"n{wide // near_n}:{n * near_n} m{high // near_m}:{m * near_m}"
    pieces_of_work_item = f"n{tile.each[1] // n}:{n * wide} m{tile.each[0] // m}:{m * high}"
    lanes = f"n{near_n}:{n} m{near_m}:{m} {subgroups}"
    return fragment("mn", lanes, f"n{n} m{m} {pieces_of_work_item}")


def _staged(
    moves: Moves, operand: Node, line: Split, inner: Node, tile: Tile, together: int
) -> Node:
    """`operand` for a slice of steps and a tile of lines (rows or columns), in shared memory."""
    here, along_steps = lines_of(line), is_contiguous(operand, inner)
    layout = Layout(loop_size(*here), tile.depth, True, pad=together if along_steps else 0)
    each = 1 if along_steps or tile.buffers == 1 else together
    order = "steps" if along_steps else "lines"
    work_items = math.prod(tile.workers)
    return copied(moves, operand, line, inner, layout, work_items, tile.buffers, each, order).stage
