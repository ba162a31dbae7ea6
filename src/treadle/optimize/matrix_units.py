"""Matmul-like nests on matrix units: subgroups that multiply small matrices.

    out[i, j] = sum over k of x[i, k] * y[k, j],  x and y of one narrow type (or tf32, see below)

A workgroup computes a tile of the output, each of its subgroups some rows and columns of that, as
products of 16 rows by 8 columns over 32 bytes of k. Slices of both operands are in shared STAGEs
(fragments.py), in several buffers if there are several slices, so that the next ones arrive while
one is multiplied.

What one of the 32 items of a subgroup holds is the arrangement of PTX's mma.sync. In words of 32
bits, with g = lane // 4, t = lane % 4 and k counted in words:

    x     rows g and g + 8, in k t and t + 4       four words
    y     column g, in k t and t + 4               two words
    out   rows g and g + 8, columns 2t and 2t + 1  four sums

An MMA has these words as sources and gives the sums of one product; a REDUCE over the slices adds
them up, and EXTRACT takes one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..dtype import DType
from ..ir.conditions import parts
from ..ir.loops import Split, loop_size, number_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import operand
from ..target import MatrixUnit, Target
from .fragments import GROUPS_OF_LINES, WORDS, Lane, most_bytes, staged
from .hoist_masks import masked
from .k_tiling import TiledProduct, tile_product
from .matmul_problem import MatmulProblem, recognise
from .moves import Move, Moves
from .nest import Nest
from .records import Record

__all__ = ["TileForUnits", "narrowed", "tile_for_matrix_units", "unit_for"]

FEW = 16  # rows, columns and steps below which most of a unit's work would be for nothing
MOST = 4  # products along the rows, and along the columns, of one subgroup
SUBGROUPS = (2, 4)  # along the rows, and the columns, of a group
MOST_BUFFERS = 4
BAND = 8  # tiles of rows
GROUPS_AT_A_TIME = 2  # on one multiprocessor
RESERVED = 1 << 10  # bytes of shared memory that each of them has besides


@dataclass(frozen=True)
class UnitTile(Record):
    """Each subgroup computes `rows` x `columns` products of a unit, in slices of `depth`.

    So many slices as `buffers` are in memory at a time, if there are as many.
    """

    word = "unit_tile"

    rows: int
    columns: int
    depth: int
    buffers: int


def tile_for_matrix_units(moves: Moves, nest: Nest, problem: MatmulProblem, target: Target) -> bool:
    """Put the problem of a nest on matrix units if the target has them; says whether it did."""
    unit = unit_for(problem, target.matrix_units)
    sizes = [loop_size(*r) for r in (problem.rows, problem.columns, problem.steps)]
    if unit is None or min(sizes) < FEW:
        return False
    moves.make(TileForUnits(moves.number_of(nest), _choose(problem, unit, target)))
    return True


@dataclass(frozen=True)
class TileForUnits(Move):
    """The matrix units of subgroups compute tiles of a product. Then it is scheduled."""

    word = "matrix_units"

    nest: int
    tile: UnitTile

    def forms(self) -> tuple[TileForUnits, ...]:
        """Tiles of half and of twice as many rows, or columns, or slices in memory."""
        found = []
        for name, most in (("rows", MOST), ("columns", MOST), ("buffers", MOST_BUFFERS)):
            now = getattr(self.tile, name)
            steps = (n for n in (now // 2, now * 2) if 1 <= n <= most)
            found += [replace(self, tile=replace(self.tile, **{name: n})) for n in steps]
        return tuple(found)

    def apply(self, moves: Moves) -> None:
        problem = recognise(moves.nest_of(self.nest))
        unit = problem and unit_for(problem, moves.target.matrix_units)
        if problem is None or unit is None:
            raise ValueError(f"{self}: the nest is no product that matrix units compute")
        _apply(moves, problem, unit, self.tile)


def _apply(moves: Moves, problem: MatmulProblem, unit: MatrixUnit, tile: UnitTile) -> None:
    sizes = [loop_size(*r) for r in (problem.rows, problem.columns)]
    row = moves.tiled(sizes[0], *_of_rows(tile, sizes[0]), outer="grid")
    column = moves.tiled(sizes[1], *_of_columns(tile), outer="grid")
    tiled = tile_product(moves, problem, row, column, tile.depth)
    _order_items(moves, row, column)
    total = _product(moves, tiled, row, column, unit, tile)
    moves.root = moves.root.substitute({tiled.reduce: total})


def unit_for(problem: MatmulProblem, units: tuple[MatrixUnit, ...]) -> MatrixUnit | None:
    """The one of `units` for the dtype that both factors had before they were widened."""
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


def _choose(problem: MatmulProblem, unit: MatrixUnit, target: Target) -> UnitTile:
    """The largest tile of which the output has enough."""
    assert target.workgroup is not None
    high, wide = SUBGROUPS[0] * unit.rows, SUBGROUPS[1] * unit.columns
    rows, columns = loop_size(*problem.rows), loop_size(*problem.columns)
    each_row = each_column = MOST

    def groups() -> int:
        tiles = -(-rows // (high * each_row)) * -(-columns // (wide * each_column))
        return loop_size(*problem.batch) * tiles

    while each_row > 1 and (high * each_row // 2 >= rows or groups() < target.workgroup.busy):
        each_row //= 2
    while each_column > 1 and (
        wide * each_column // 2 >= columns or groups() < target.workgroup.busy
    ):
        each_column //= 2
    depth = 2 * unit.steps if loop_size(*problem.steps) > unit.steps else unit.steps
    lines = (high * each_row, wide * each_column)
    slice_bytes = sum(most_bytes(n, depth, unit.dtype.itemsize) for n in lines)
    room = target.workgroup.shared_bytes // GROUPS_AT_A_TIME - RESERVED
    buffers = max(1, min(MOST_BUFFERS, room // slice_bytes))
    return UnitTile(
        each_row, each_column, depth, min(buffers, -(-loop_size(*problem.steps) // depth))
    )


def _of_rows(tile: UnitTile, rows: int) -> tuple[tuple[int, str], ...]:
    """Tile of a band, subgroup, product, upper or lower half of it, g."""
    inner = (
        (SUBGROUPS[0], "local"),
        (tile.rows, "unroll"),
        (2, "unroll"),
        (GROUPS_OF_LINES, "local"),
    )
    tiles = -(-rows // math.prod(extent for extent, _ in inner))
    return (math.gcd(tiles, BAND), "grid"), *inner


def _of_columns(tile: UnitTile) -> tuple[tuple[int, str], ...]:
    """Subgroup, product, t, which of two."""
    return (SUBGROUPS[1], "local"), (tile.columns, "unroll"), (WORDS, "local"), (2, "vector")


def _order_items(moves: Moves, row: Split, column: Split) -> None:
    """Items in the order of subgroups, then g, then t: so 32 neighbours are one subgroup.

    Groups go down the tiles of a band before they go on to the next column of tiles: those that run
    at a time read fewer lines of x and y in all.
    """
    high, g, wide, t = (r for r in (*row.ranges, *column.ranges) if r.arg.kind == "local")
    nest = moves.nest_with(g)
    items = (high, wide, g, t)
    band = tuple(r for r in row.ranges if r.arg.kind == "grid")[-1:]
    groups = (*(r for r in nest.loops if r.arg.kind == "grid" and r not in band), *band)
    rest = tuple(r for r in nest.loops if r not in items and r not in groups)
    moves.order_loops(nest, (*groups, *items, *rest))


def _product(
    moves: Moves, tiled: TiledProduct, row: Split, column: Split, unit: MatrixUnit, tile: UnitTile
) -> Node:
    """One result of the item, of the four sums that its products have."""
    *rows, half, g = (r for r in row.ranges if r.arg.kind != "grid")
    wide, *several, t, which = (r for r in column.ranges if r.arg.kind != "grid")
    lane, step = Lane(g, t), moves.loop(tile.depth // unit.steps)
    items = SUBGROUPS[0] * SUBGROUPS[1] * GROUPS_OF_LINES * WORDS
    x, y = (
        staged(
            moves, _narrow(factor, unit.dtype), line, tiled.inner, tile.depth, items, tile.buffers
        )
        for factor, line in ((tiled.x, row), (tiled.y, column))
    )
    upper = number_of(tuple(rows)) * 2
    of_x = x.words(4, lane, lambda n: upper + n % 2, lambda n: step * 2 + n // 2)
    words = [of_x(Node.index(number)) for number in range(4)]
    if several:  # two neighbouring products have their words read at once
        first, second = wide * tile.columns + several[0] // 2 * 2, several[0] % 2 * 2
        of_y = y.words(4, lane, lambda n: first + n // 2, lambda n: step * 2 + n % 2)
    else:
        second = Node.index(0)
        of_y = y.words(2, lane, lambda _: wide, lambda n: step * 2 + n % 2)
    words += [of_y(second + number) for number in range(2)]
    sums = Node(Op.MMA, unit.sums.vec(4), tuple(words), unit.name)
    loops = (step,) if tiled.outer is None else (tiled.outer, step)
    total = Node(Op.REDUCE, sums.dtype, (sums, *loops), tiled.reduce.arg)
    one = Node(Op.EXTRACT, unit.sums, (total, simplify(half * 2 + which)))
    return one.cast(tiled.reduce.dtype)


def _narrow(factor: Node, dtype: DType) -> Node:
    narrow = narrowed(factor, dtype)
    assert narrow is not None  # masks do not change that
    return narrow
