"""Reductions whose operands results share, in workgroups: tiles of both in shared memory.

    out[i, j] = epilogue(reduction over k of f(x[i, k], y[k, j]))
      ->  i and j as digits (workgroup, work item, element), k as outer * depth + inner

A workgroup computes a tile of the output, one slice of k after the other: it copies what the slice
has of x and y into shared STAGEs, neighbours reading neighbours. Where work items can copy
asynchronously, the slices after it are on their way meanwhile. What each work item does with its
slices is said by a move for each kind of unit: ShareTiles here, and those of `matrix_units` and
`warpgroup_units`.

By ShareTiles, a work item has a few rows by a few columns, spread so that neighbouring work items
hold neighbouring columns, or neighbouring pieces of as many columns as the target loads at once.
Where subgroups have a fixed size, the work items of one are near in rows too (docs/design/gpu.md).
A row of a STAGE is one piece longer than needed, so that work items that write down a column meet
different banks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

from ..ir.args import RangeKind
from ..ir.choices import take
from ..ir.loops import Split, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Reduce
from ..target import Fragment, MatrixUnit, Target, Workgroup, fragment, work_item_unit
from .choose_tile import Tile, choose
from .hoist_masks import hoist_masks
from .layout import Layout, Slices, copied, is_contiguous, lines_of
from .moves import Move, Moves
from .records import Loop, Reduction
from .tile_problem import TileProblem, operands_by_rows, recognise

__all__ = [
    "ShareTiles", "TileForWorkgroups", "TiledReduction", "extents", "place_in",
    "tile_workgroup_loops", "unit_loops",
]  # fmt: skip

BAND = 8  # tiles of rows


@dataclass(frozen=True)
class TileForWorkgroups(Move):
    """Workgroups compute tiles of results on one kind of unit. Then it is scheduled."""

    who: ClassVar[str]

    nest: int
    tile: Tile

    @classmethod
    def chosen(cls, nest: int, problem: TileProblem, target: Target) -> Self | None:
        """The move with the tile that suits the problem of a nest, if there is one."""
        unit = cls.unit_for(problem, target)
        tile = unit and choose(problem.sizes, unit, target)
        return None if tile is None else cls(nest, tile)

    @staticmethod
    def unit_for(problem: TileProblem, target: Target) -> MatrixUnit | None:
        """The unit of a target for a problem."""
        raise NotImplementedError

    def apply(self, moves: Moves) -> None:
        problem = recognise(moves.nest_of(self.nest))
        unit = problem and self.unit_for(problem, moves.target)
        if problem is None or unit is None or not self.tile.is_for(unit):
            what = f"no reduction that {self.who} compute in such tiles"
            raise ValueError(f"{self}: the nest is {what}")
        self.tile_for(moves, problem, unit)

    def tile_for(self, moves: Moves, problem: TileProblem, unit: MatrixUnit) -> None:
        """Tile the problem, and let the unit compute."""
        raise NotImplementedError


@dataclass(frozen=True)
class TiledReduction:
    """The reduction once it is cut, and its operands; `outer` is the loop over slices, if several.

    `row` and `column` say what became of rows and columns, `loops` what they are to the work items,
    and `batch` what became of the loops that both operands have.
    """

    reduce: Node
    x: Node
    y: Node
    row: Split
    column: Split
    slices: Slices
    outer: tuple[Node, ...]
    batch: dict[Node, Node]
    loops: UnitLoops

    def result(self, sums: Node, element: Node, *steps: Node) -> Node:
        """One `element` of a work item's sums, of `sums` over all slices and `steps` of one."""
        along, arg = (*self.outer, *steps), self.reduce.arg
        total = Node(Op.REDUCE, sums.dtype, (sums, *along), arg) if along else sums
        one = Node(Op.EXTRACT, sums.dtype.scalar, (total, element))
        return one.cast(self.reduce.dtype)


def tile_workgroup_loops(
    moves: Moves,
    problem: TileProblem,
    out: Fragment,
    tile: Tile,
    *kinds: RangeKind,
    bands: bool = True,
) -> TiledReduction:
    """Tile a problem's loops and put those of workgroups outermost, then those of work items.

    `out` says which work item has which results of a tile; the innermost loops of rows, and of
    columns, have such `kinds`. Workgroups go down the tiles of a band of rows, if they do so at
    all, before they go on to the next column of tiles: those that run at a time read fewer lines in
    all.
    """
    rows, columns = loop_size(*problem.rows), loop_size(*problem.columns)
    band = math.gcd(math.ceil(rows / out.shape[0]), BAND) if bands else 1
    row = moves.tiled(rows, (band, "grid"), *extents(out, 0, kinds[0]), outer="grid")
    column = moves.tiled(columns, *extents(out, 1, kinds[1]), outer="grid")
    batch = moves.copies(problem.batch, "grid")
    splits = {r: Split(new, (new,)) for r, new in batch.items()}
    inner, steps = moves.loop(tile.depth), loop_size(*problem.steps)
    outer = moves.tiled(-(-steps // tile.depth))
    position = simplify(outer.expr * tile.depth + inner)
    step = Split(position, (*outer.ranges, inner), simplify(position < steps))
    splits.update(moves.flatten(problem.rows, row))
    splits.update(moves.flatten(problem.columns, column))
    splits.update(moves.flatten(problem.steps, step))
    take("k_tiling")
    moves.replace_loops(splits)
    moves.root = hoist_masks(moves.root)
    nest, loops = moves.nest_with(*row.ranges, *column.ranges), unit_loops(row, column, out)
    last = [r for r in row.ranges if r.arg.kind == "grid"][-1:] if bands else []
    workgroups = [r for r in nest.loops if r.arg.kind == "grid" and r not in last]
    first = (*workgroups, *last, *loops.lane[::-1])
    moves.order_loops(nest, (*first, *(r for r in nest.loops if r not in first)))
    reduce = moves.reduce_of(Reduction(tuple(map(Loop.of, step.ranges))))
    x, y = operands_by_rows(reduce, row)
    slices = Slices(moves, inner, tile.depth, out.width, tile.buffers)
    return TiledReduction(reduce, x, y, row, column, slices, outer.ranges, batch, loops)


@dataclass(frozen=True)
class ShareTiles(TileForWorkgroups):
    """Workgroups compute tiles of results from shared memory. Then it is scheduled."""

    word = "shared_tiles"
    who = "work items"

    @staticmethod
    def unit_for(problem: TileProblem, target: Target) -> MatrixUnit | None:
        return target.workgroup and work_item_unit(target.workgroup, problem.dtype)

    def tile_for(self, moves: Moves, problem: TileProblem, unit: MatrixUnit) -> None:
        assert moves.target.workgroup is not None
        together, out = moves.target.workgroup.together, _results(self.tile, moves.target.workgroup)
        tiled = tile_workgroup_loops(
            moves, problem, out, self.tile, "unroll", "unroll", bands=False
        )
        new = {
            tiled.x: _staged(tiled.slices, tiled.x, tiled.row, together),
            tiled.y: _staged(tiled.slices, tiled.y, tiled.column, together),
        }
        reduce = Reduce.of(tiled.reduce)
        reduce = reduce._replace(value=reduce.value.substitute(new)).node()
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


def _staged(slices: Slices, operand: Node, line: Split, together: int) -> Node:
    """`operand` for a slice of steps and a tile of lines (rows or columns), in shared memory."""
    along_steps = is_contiguous(operand, slices.inner)
    pad = together if along_steps else 0
    layout = Layout(loop_size(*lines_of(line)), slices.depth, True, pad=pad)
    each = 1 if along_steps or slices.buffers == 1 else together
    return copied(slices, operand, line, layout, each, "steps" if along_steps else "lines").stage


# -- results of a unit as loops --------------------------------------------------------------------


def extents(
    out: Fragment, axis: int, innermost: RangeKind = "unroll"
) -> tuple[tuple[int, RangeKind], ...]:
    """The loops along an axis of a unit's results: (extent, kind), outermost first.

    For mma.sync's rows ((2, "unroll"), (8, "local")). The `innermost` of those of elements has
    that kind.
    """
    kinds, last = [], innermost
    for part in reversed(out.parts(axis)):
        kinds.append((part.extent, "local" if part.is_lane else last))
        last = last if part.is_lane else "unroll"
    return tuple(reversed(kinds))


class UnitLoops(NamedTuple):
    """The loops of rows and columns of a tile of units.

    `rows` and `columns` are those outside of a unit; `lane` are the digits of the lane's number in
    its results, from the lowest on, and `element` is the number of a work item's element.
    """

    rows: tuple[Node, ...]
    columns: tuple[Node, ...]
    lane: tuple[Node, ...]
    element: Node


def unit_loops(row: Split, column: Split, out: Fragment) -> UnitLoops:
    """What the loops of both mean, of which the innermost are those of `extents`."""
    outer, lane, element = [], {}, Node.index(0)
    for axis, split in enumerate((row, column)):
        loops, parts = [r for r in split.ranges if r.arg.kind != "grid"], out.parts(axis)
        inner = len(loops) - len(parts)
        outer.append(tuple(loops[:inner]))
        for loop, part in zip(loops[inner:], parts, strict=True):
            if part.is_lane:
                lane[part.weight] = loop
            else:
                element = element + loop * part.weight
    digits = tuple(lane[weight] for weight in sorted(lane))
    return UnitLoops(outer[0], outer[1], digits, simplify(element))


def place_in(held: Fragment, lane: tuple[Node, ...], number: Node) -> tuple[Node, Node]:
    """The row and the column of element `number` of a work item, by the digits of its lane."""
    place = [Node.index(0), Node.index(0)]
    values = [*lane]
    for digit in held.elements:
        values.append(number % digit.extent)
        number = number // digit.extent
    for digit, value in zip((*held.lanes, *held.elements), values, strict=True):
        if digit.axis is not None:
            place[digit.axis] = place[digit.axis] + value * digit.step
    return simplify(place[0]), simplify(place[1])
