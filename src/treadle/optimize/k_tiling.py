"""Products in workgroups: a tile of the output for each, slices of k one after the other.

    out[i, j] = sum over k of x[i, k] * y[k, j]
      ->  i and j as digits (workgroup, work item, element), k as outer * depth + inner

What each work item does with its slices is said in `shared_tiles` and `matrix_units`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

from ..ir.args import RangeKind
from ..ir.choices import take
from ..ir.loops import TRUE, Split, digits_of, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Load, Reduce
from ..target import Fragment, MatrixUnit, Target
from .choose_tile import Tile, choose
from .hoist_masks import hoist_masks
from .matmul_problem import MatmulProblem, factors_of, recognise
from .moves import Move, Moves
from .nest import stride
from .records import Loop, Reduction
from .unit_loops import UnitLoops, extents, unit_loops

__all__ = [
    "Pieces", "TileForWorkgroups", "TiledProduct", "fill_of", "filled_at", "is_contiguous",
    "lines_of", "pieces", "tile_product",
]  # fmt: skip


BAND = 8  # tiles of rows


@dataclass(frozen=True)
class TileForWorkgroups(Move):
    """Workgroups compute tiles of a product on one kind of unit. Then it is scheduled."""

    who: ClassVar[str]

    nest: int
    tile: Tile

    @classmethod
    def chosen(cls, nest: int, problem: MatmulProblem, target: Target) -> Self | None:
        """The move with the tile that suits the problem of a nest, if there is one."""
        unit = cls.unit_for(problem, target)
        tile = unit and choose(problem.product, unit, target)
        return None if tile is None else cls(nest, tile)

    @staticmethod
    def unit_for(problem: MatmulProblem, target: Target) -> MatrixUnit | None:
        """The unit of a target for a problem."""
        raise NotImplementedError

    def apply(self, moves: Moves) -> None:
        problem = recognise(moves.nest_of(self.nest))
        unit = problem and self.unit_for(problem, moves.target)
        if problem is None or unit is None or not self.tile.is_for(unit):
            what = f"no product that {self.who} compute in such tiles"
            raise ValueError(f"{self}: the nest is {what}")
        self.tile_for(moves, problem, unit)

    def tile_for(self, moves: Moves, problem: MatmulProblem, unit: MatrixUnit) -> None:
        """Tile the problem, and let the unit multiply."""
        raise NotImplementedError


@dataclass(frozen=True)
class TiledProduct:
    """The reduction once it is cut, and its factors; `outer` is None where one slice is all.

    `row` and `column` say what became of rows and columns, `loops` what they are to the work items,
    and `batch` what became of the loops that both factors have.
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


def tile_product(
    moves: Moves,
    problem: MatmulProblem,
    out: Fragment,
    depth: int,
    *kinds: RangeKind,
    bands: bool = True,
) -> TiledProduct:
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
    batch = {r: moves.loop(loop_size(r), "grid") for r in problem.batch}
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
    factors = factors_of(Reduce.of(reduce).value)
    assert factors is not None  # `recognise` saw the product, `hoist_masks` uncovered it
    x, y = factors
    if not ranges_of(x) & frozenset(row.ranges):
        x, y = y, x
    return TiledProduct(reduce, x, y, row, column, inner, outer, batch, loops)


class Pieces(NamedTuple):
    """What a work item copies: the piece of that `number`, if there is one, by `lane` of `each`."""

    number: Node
    lane: Node
    each: int
    gate: Node
    loops: tuple[Node, ...]

    def along(self, extent: int) -> tuple[Node, Node]:
        """The place along lines of such an extent that pieces are cut from, and which line."""
        count = extent // self.each
        return self.number % count * self.each + self.lane, self.number // count


def pieces(moves: Moves, work_items: int, count: int, each: int) -> Pieces:
    """So many pieces of `each` elements, copied by `work_items` in turns."""
    work_item = moves.loop(work_items, "local")
    lane = moves.loop(each, "vector") if each > 1 else Node.index(0)
    turns = -(-count // work_items)
    turn = moves.loop(turns, "unroll") if turns > 1 else Node.index(0)
    number = work_item if turns == 1 else turn * work_items + work_item
    gate = TRUE if turns * work_items == count else simplify(number < count)
    loops = tuple(r for r in (turn, work_item, lane) if r.op is Op.RANGE)
    return Pieces(number, lane, each, gate, loops)


def lines_of(line: Split) -> tuple[Node, ...]:
    """The loops of a tile's lines."""
    return tuple(r for r in line.ranges if r.arg.kind != "grid")


def filled_at(factor: Node, line: Split, inner: Node, place: Node, deep: Node) -> Node:
    """A factor at one line of a tile and one step of a slice."""
    mine = lines_of(line)
    split = {inner: deep, **dict(zip(mine, digits_of(place, mine), strict=True))}
    return factor.substitute({r: simplify(value) for r, value in split.items()})


def is_contiguous(factor: Node, loop: Node) -> bool:
    """Whether something that a factor is computed from is contiguous in a loop."""
    return any(n.op is Op.LOAD and stride(Load.of(n).index, loop) == 1 for n in factor.toposort())


def fill_of(value: Node, buffers: int) -> Literal["stores", "copies"]:
    """How a STAGE in so many buffers is filled: copies bring what memory holds, or 0."""
    if buffers < 2 or value.op is not Op.LOAD:
        return "stores"
    load = Load.of(value)
    return "copies" if load.memory.op is Op.PARAM and load.other.value == 0 else "stores"
