"""Matmul-like nests on matrix units: subgroups that multiply small matrices.

    out[i, j] = sum over k of x[i, k] * y[k, j],  x and y of float16 or bfloat16

A group computes a tile of the output, each of its subgroups some rows and columns of that, as
products of 16 x 16 by 16 x 8. Slices of both operands are in shared STAGEs, in several buffers if
there are several slices, so that the next ones arrive while one is multiplied. Lines of a STAGE lie
as they do in memory: along k, or along rows or columns, up to 64 of those side by side. They are
swizzled, so that whatever a subgroup copies or reads at a time is in different banks.

What one of the 32 items of a subgroup holds is the arrangement of PTX's mma.sync.m16n8k16, with
g = lane // 4 and t = lane % 4:

    x     rows g and g + 8, in k 2t, 2t + 1 and the same + 8      four words of two
    y     column g, in k 2t, 2t + 1 and the same + 8              two words of two
    out   rows g and g + 8, columns 2t and 2t + 1                 four sums

A FRAGMENT reads such words, those of one product of x or of two neighbouring ones of y. An MMA has
them as sources and gives the sums of one product; a REDUCE over the slices adds them up, and
EXTRACT takes one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.args import StageArg
from ..ir.conditions import parts
from ..ir.loops import TRUE, Split
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import MatrixUnit, Target
from .matmul import Problem
from .moves import Moves
from .products import masked
from .slices import Cut, count, cut_product, digits, is_contiguous, is_copied, spread, undigit

__all__ = ["tile_for_matrix_units"]

DEPTH = 32  # steps of the reduction in a slice
FEW = 16  # rows, columns and steps below which most of a unit's work would be for nothing
PIECE = 8  # elements that are copied into shared memory at a time
MOST = 4  # products along the rows, and along the columns, of one subgroup
SUBGROUPS = (2, 4)  # along the rows, and the columns, of a group
GROUPS_OF_ROWS = 8  # g
PAIRS = 4  # t
WIDEST_LINE = 128  # bytes of a STAGE that are swizzled together
MOST_BUFFERS = 4
GROUPS_AT_A_TIME = 2  # on one multiprocessor


@dataclass(frozen=True)
class _Tile:
    """Each subgroup computes `rows` x `columns` products of a unit, in slices of `depth`.

    So many slices as `buffers` are in memory at a time, if there are as many.
    """

    rows: int
    columns: int
    depth: int
    buffers: int


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
    total = _product(moves, cut, row, column, unit, tile)
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
        if one is None or other is None:
            return None
        is_masked = other.value == 0
        return masked(parts(value.src[0]), one) if is_masked else value.src[0].where(one, other)
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
    depth = DEPTH if count(problem.steps) > unit.steps else unit.steps
    slice_bytes = (high * each_row + wide * each_column) * depth * unit.dtype.itemsize
    # So few that two groups have room at a time.
    buffers = min(MOST_BUFFERS, target.workgroup.shared_bytes // GROUPS_AT_A_TIME // slice_bytes)
    return _Tile(each_row, each_column, depth, min(buffers, -(-count(problem.steps) // depth)))


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


def _product(
    moves: Moves, cut: Cut, row: Split, column: Split, unit: MatrixUnit, tile: _Tile
) -> Node:
    """One result of the item, of the four sums that its products have."""
    *rows, half, g = (r for r in row.ranges if r.arg.kind != "grid")
    *columns, t, which = (r for r in column.ranges if r.arg.kind != "grid")
    step = moves.loop(tile.depth // unit.steps)
    x, y = (
        _staged(moves, _narrow(factor, unit.dtype), line, cut.inner, tile)
        for factor, line in ((cut.x, row), (cut.y, column))
    )
    matrix, line = g // 2, simplify(g % 2 * PAIRS + t)  # which this item names, and what line of it
    high = digits(tuple(rows)) * 2
    of_x = x.fragment(4, high + matrix % 2, step * 2 + matrix // 2, line)
    words = [_word(of_x, Node.index(n)) for n in range(4)]
    wide, *several = columns
    if several:
        product = several[0]
        pair = wide * tile.columns + product // 2 * 2
        of_y = y.fragment(4, pair + matrix // 2, step * 2 + matrix % 2, line)
        words += [_word(of_y, simplify(product % 2 * 2 + n)) for n in range(2)]
    else:
        of_y = y.fragment(2, wide, step * 2 + matrix % 2, line)
        words += [_word(of_y, Node.index(n)) for n in range(2)]
    sums = Node(Op.MMA, dtypes.float32.vec(4), tuple(words), unit.dtype.name)
    loops = (step,) if cut.outer is None else (cut.outer, step)
    total = Node(Op.REDUCE, sums.dtype, (sums, *loops), cut.reduce.arg)
    return Node(Op.EXTRACT, dtypes.float32, (total, simplify(half * 2 + which)))


def _word(fragment: Node, number: Node) -> Node:
    return Node(Op.EXTRACT, fragment.dtype.scalar, (fragment, number))


def _narrow(factor: Node, dtype: DType) -> Node:
    narrow = _narrowed(factor, dtype)
    assert narrow is not None  # masks do not change that
    return narrow


@dataclass(frozen=True)
class _Operand:
    """A STAGE of one slice, [line][k] or, `across`, [panel of lines][k][line of the panel]."""

    stage: Node
    across: bool

    def fragment(self, matrices: int, eighth: Node, piece: Node, number: Node) -> Node:
        """Words of matrices: this item names line `number` of one.

        That has the lines 8 * `eighth` to + 7, and piece `piece` of k.
        """
        line, deep = eighth * PIECE, piece * PIECE
        place = (line, deep + number) if self.across else (line + number, deep)
        axes = len(self.stage.arg.sizes)
        index = _place(self.stage.arg.sizes, self.across, *map(simplify, place))
        src = (*self.stage.src[: 2 + axes], *index, *self.stage.src[2 + 2 * axes :])
        words = dtypes.uint32.vec(matrices)
        return Node(Op.FRAGMENT, words, (self.stage.replace(src=src),), self.across or None)


def _place(sizes: tuple[int, ...], across: bool, line: Node, deep: Node) -> tuple[Node, ...]:
    """Where an element is in a STAGE."""
    if not across:
        return line, deep
    return simplify(line // sizes[-1]), deep, simplify(line % sizes[-1])


def _staged(moves: Moves, factor: Node, line: Split, inner: Node, tile: _Tile) -> _Operand:
    """`factor` for one slice and one tile of lines (rows or columns).

    Items copy whole pieces along what is contiguous in memory: k, or neighbouring lines.
    """
    mine = tuple(r for r in line.ranges if r.arg.kind != "grid")
    lines, depth = count(mine), tile.depth
    items = SUBGROUPS[0] * SUBGROUPS[1] * GROUPS_OF_ROWS * PAIRS
    item, lane = moves.loop(items, "local"), moves.loop(PIECE, "vector")
    pieces = lines * depth // PIECE
    turns = -(-pieces // items)
    turn = moves.loop(turns, "unroll") if turns > 1 else None
    piece = item if turn is None else turn * items + item
    across = not is_contiguous(factor, inner)
    if across:
        # What items too many read is not stored, but is there to be read.
        deep, place = piece // (lines // PIECE) % depth, piece % (lines // PIECE) * PIECE + lane
        panel = min(lines, WIDEST_LINE // factor.dtype.itemsize)
        sizes = (lines // panel, depth, panel)
    else:
        deep, place = piece % (depth // PIECE) * PIECE + lane, piece // (depth // PIECE)
        sizes = (lines, depth)
    split = {inner: deep, **dict(zip(mine, undigit(place, mine), strict=True))}
    filled = factor.substitute({r: simplify(value) for r, value in split.items()})
    gate = TRUE if turns * items == pieces else simplify(piece < pieces)
    closed = (item, lane) if turn is None else (turn, item, lane)
    index = _place(sizes, across, simplify(place), simplify(deep))
    swizzle = sizes[-1] * factor.dtype.itemsize
    fill = "copies" if tile.buffers > 1 and is_copied(filled) else "stores"
    arg = StageArg("shared", sizes, tile.buffers, fill, swizzle)
    src = (filled, gate, *index, *(Node.index(0) for _ in sizes), *closed)
    return _Operand(Node(Op.STAGE, factor.dtype, src, arg), across)
