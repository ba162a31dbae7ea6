"""Results in workgroups: a tile of the output for each, slices of k one after the other.

    out[i, j] = reduction over k of f(x[i, k], y[k, j])
      ->  i and j as digits (workgroup, work item, element), k as outer * depth + inner

What each work item does with its slices is said in `shared_tiles` and `matrix_units`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from ..ir.args import RangeKind
from ..ir.choices import take
from ..ir.loops import TRUE, Split, loop_size
from ..ir.node import Node
from ..ir.rules.index import simplify
from ..target import Fragment, MatrixUnit, Target
from .choose_tile import Tile, choose
from .hoist_masks import hoist_masks
from .moves import Move, Moves
from .records import Loop, Reduction
from .tile_problem import TileProblem, operands_by_rows, recognise
from .unit_loops import UnitLoops, extents, unit_loops

__all__ = ["TileForWorkgroups", "TiledReduction", "tile_workgroup_loops"]


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
    """The reduction once it is cut, and its operands; `outer` is None where one slice is all.

    `row` and `column` say what became of rows and columns, `loops` what they are to the work items,
    and `batch` what became of the loops that both operands have.
    """

    reduce: Node
    x: Node
    y: Node
    row: Split
    column: Split
    inner: Node
    outer: Node | None
    batch: dict[Node, Node]
    loops: UnitLoops


def tile_workgroup_loops(
    moves: Moves,
    problem: TileProblem,
    out: Fragment,
    depth: int,
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
    steps = problem.steps
    batch = moves.copies(problem.batch, "grid")
    splits = {r: Split(new, (new,)) for r, new in batch.items()}
    inner = moves.loop(depth)
    total = loop_size(*steps)
    slices = -(-total // depth)
    outer = moves.loop(slices) if slices > 1 else None
    position = inner if outer is None else outer * depth + inner
    along = (inner,) if outer is None else (outer, inner)
    whole = slices * depth == total
    step = Split(simplify(position), along, TRUE if whole else simplify(position < total))
    splits.update(moves.flatten(problem.rows, row))
    splits.update(moves.flatten(problem.columns, column))
    splits.update(moves.flatten(steps, step))
    take("k_tiling")
    moves.replace_loops(splits)
    moves.root = hoist_masks(moves.root)
    made = {r for split in (row, column) for r in split.ranges}
    nest = next(n for n in moves.nests() if made & set(n.loops))
    loops = unit_loops(row, column, out)
    last = [r for r in row.ranges if r.arg.kind == "grid"][-1:] if bands else []
    workgroups = [r for r in nest.loops if r.arg.kind == "grid" and r not in last]
    first = (*workgroups, *last, *loops.lane[::-1])
    moves.order_loops(nest, (*first, *(r for r in nest.loops if r not in first)))
    reduce = moves.reduce_of(Reduction(tuple(map(Loop.of, along))))
    x, y = operands_by_rows(reduce, row)
    return TiledReduction(reduce, x, y, row, column, inner, outer, batch, loops)
