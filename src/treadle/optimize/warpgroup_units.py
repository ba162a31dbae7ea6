"""Matmul-like nests on the units of warpgroups: four subgroups that multiply from shared memory.

    out[i, j] = sum over k of x[i, k] * y[k, j],  x and y of float16 or bfloat16

A group of one or two warpgroups computes a tile of the output, each of them 64 rows by all of its
columns. Slices of both operands are in shared STAGEs, in rows of 128 bytes: of k, or where an
operand is contiguous in its lines (rows of x, columns of y), of those. Rows are swizzled, as the
units take them without conflicts of banks.

What one of the 128 items of a warpgroup holds is the arrangement of PTX's wgmma, with
warp = item // 32, g = item % 32 // 4 and t = item % 4:

    out   rows 16 warp + g and the same + 8, columns 2t and 2t + 1 of each 8

A WGMMA has both STAGEs as sources and gives the sums of one product of a slice; a REDUCE over the
slices adds them up, and EXTRACT takes one.

Why these tiles: the units take 128 cycles for 64 x 256 x 16 and read 10 KiB of shared memory in
them, 80 bytes a cycle of 128 that there are; 64 x 128 take 96, 64 x 64 all of them. 128 x 256 sums
are 128 registers of each item, half of what it can have, and need 48 bytes of operands a cycle from
the second-level cache where 128 x 128 need 64. While one warpgroup waits, the other multiplies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.args import MatrixLayout, StageArg, WgmmaArg
from ..ir.loops import TRUE, Split
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import MatrixUnit, Target
from .matmul import Problem
from .matrix_units import _narrow, _narrowed
from .moves import Moves
from .slices import Cut, count, cut_product, is_contiguous, spread, undigit

__all__ = ["tile_for_warpgroups"]

ROW = 128  # bytes of a row in shared memory
BLOCK = 8 * ROW  # what is swizzled together
PIECE = 16  # bytes that are copied into shared memory at a time
WARPS = 4  # of a warpgroup
GROUPS_OF_ROWS = 8  # g
PAIRS = 4  # t
LEAST = 64  # rows, columns and steps below which most of a unit's work would be for nothing
# What tiles reach of the units' speed, estimated from what they read: (warpgroups, columns).
TILES = {(2, 256): 1.0, (2, 128): 0.9, (2, 64): 0.6, (1, 128): 0.6, (1, 64): 0.4}


@dataclass(frozen=True)
class _Tile:
    """Each of `warpgroups` computes 64 x `columns` in slices of `depth`."""

    warpgroups: int
    columns: int
    depth: int

    @property
    def rows(self) -> int:
        return 64 * self.warpgroups

    @property
    def items(self) -> int:
        return self.warpgroups * WARPS * GROUPS_OF_ROWS * PAIRS


def tile_for_warpgroups(moves: Moves, problem: Problem, target: Target) -> bool:
    """Put a problem on units of warpgroups if the target has them; says whether it did."""
    unit = _unit_for(problem, target)
    if unit is None:
        return False
    rows, columns, steps = (count(r) for r in (problem.rows, problem.columns, problem.steps))
    if min(rows, columns, steps) < LEAST:
        return False
    tile = _choose(problem, unit, target)
    row, column = spread(moves, rows, _of_rows(tile)), spread(moves, columns, _of_columns(tile))
    what = f"{tile.warpgroups} warpgroups for each {tile.rows} x {tile.columns}"
    cut = cut_product(moves, problem, row, column, tile.depth, what)
    _order_items(moves, row, column)
    total = _product(moves, cut, row, column, unit, tile)
    moves.root = moves.root.substitute({cut.reduce: total})
    moves.log.append(f"{unit.rows} x {tile.columns} products on units of warpgroups")
    return True


def _unit_for(problem: Problem, target: Target) -> MatrixUnit | None:
    """The unit for the dtype that both factors had before they were widened."""
    if problem.reduce.dtype is not dtypes.float32:
        return None
    for unit in target.warpgroup_units:
        if all(_narrowed(factor, unit.dtype) is not None for factor in (problem.x, problem.y)):
            return unit
    return None


def _choose(problem: Problem, unit: MatrixUnit, target: Target) -> _Tile:
    """The tile with which the output should take the least time."""
    assert target.workgroup is not None
    busy, depth = target.workgroup.busy, ROW // unit.dtype.itemsize
    rows, columns, batch = (count(r) for r in (problem.rows, problem.columns, problem.batch))

    def cost(tile: _Tile) -> float:
        groups = batch * math.ceil(rows / tile.rows) * math.ceil(columns / tile.columns)
        speed = TILES[tile.warpgroups, tile.columns]
        return math.ceil(groups / busy) * tile.rows * tile.columns / speed

    return min((_Tile(*key, depth) for key in TILES), key=cost)


def _of_rows(tile: _Tile) -> tuple[tuple[int, str], ...]:
    """Warpgroup, warp, upper or lower half of its rows, g."""
    warps = tile.warpgroups * WARPS
    return (warps, "local"), (2, "unroll"), (GROUPS_OF_ROWS, "local")


def _of_columns(tile: _Tile) -> tuple[tuple[int, str], ...]:
    """Which eight, t, which of two."""
    return (tile.columns // 8, "unroll"), (PAIRS, "local"), (2, "vector")


def _order_items(moves: Moves, row: Split, column: Split) -> None:
    """Items in the order of warps, then g, then t: 128 neighbours are a warpgroup."""
    items = tuple(r for r in (*row.ranges, *column.ranges) if r.arg.kind == "local")
    nest = next(n for n in moves.nests() if items[0] in n.loops)
    groups = tuple(r for r in nest.loops if r.arg.kind == "grid")
    rest = tuple(r for r in nest.loops if r not in items and r not in groups)
    moves.reorder(nest, (*groups, *items, *rest))


def _product(
    moves: Moves, cut: Cut, row: Split, column: Split, unit: MatrixUnit, tile: _Tile
) -> Node:
    """One result of the item, of those that its product has."""
    warp, half, _ = (r for r in row.ranges if r.arg.kind != "grid")
    eight, _, which = (r for r in column.ranges if r.arg.kind != "grid")
    x = _Operand(moves, _narrow(cut.x, unit.dtype), row, cut.inner, tile)
    y = _Operand(moves, _narrow(cut.y, unit.dtype), column, cut.inner, tile)
    turns = tile.depth // unit.steps
    arg = WgmmaArg(tile.columns, turns, x.layout(turns), y.layout(turns))
    dtype = cut.reduce.dtype.vec(tile.columns // 2)
    src = (x.read(warp // WARPS * unit.rows), y.read(Node.index(0)))
    total = Node(Op.WGMMA, dtype, src, arg)
    if cut.outer is not None:
        total = Node(Op.REDUCE, dtype, (total, cut.outer), cut.reduce.arg)
    number = simplify(eight * 4 + half * 2 + which)
    return Node(Op.EXTRACT, cut.reduce.dtype, (total, number))


class _Operand:
    """A factor for one slice and one tile of lines (rows or columns), in shared memory."""

    def __init__(self, moves: Moves, factor: Node, line: Split, inner: Node, tile: _Tile) -> None:
        mine = tuple(r for r in line.ranges if r.arg.kind != "grid")
        self.lines, self.depth = count(mine), tile.depth
        self.wide = ROW // factor.dtype.itemsize  # elements of a row
        self.is_transposed = self._runs_along_lines(factor, mine[-1], inner)
        each = PIECE // factor.dtype.itemsize
        item, lane = moves.loop(tile.items, "local"), moves.loop(each, "vector")
        turns = self.lines * self.depth // each // tile.items
        turn = moves.loop(turns, "unroll") if turns > 1 else None
        piece = item if turn is None else turn * tile.items + item
        along = piece % (self.wide // each) * each + lane
        across = piece // (self.wide // each)
        if self.is_transposed:
            deep = across % self.depth
            place = across // self.depth * self.wide + along
        else:
            deep, place = along, across
        place, deep = simplify(place), simplify(deep)
        where = {inner: deep, **dict(zip(mine, undigit(place, mine), strict=True))}
        filled = factor.substitute({r: simplify(value) for r, value in where.items()})
        closed = (item, lane) if turn is None else (turn, item, lane)
        zero = (Node.index(0),) * 3
        src = (filled, TRUE, *self._place(place, deep), *zero, *closed)
        sizes = (self.lines // self.wide, self.depth, self.wide)
        if not self.is_transposed:
            sizes = (1, self.lines, self.wide)
        self.stage = Node(Op.STAGE, factor.dtype, src, StageArg("shared", sizes, True))

    def _runs_along_lines(self, factor: Node, line: Node, inner: Node) -> bool:
        """Whether rows hold lines: neighbouring ones are contiguous, and fill whole rows."""
        can = factor.dtype.itemsize == 2 and self.lines % self.wide == 0
        return can and not is_contiguous(factor, inner) and is_contiguous(factor, line)

    def _place(self, line: Node, deep: Node) -> tuple[Node, ...]:
        if self.is_transposed:
            return line // self.wide, deep, line % self.wide
        return Node.index(0), line, deep

    def read(self, line: Node) -> Node:
        """The STAGE, read at its first step of a line."""
        place = tuple(map(simplify, self._place(line, Node.index(0))))
        return self.stage.replace(src=(*self.stage.src[:5], *place, *self.stage.src[8:]))

    def layout(self, turns: int) -> MatrixLayout:
        """Where the units find it."""
        if self.is_transposed:
            return MatrixLayout(True, self.depth * ROW, BLOCK, self.depth // turns * ROW)
        return MatrixLayout(False, PIECE, BLOCK, ROW // turns)
