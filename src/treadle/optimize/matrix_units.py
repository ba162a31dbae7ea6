"""Matmul-like nests on matrix units: subgroups that multiply small matrices.

    out[i, j] = sum over k of x[i, k] * y[k, j],  x and y of float16 or bfloat16

A group computes a tile of the output, each of its subgroups some rows and columns of that, as
products of 16 x 16 by 16 x 8. Slices of both operands are in shared STAGEs, line by line with k
innermost, so that two neighbours in k are one load; lines are padded, so that all pieces that a
subgroup reads at a time are in different banks.

What one of the 32 items of a subgroup holds is the arrangement of PTX's mma.sync.m16n8k16, with
g = lane // 4 and t = lane % 4:

    x     rows g and g + 8, in k 2t, 2t + 1 and the same + 8      four pieces of two
    y     column g, in k 2t, 2t + 1 and the same + 8              two pieces of two
    out   rows g and g + 8, columns 2t and 2t + 1                 four sums

An MMA has these pieces as sources and gives the sums of one product; a REDUCE over the slices adds
them up, and EXTRACT takes one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.args import StageArg
from ..ir.loops import TRUE, Split
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import MatrixUnit, Target
from .matmul import Problem
from .moves import Moves
from .slices import Cut, count, cut_product, digits, is_contiguous, spread, undigit

__all__ = ["tile_for_matrix_units"]

DEPTH = 32  # steps of the reduction in a slice
FEW = 16  # rows, columns and steps below which most of a unit's work would be for nothing
PIECE = 8  # elements that are copied into shared memory at a time
MOST = 4  # products along the rows, and along the columns, of one subgroup
SUBGROUPS = (2, 4)  # along the rows, and the columns, of a group
GROUPS_OF_ROWS = 8  # g
PAIRS = 4  # t


@dataclass(frozen=True)
class _Tile:
    """Each subgroup computes `rows` x `columns` products of a unit, in slices of `depth`."""

    rows: int
    columns: int
    depth: int


def tile_for_matrix_units(moves: Moves, problem: Problem, target: Target) -> bool:
    """Put a problem on matrix units if the target has them for it; says whether it did."""
    unit = _unit_for(problem, target)
    sizes = tuple(map(count, (problem.rows, problem.columns, problem.steps)))
    if unit is None or min(sizes) < FEW:
        return False
    tile = _choose(problem, unit, target)
    row, column = (
        spread(moves, sizes[0], _of_rows(tile)), spread(moves, sizes[1], _of_columns(tile))
    )  # fmt: skip
    high, wide = SUBGROUPS
    what = f"a group of {high} x {wide} subgroups for each tile"
    cut = cut_product(moves, problem, row, column, tile.depth, what)
    _order_items(moves, row, column)
    total = _product(moves, cut, row, column, unit.dtype, tile)
    moves.root = moves.root.substitute({cut.reduce: total})
    moves.log.append(f"{unit.rows} x {unit.columns} products on matrix units")
    return True


def _unit_for(problem: Problem, target: Target) -> MatrixUnit | None:
    """The unit for the dtype that both factors had before they were widened."""
    if problem.reduce.dtype is not dtypes.float32:
        return None
    for unit in target.matrix_units:
        if all(_narrowed(factor, unit.dtype) is not None for factor in (problem.x, problem.y)):
            return unit
    return None


def _narrowed(value: Node, dtype: DType) -> Node | None:
    """The value of `dtype` that `value` is widened from, if it is."""
    if value.op is Op.CAST and value.src[0].dtype is dtype:
        return value.src[0]
    if value.op is Op.CONST and value.arg == 0:
        return Node.const(dtype, 0)
    if value.op is Op.WHERE:
        one, other = (_narrowed(source, dtype) for source in value.src[1:])
        return None if one is None or other is None else value.src[0].where(one, other)
    return None


def _choose(problem: Problem, unit: MatrixUnit, target: Target) -> _Tile:
    """The largest tile of which the output has enough."""
    assert target.workgroup is not None
    high, wide = SUBGROUPS[0] * unit.rows, SUBGROUPS[1] * unit.columns
    rows, columns = count(problem.rows), count(problem.columns)
    each_row = each_column = MOST

    def groups() -> int:
        tiles = -(-rows // (high * each_row)) * -(-columns // (wide * each_column))
        return count(problem.batch) * tiles

    while each_row > 1 and (high * each_row // 2 >= rows or groups() < target.workgroup.busy):
        each_row //= 2
    while each_column > 1 and (
        wide * each_column // 2 >= columns or groups() < target.workgroup.busy
    ):
        each_column //= 2
    return _Tile(each_row, each_column, DEPTH if count(problem.steps) > unit.steps else unit.steps)


def _of_rows(tile: _Tile) -> tuple[tuple[int, str], ...]:
    """Subgroup, product, upper or lower half of it, g."""
    return (SUBGROUPS[0], "local"), (tile.rows, "unroll"), (2, "unroll"), (GROUPS_OF_ROWS, "local")


def _of_columns(tile: _Tile) -> tuple[tuple[int, str], ...]:
    """Subgroup, product, t, which of two."""
    return (SUBGROUPS[1], "local"), (tile.columns, "unroll"), (PAIRS, "local"), (2, "unroll")


def _order_items(moves: Moves, row: Split, column: Split) -> None:
    """Items in the order of subgroups, then g, then t: so 32 neighbours are one subgroup."""
    high, g, wide, t = (r for r in (*row.ranges, *column.ranges) if r.arg.kind == "local")
    nest = next(n for n in moves.nests() if g in n.loops)
    items = (high, wide, g, t)
    groups = tuple(r for r in nest.loops if r.arg.kind == "grid")
    rest = tuple(r for r in nest.loops if r not in items and r not in groups)
    moves.reorder(nest, (*groups, *items, *rest))


def _product(moves: Moves, cut: Cut, row: Split, column: Split, dtype: DType, tile: _Tile) -> Node:
    """One result of the item, of the four sums that its products have."""
    *rows, half, g = (r for r in row.ranges if r.arg.kind != "grid")
    *columns, t, which = (r for r in column.ranges if r.arg.kind != "grid")
    pair, step = moves.loop(2, "vector"), moves.loop(tile.depth // 16)
    x, y = (
        _staged(moves, _narrow(factor, dtype), line, cut.inner, tile)
        for factor, line in ((cut.x, row), (cut.y, column))
    )
    places = [simplify(step * 16 + end + t * 2 + pair) for end in (0, 8)]
    upper = (digits(tuple(rows)) * 2) * GROUPS_OF_ROWS + g
    lines = [simplify(upper + down) for down in (0, GROUPS_OF_ROWS)]
    across = simplify(digits(tuple(columns)) * GROUPS_OF_ROWS + g)
    pieces = [_read(x, line, place) for place in places for line in lines]
    pieces += [_read(y, across, place) for place in places]
    sums = Node(Op.MMA, dtypes.float32.vec(4), (*pieces, pair))
    loops = (step,) if cut.outer is None else (cut.outer, step)
    total = Node(Op.REDUCE, sums.dtype, (sums, *loops), cut.reduce.arg)
    return Node(Op.EXTRACT, dtypes.float32, (total, simplify(half * 2 + which)))


def _narrow(factor: Node, dtype: DType) -> Node:
    narrow = _narrowed(factor, dtype)
    assert narrow is not None  # masks do not change that
    return narrow


def _read(stage: Node, line: Node, place: Node) -> Node:
    """A STAGE read elsewhere."""
    return stage.replace(src=(*stage.src[:4], line, place, *stage.src[6:]))


def _staged(moves: Moves, factor: Node, line: Split, inner: Node, tile: _Tile) -> Node:
    """`factor` for one slice and one tile of lines (rows or columns), a line after the other.

    Items copy whole pieces along what is contiguous in memory: k, or neighbouring lines.
    """
    mine = tuple(r for r in line.ranges if r.arg.kind != "grid")
    lines = count(mine)
    items = SUBGROUPS[0] * SUBGROUPS[1] * GROUPS_OF_ROWS * PAIRS
    item, lane = moves.loop(items, "local"), moves.loop(PIECE, "vector")
    pieces = lines * tile.depth // PIECE
    turns = -(-pieces // items)
    turn = moves.loop(turns, "unroll") if turns > 1 else None
    piece = item if turn is None else turn * items + item
    if is_contiguous(factor, inner):
        deep, place = piece % (tile.depth // PIECE) * PIECE + lane, piece // (tile.depth // PIECE)
    else:
        deep, place = piece % tile.depth, piece // tile.depth * PIECE + lane
    split = {inner: deep, **dict(zip(mine, undigit(place, mine), strict=True))}
    filled = factor.substitute({r: simplify(value) for r, value in split.items()})
    gate = TRUE if turns * items == pieces else simplify(piece < pieces)
    closed = (item, lane) if turn is None else (turn, item, lane)
    places = (simplify(place), simplify(deep))
    sizes = (lines, tile.depth + PIECE)
    src = (filled, gate, *places, Node.index(0), Node.index(0), *closed)
    return Node(Op.STAGE, factor.dtype, src, StageArg("shared", sizes))
