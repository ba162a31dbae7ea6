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

from dataclasses import dataclass

from ..ir.args import StageArg
from ..ir.loops import TRUE, Split, digits_of, loop_size, number_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Reduce, Stage
from ..target import Target, Workgroup
from .k_tiling import fill_of, is_contiguous, tile_product
from .matmul_problem import MatmulProblem, recognise
from .matrix_units import tile_for_matrix_units
from .moves import Move, Moves
from .nest import Nest
from .parameters import Parameters
from .records import Record
from .warpgroup_units import tile_for_warpgroup_units

__all__ = ["ShareTiles", "tile_for_workgroups"]

MIN_WORK = 1 << 15
DEPTH = 16  # steps of the reduction in a slice
MOST_BUFFERS = 3
GROUPS_AT_A_TIME = 2  # on one multiprocessor
SMALL = 4  # rows, and columns, of an item that are no more divided to make groups


@dataclass(frozen=True)
class GroupTile(Record):
    """A group of `high` x `wide` items, each with `rows` x `columns` results.

    So many results as `together` are neighbours, if an item has as many, and so many slices as
    `buffers` are in memory at a time. Items that are numbered one after the other are side by side
    in so many rows and columns as `near`, before the next ones.
    """

    word = "group_tile"

    high: int
    wide: int
    rows: int
    columns: int
    depth: int
    together: int
    buffers: int
    near: tuple[int, int]

    @property
    def items(self) -> int:
        return self.high * self.wide


def tile_for_workgroups(
    moves: Moves, nest: Nest, target: Target, group: Workgroup, parameters: Parameters
) -> bool:
    """Tile `nest` if it is matmul-like and large enough; says whether it did."""
    problem = recognise(nest)
    if problem is None:
        return False
    rows, columns, steps = (loop_size(*r) for r in (problem.rows, problem.columns, problem.steps))
    work = rows * columns * steps * loop_size(*problem.batch)
    if work < MIN_WORK or min(rows, columns, steps) < 4:
        return False
    if tile_for_warpgroup_units(moves, nest, problem, target):
        return True
    if tile_for_matrix_units(moves, nest, problem, target):
        return True
    tile = _choose(problem, group, parameters)
    if tile is None:
        return False
    moves.make(ShareTiles(moves.number_of(nest), tile))
    return True


@dataclass(frozen=True)
class ShareTiles(Move):
    """Groups of items compute tiles of a product from shared memory. Then it is scheduled."""

    word = "shared_tiles"

    nest: int
    tile: GroupTile

    def apply(self, moves: Moves) -> None:
        problem = recognise(moves.nest_of(self.nest))
        if problem is None:
            raise ValueError(f"{self}: the nest is no product")
        _apply(moves, problem, self.tile)


def _choose(problem: MatmulProblem, group: Workgroup, parameters: Parameters) -> GroupTile | None:
    """The largest square-like tile that the output fills, often enough, and shared memory holds.

    So many rows and columns of an item, and steps of a slice, as `parameters` say, if they do.
    """
    rows, columns, steps = (loop_size(*r) for r in (problem.rows, problem.columns, problem.steps))
    items = min(group.items, 256)
    wide = 1 << ((items.bit_length() - 1 + 1) // 2)
    high = items // wide
    itemsize = problem.reduce.dtype.itemsize
    # Sixteen results of eight bytes take as many registers as thirty-two of four.
    each_row = each_column = min(group.tile, max(SMALL, group.tile * 4 // itemsize))
    while each_row > 1 and high * each_row > rows:
        each_row //= 2
    while each_column > 1 and wide * each_column > columns:
        each_column //= 2

    def groups() -> int:
        tiles = -(-rows // (high * each_row)) * -(-columns // (wide * each_column))
        return loop_size(*problem.batch) * tiles

    if parameters.tile is not None:
        each_row, each_column = parameters.tile
    while parameters.tile is None and groups() < group.busy and max(each_row, each_column) > SMALL:
        if each_row > each_column:
            each_row //= 2
        else:
            each_column //= 2
    depth = min(parameters.depth or DEPTH, 1 << (steps.bit_length() - 1))
    padding = 2 * group.together
    for _ in range(4):
        held = depth * (high * each_row + wide * each_column + padding)
        if held * itemsize <= group.shared_bytes:
            slices = -(-steps // depth) if group.copies_ahead else 1
            room = group.shared_bytes // GROUPS_AT_A_TIME // (held * itemsize)
            buffers = max(1, min(slices, MOST_BUFFERS, room))
            near = _near(high, wide, group)
            return GroupTile(
                high, wide, each_row, each_column, depth, group.together, buffers, near
            )
        depth = max(1, depth // 2)
    return None


def _near(high: int, wide: int, group: Workgroup) -> tuple[int, int]:
    """The items of a subgroup as a rectangle that is about as high as wide, or all of a row."""
    if group.subgroup is None or group.subgroup[0] != group.subgroup[1]:
        return 1, wide
    rows = 1 << (group.subgroup[0].bit_length() - 1) // 2
    columns = group.subgroup[0] // rows
    return (rows, columns) if high % rows == 0 and wide % columns == 0 else (1, wide)


def _apply(moves: Moves, problem: MatmulProblem, tile: GroupTile) -> None:
    rows, columns = loop_size(*problem.rows), loop_size(*problem.columns)
    of_rows = _parts(tile.rows, tile.high, tile.near[0], tile.together)
    of_columns = _parts(tile.columns, tile.wide, tile.near[1], tile.together)
    row = moves.tiled(rows, *of_rows, outer="grid")
    column = moves.tiled(columns, *of_columns, outer="grid")
    tiled = tile_product(moves, problem, row, column, tile.depth)
    _order_items(moves, (_local(row, of_rows), _local(column, of_columns)))
    x, y = (
        _staged(moves, *each, tiled.inner, tile) for each in ((tiled.x, row), (tiled.y, column))
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


def _staged(moves: Moves, factor: Node, line: Split, inner: Node, tile: GroupTile) -> Node:
    """`factor` for one slice of steps and one tile of lines (rows or columns), in shared memory."""
    mine = tuple(r for r in line.ranges if r.arg.kind != "grid")
    lines = loop_size(*mine)
    here = number_of(mine)
    along_steps = is_contiguous(factor, inner)
    width = 1 if along_steps or tile.buffers == 1 else tile.together
    item = moves.loop(tile.items, "local")
    lane = moves.loop(width, "vector") if width > 1 else Node.index(0)
    total = tile.depth * lines // width
    turns = -(-total // tile.items)
    turn = moves.loop(turns, "unroll") if turns > 1 else None
    flat = item if turn is None else turn * tile.items + item
    if along_steps:
        deep, place = flat % tile.depth, flat // tile.depth
    else:
        deep, place = flat // (lines // width) % tile.depth, flat % (lines // width) * width + lane
    where = {inner: deep, **dict(zip(mine, digits_of(place, mine), strict=True))}
    filled = factor.substitute({r: simplify(value) for r, value in where.items()})
    gate = TRUE if turns * tile.items == total else simplify(flat < total)
    sizes = (tile.depth, lines + tile.together if along_steps else lines)
    closed = tuple(r for r in (turn, item, lane) if r is not None and r.op is Op.RANGE)
    places = (simplify(deep), simplify(place))
    arg = StageArg("shared", sizes, tile.buffers, fill_of(filled, tile.buffers))
    return Stage(filled, gate, places, (inner, here), closed, arg, factor.dtype).node()
