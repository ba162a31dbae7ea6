"""Matmul-like nests in workgroups: tiles of both operands in shared memory.

    out[i, j] = epilogue(sum over k of x[i, k] * y[k, j])

A workgroup computes a tile of the output, an item a few rows by a few columns of it, spread so that
neighbouring items hold neighbouring columns, or neighbouring pieces of as many columns as the
target loads at once. Where subgroups have a fixed size, the items of one are near in rows too: 32
of them in 4 x 8, with 8 x 8 results each, read 96 different numbers for each step of k, in 2 x 16
they would read 144.

For each slice of k the group first copies the slices of x and y that the tile needs into shared
STAGEs, neighbours reading neighbours; where items can copy asynchronously, the slices after it are
on their way meanwhile. A row of a STAGE is one piece longer than needed, so that items that write
down a column meet different banks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ir.args import StageArg
from ..ir.loops import TRUE, Split, digits_of, loop_size, number_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Reduce, Stage
from ..target import Target, Workgroup, item_unit
from .choose_tile import choose
from .k_tiling import fill_of, is_contiguous, tile_product
from .matmul_problem import MatmulProblem, recognise
from .matrix_units import tile_for_matrix_units
from .moves import Move, Moves
from .nest import Nest
from .parameters import Parameters
from .tile import Tile
from .warpgroup_units import tile_for_warpgroup_units

__all__ = ["ShareTiles", "tile_for_workgroups"]

MIN_WORK = 1 << 15


def tile_for_workgroups(
    moves: Moves, nest: Nest, target: Target, group: Workgroup, parameters: Parameters
) -> bool:
    """Tile `nest` if it is matmul-like and large enough; says whether it did."""
    problem = recognise(nest)
    if problem is None:
        return False
    product = problem.product
    if product.work < MIN_WORK or min(product.rows, product.columns, product.steps) < 4:
        return False
    if tile_for_warpgroup_units(moves, nest, problem, target):
        return True
    if tile_for_matrix_units(moves, nest, problem, target):
        return True
    unit = item_unit(group, problem.reduce.dtype, parameters.tile, parameters.depth)
    tile = choose(product, unit, target)
    if tile is None:
        return False
    moves.make(ShareTiles(moves.number_of(nest), tile))
    return True


@dataclass(frozen=True)
class ShareTiles(Move):
    """Groups of items compute tiles of a product from shared memory. Then it is scheduled."""

    word = "shared_tiles"

    nest: int
    tile: Tile

    def apply(self, moves: Moves) -> None:
        problem, group = recognise(moves.nest_of(self.nest)), moves.target.workgroup
        if problem is None or group is None or self.tile.unit != (1, 1):
            raise ValueError(f"{self}: the nest is no product that items compute in such tiles")
        _apply(moves, problem, self.tile, group)


def _near(high: int, wide: int, group: Workgroup) -> tuple[int, int]:
    """The items of a subgroup as a rectangle that is about as high as wide, or all of a row."""
    if group.subgroup is None or group.subgroup[0] != group.subgroup[1]:
        return 1, wide
    rows = 1 << (group.subgroup[0].bit_length() - 1) // 2
    columns = group.subgroup[0] // rows
    return (rows, columns) if high % rows == 0 and wide % columns == 0 else (1, wide)


def _apply(moves: Moves, problem: MatmulProblem, tile: Tile, group: Workgroup) -> None:
    (high, wide), near = tile.workers, _near(*tile.workers, group)
    rows, columns = loop_size(*problem.rows), loop_size(*problem.columns)
    of_rows = _parts(tile.each[0], high, near[0], group.together)
    of_columns = _parts(tile.each[1], wide, near[1], group.together)
    row = moves.tiled(rows, *of_rows, outer="grid")
    column = moves.tiled(columns, *of_columns, outer="grid")
    tiled = tile_product(moves, problem, row, column, tile.depth)
    _order_items(moves, (_local(row, of_rows), _local(column, of_columns)))
    x, y = (
        _staged(moves, *each, tiled.inner, tile, group.together)
        for each in ((tiled.x, row), (tiled.y, column))
    )
    reduce = Reduce.of(tiled.reduce)._replace(value=x * y).node()
    moves.root = moves.root.substitute({tiled.reduce: reduce})


Parts = tuple[tuple[int, str], ...]


def _parts(each: int, items: int, near: int, together: int) -> Parts:
    """Which of an item's pieces, the subgroup, the item in it, the place in the piece."""
    piece = min(each, together)
    return (each // piece, "unroll"), (items // near, "local"), (near, "local"), (piece, "unroll")


def _local(split: Split, parts: Parts) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The loops for the subgroup, and for the item in it."""
    loops = iter(r for r in split.ranges if r.arg.kind != "grid")
    _, subgroup, item, _ = ((next(loops),) if extent > 1 else () for extent, _ in parts)
    return subgroup, item


def _order_items(
    moves: Moves, local: tuple[tuple[tuple[Node, ...], tuple[Node, ...]], ...]
) -> None:
    """Subgroups along rows, then columns, then the items of one likewise."""
    order = tuple(r for each in zip(*local, strict=True) for loops in each for r in loops)
    nest = moves.nest_with(*order)
    groups = tuple(r for r in nest.loops if r.arg.kind == "grid")
    rest = tuple(r for r in nest.loops if r not in order and r not in groups)
    moves.order_loops(nest, (*groups, *order, *rest))


def _staged(
    moves: Moves, factor: Node, line: Split, inner: Node, tile: Tile, together: int
) -> Node:
    """`factor` for one slice of steps and one tile of lines (rows or columns), in shared memory."""
    mine = tuple(r for r in line.ranges if r.arg.kind != "grid")
    lines = loop_size(*mine)
    here = number_of(mine)
    along_steps = is_contiguous(factor, inner)
    width = 1 if along_steps or tile.buffers == 1 else together
    items = math.prod(tile.workers)
    item = moves.loop(items, "local")
    lane = moves.loop(width, "vector") if width > 1 else Node.index(0)
    total = tile.depth * lines // width
    turns = -(-total // items)
    turn = moves.loop(turns, "unroll") if turns > 1 else None
    flat = item if turn is None else turn * items + item
    if along_steps:
        deep, place = flat % tile.depth, flat // tile.depth
    else:
        deep, place = flat // (lines // width) % tile.depth, flat % (lines // width) * width + lane
    where = {inner: deep, **dict(zip(mine, digits_of(place, mine), strict=True))}
    filled = factor.substitute({r: simplify(value) for r, value in where.items()})
    gate = TRUE if turns * items == total else simplify(flat < total)
    sizes = (tile.depth, lines + together if along_steps else lines)
    closed = tuple(r for r in (turn, item, lane) if r is not None and r.op is Op.RANGE)
    places = (simplify(deep), simplify(place))
    arg = StageArg("shared", sizes, tile.buffers, fill_of(filled, tile.buffers))
    return Stage(filled, gate, places, (inner, here), closed, arg, factor.dtype).node()
