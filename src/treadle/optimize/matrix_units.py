"""Matmul-like nests on matrix units: subgroups that multiply small matrices.

    out[i, j] = sum over k of x[i, k] * y[k, j],  x and y of one narrow type (or tf32, see below)

A workgroup computes a tile of the output, each of its subgroups some rows and columns of that, as
products of 16 rows by 8 columns over 32 bytes of k. What each work item of a subgroup holds, words
of 32 bits of both factors and sums of the output, is said by the unit's maps (target/matrix.py). An
MMA has these words as sources and gives the sums of one product; a REDUCE over the slices adds them
up, and EXTRACT takes one.

A slice of a factor lies in a STAGE, pieces of 16 bytes as they are copied (layout.py):

    [line][k]                          if it is contiguous along k in memory, or of one byte
    [panel][k][line of the panel]      if along lines; FRAGMENTs turn elements of two bytes
    [k][line], lines padded            likewise for four bytes, of which single ones are read

Where no instruction turns elements of two bytes they are in lines along k, too, and work items read
their words themselves, up to four at a time. The first two are swizzled: what a subgroup copies or
reads at a time is in different banks everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..dtype import DType, dtypes
from ..ir.conditions import parts
from ..ir.loops import Split, loop_size, number_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import operand
from ..target import LINE_PADDING, Fragment, MatrixLoad, MatrixUnit, Target
from .choose_tile import Tile, tiles_near
from .hoist_masks import masked
from .layout import Layout, Slices, StagedSlice, copied, is_contiguous, lines_of
from .moves import Moves
from .shared_tiles import (
    TiledReduction,
    TileForWorkgroups,
    place_in,
    tile_workgroup_loops,
    unit_loops,
)
from .tile_problem import TileProblem

__all__ = [
    "FragmentOperand", "TileForUnits", "narrow_factors", "narrowed", "staged", "unit_for",
]  # fmt: skip

PIECE = 16  # bytes that are copied at a time
WIDEST_LINE = 128  # bytes of a STAGE that are swizzled together
WORD = 4


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
        kind = "vector" if out.neighbours > 1 else "unroll"
        tiled = tile_workgroup_loops(moves, problem, whole, self.tile, "unroll", kind)
        total = _product(moves, tiled, unit, self.tile)
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


def _product(moves: Moves, tiled: TiledReduction, unit: MatrixUnit, tile: Tile) -> Node:
    """One result of the work item, of those that its products have."""
    of_x, of_y, out = unit.held
    loops = unit_loops(tiled.row, tiled.column, out)
    step = moves.loop(tile.depth // unit.steps)
    x, y = (staged(tiled.slices, *each, unit.load) for each in narrow_factors(tiled, unit))
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
    return tiled.result(sums, loops.element, step)


# -- words of factors ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FragmentOperand(StagedSlice):
    """A slice that work items read words of."""

    load: MatrixLoad | None

    def words(
        self,
        held: Fragment,
        lane: tuple[Node, ...],
        line: Node,
        deep: Node,
        again: tuple[Node, ...] = (),
    ) -> Callable[[Node], Node]:
        """The words of one work item by number, which `held` says of lines and words of k.

        `lane` are the digits of its number in the subgroup, the lowest first. The matrix begins at
        a `line` and at the element `deep` of k. In each step of the loops `again` words are read
        anew, even if they are the same.
        """
        each = WORD // self.stage.dtype.itemsize

        def read(place: tuple[Node, Node], more: Node | int = 0, deeper: Node | int = 0) -> Node:
            return self.read(line + place[0] + more, deep + place[1] * each + deeper)

        if not self.layout.is_swizzled:
            return lambda number: read(place_in(held, lane, number)).bitcast(dtypes.uint32)
        if self.load is None:
            run = min(held.neighbours, PIECE // WORD)  # of which so many are read at once

            def own_words(number: Node) -> Node:
                start = read(place_in(held, lane, simplify(number // run * run)))
                words = Node(Op.FRAGMENT, dtypes.uint32.vec(run), (start,), "own")
                own = simplify(number % run)
                return words if run == 1 else Node(Op.EXTRACT, dtypes.uint32, (words, own))

            return own_words
        assert self.load.gives(held)
        work_item = number_of(lane[::-1])
        # The matrix of which this work item names a line, and which line.
        named = simplify(work_item // self.load.lines)
        own = simplify(work_item % self.load.lines)
        first = place_in(held, (Node.index(0),) * len(held.lanes), named)
        turned = self.layout.of_lines
        start = read(first, deeper=own) if turned else read(first, own)
        start = Node(Op.AFTER, start.dtype, (start, *again)) if again else start
        words = dtypes.uint32.vec(held.count)
        fragment = Node(Op.FRAGMENT, words, (start,), turned or None)
        return lambda number: Node(Op.EXTRACT, dtypes.uint32, (fragment, simplify(number)))


def staged(slices: Slices, factor: Node, line: Split, load: MatrixLoad | None) -> FragmentOperand:
    """`factor` for one slice and one tile of lines; words are read by `load`, if there is one.

    Each work item copies whole pieces along what is contiguous in memory: k, or neighbouring lines.
    """
    lines, width = loop_size(*lines_of(line)), factor.dtype.itemsize
    is_along = is_contiguous(factor, slices.inner)
    layout = _layout(lines, slices.depth, width, is_along, load is not None)
    order = "steps" if is_along else "lines"
    made = copied(slices, factor, line, layout, PIECE // width, order)
    return FragmentOperand(made.stage, layout, load)


def _layout(lines: int, depth: int, width: int, is_along: bool, turns: bool) -> Layout:
    """How a slice lies of elements of so many bytes, which is contiguous in memory along k or not.

    `turns`: an instruction transposes elements of two bytes as it reads them.
    """
    if is_along or width == 1 or (width == 2 and not turns):
        return Layout(lines, depth, is_swizzled=True)
    if width > 2:
        return Layout(lines, depth, True, pad=LINE_PADDING // width)
    return Layout(lines, depth, True, min(lines, WIDEST_LINE // width), is_swizzled=True)
