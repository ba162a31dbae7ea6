"""Matmul-like nests on work-groups: tiles of both operands in shared memory.

    out[i, j] = epilogue(sum over k of x[i, k] * y[k, j])

A group computes a tile of the output, an item a few rows by a few columns of it, spread so that
neighbouring items hold neighbouring columns, or neighbouring pieces of as many columns as the
target loads at once. For each slice of k the group first copies the slices
of x and y that the tile needs into shared STAGEs, neighbours reading neighbours. A row of a STAGE
is one piece longer than needed, so that items that write down a column meet different banks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ir.args import StageArg
from ..ir.loops import TRUE, Split, free_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import Workgroup
from .matmul import Problem, factors_of, recognise
from .moves import Moves
from .nest import Nest, stride
from .products import distribute_over_product

__all__ = ["tile_for_groups"]

MIN_WORK = 1 << 15
DEPTH = 16  # steps of the reduction in a slice
SMALL = 4  # rows, and columns, of an item that are no more divided to make groups


@dataclass(frozen=True)
class _Tile:
    """A group of `high` x `wide` items, each with `rows` x `columns` results.

    So many results as `together` are neighbours, if an item has as many.
    """

    high: int
    wide: int
    rows: int
    columns: int
    depth: int
    together: int

    @property
    def items(self) -> int:
        return self.high * self.wide


def tile_for_groups(moves: Moves, nest: Nest, group: Workgroup) -> bool:
    """Tile `nest` if it is matmul-like and large enough; says whether it did."""
    problem = recognise(nest)
    if problem is None:
        return False
    rows, columns, steps = (_count(r) for r in (problem.rows, problem.columns, problem.steps))
    if rows * columns * steps * _count(problem.batch) < MIN_WORK or min(rows, columns, steps) < 4:
        return False
    tile = _choose(problem, group)
    if tile is None:
        return False
    _apply(moves, problem, tile)
    return True


def _count(loops: tuple[Node, ...]) -> int:
    return math.prod(r.src[0].arg for r in loops)


def _choose(problem: Problem, group: Workgroup) -> _Tile | None:
    """The largest square-like tile that the output fills, often enough, and shared memory holds."""
    rows, columns, steps = (_count(r) for r in (problem.rows, problem.columns, problem.steps))
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
        return _count(problem.batch) * tiles

    while groups() < group.busy and max(each_row, each_column) > SMALL:
        if each_row > each_column:
            each_row //= 2
        else:
            each_column //= 2
    depth = min(DEPTH, 1 << (steps.bit_length() - 1))
    padding = 2 * group.together
    for _ in range(4):
        held = depth * (high * each_row + wide * each_column + padding)
        if held * itemsize <= group.shared_bytes:
            return _Tile(high, wide, each_row, each_column, depth, group.together)
        depth = max(1, depth // 2)
    return None


def _apply(moves: Moves, problem: Problem, tile: _Tile) -> None:
    steps = problem.steps
    splits = {r: _whole(moves, r) for r in problem.batch}
    row = _spread(moves, _count(problem.rows), tile.rows, tile.high, tile.together)
    column = _spread(moves, _count(problem.columns), tile.columns, tile.wide, tile.together)
    inner = moves.loop(tile.depth)
    slices = -(-_count(steps) // tile.depth)
    outer = moves.loop(slices) if slices > 1 else None
    position = inner if outer is None else outer * tile.depth + inner
    loops = (inner,) if outer is None else (outer, inner)
    whole = slices * tile.depth == _count(steps)
    step = Split(simplify(position), loops, TRUE if whole else simplify(position < _count(steps)))
    splits.update(moves.flatten(problem.rows, row))
    splits.update(moves.flatten(problem.columns, column))
    splits.update(moves.flatten(steps, step))
    moves.apply(splits, f"a group of {tile.high} x {tile.wide} items for each tile")
    moves.root = distribute_over_product(moves.root)
    made = {r for split in (row, column) for r in split.ranges}
    nest = next(n for n in moves.nests() if made & set(n.loops))
    moves.reorder(nest, tuple(sorted(nest.loops, key=_order)))

    reduce = next(
        n for n in moves.root.toposort() if n.op is Op.REDUCE and set(loops) <= set(n.src[1:])
    )
    factors = factors_of(reduce.src[0])
    assert (
        factors is not None
    )  # `recognise` saw the product, `distribute_over_product` uncovered it
    x, y = factors
    if not free_ranges(x)[x] & frozenset(row.ranges):
        x, y = y, x
    product = _staged(moves, x, row, inner, tile) * _staged(moves, y, column, inner, tile)
    moves.root = moves.root.substitute({reduce: reduce.replace(src=(product, *reduce.src[1:]))})
    moves.log.append("both operands in shared tiles")


def _order(loop: Node) -> int:
    """Groups outermost, then items, then what one item repeats."""
    return {"grid": 0, "local": 1}.get(loop.arg.kind, 2)


def _whole(moves: Moves, loop: Node) -> Split:
    new = moves.loop(loop.src[0].arg, "grid")
    return Split(new, (new,))


def _spread(moves: Moves, size: int, each: int, items: int, together: int) -> Split:
    """`size` as (group, which of the item's pieces, item, place in the piece)."""
    tile, piece = each * items, min(each, together)
    count = -(-size // tile)
    expr = Node.index(0)
    loops = []
    digits = ((count, "grid"), (each // piece, "unroll"), (items, "local"), (piece, "unroll"))
    for extent, kind in digits:
        expr = expr * extent
        if extent > 1:
            loops.append(moves.loop(extent, kind))
            expr = expr + loops[-1]
    expr = simplify(expr)
    return Split(expr, tuple(loops), TRUE if count * tile == size else simplify(expr < size))


def _staged(moves: Moves, factor: Node, line: Split, inner: Node, tile: _Tile) -> Node:
    """`factor` for one slice of steps and one tile of lines (rows or columns), in shared memory."""
    mine = tuple(r for r in line.ranges if r.arg.kind != "grid")
    lines = _count(mine)
    here = _digits(mine)
    total = tile.depth * lines
    item = moves.loop(tile.items, "local")
    turns = -(-total // tile.items)
    turn = moves.loop(turns, "unroll") if turns > 1 else None
    flat = item if turn is None else turn * tile.items + item
    along_steps = _is_contiguous(factor, inner)
    if along_steps:
        deep, place = flat % tile.depth, flat // tile.depth
    else:
        deep, place = flat // lines, flat % lines
    spread = {inner: deep, **dict(zip(mine, _undigit(place, mine), strict=True))}
    spread = {r: simplify(value) for r, value in spread.items()}
    filled = factor.substitute(spread)
    gate = TRUE if turns * tile.items == total else simplify(flat < total)
    sizes = (tile.depth, lines + tile.together if along_steps else lines)
    closed = (item,) if turn is None else (turn, item)
    src = (filled, gate, simplify(deep), simplify(place), inner, here, *closed)
    return Node(Op.STAGE, factor.dtype, src, StageArg("shared", sizes))


def _is_contiguous(factor: Node, loop: Node) -> bool:
    return any(n.op is Op.LOAD and stride(n.src[1], loop) == 1 for n in factor.toposort())


def _digits(loops: tuple[Node, ...]) -> Node:
    total = Node.index(0)
    for r in loops:
        total = total * r.src[0].arg + r
    return simplify(total)


def _undigit(number: Node, loops: tuple[Node, ...]) -> list[Node]:
    """The digits of `number` for `loops`, outermost first: what `_digits` puts together."""
    digits = []
    for r in reversed(loops):
        digits.append(number % r.src[0].arg)
        number = number // r.src[0].arg
    return digits[::-1]
