"""Tiles of results, in one hierarchy for every target, and which one is taken of a unit.

    unit      results that are computed at once: of a matrix unit, a vector, or one of a work item
    each      units that a worker has (a core, a work item, a subgroup, a warpgroup), in registers
    workers   of a workgroup, or the one core

    choose(Sizes(512, 512, 512), vector_unit(target, dtypes.float32), target)
        ->  Tile((1, 8), (4, 3), (1, 1))                              on a processor
    choose(Sizes(4096, 4096, 64), MMA["float16"], target)
        ->  Tile((16, 8), (4, 4), (2, 4), depth=32, buffers=2)        on matrix units

What a target is quick with is data: a `Tiling` lists levels, the best first, and says by which cost
one of them is taken, and how slices lie in shared memory (target/matrix.py). Blocks of attention
have a list of their own (carried_rows.py): a row of scores stays in one subgroup.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..target import (
    CACHE_LINE,
    CACHE_SHARE,
    FEW_REGISTERS,
    PAGE,
    PAGES,
    Levels,
    MatrixUnit,
    Target,
    Tiling,
    Workgroup,
)
from .records import Record

__all__ = ["Sizes", "Tile", "choose", "first_fitting", "loads_of", "tiles_near"]

Pair = tuple[int, int]  # along rows and along columns
WORKGROUPS_AT_A_TIME = 2  # on one multiprocessor, if their memory is small enough
MOST, MOST_BUFFERS = 4, 4  # that a search tries
MANY_REGISTERS, SPARE = 32, 2  # of so many, these stay free: compilers moved accumulators


class Sizes(NamedTuple):
    """What is to be tiled: `batch` times rows x columns results, each combined of `steps` values.

    So many reductions `beside` each other have such a tile each, of the same rows; of all that are
    computed, so many `sums` are in registers in the end. What is made of both operands in a step
    takes so many `passing` registers, none where that is a product, which FMA adds. Results that
    lie along rows are turned in registers before they are stored.
    """

    rows: int
    columns: int
    steps: int = 1
    batch: int = 1
    beside: int = 1
    sums: int = 1
    passing: int = 0
    is_turned: bool = False

    @property
    def work(self) -> int:
        """How many values are combined."""
        return self.batch * self.rows * self.columns * self.steps


@dataclass(frozen=True)
class Tile(Record):
    """What is computed together, in slices of `depth` steps, `buffers` of which are in memory.

    Without slices, `depth` is 0.
    """

    word = "tile"

    unit: Pair
    each: Pair
    workers: Pair
    depth: int = 0
    buffers: int = 1

    @property
    def rows(self) -> int:
        return self.unit[0] * self.each[0] * self.workers[0]

    @property
    def columns(self) -> int:
        return self.unit[1] * self.each[1] * self.workers[1]

    def count(self, sizes: Sizes) -> int:
        """How many tiles there are."""
        down, across = -(-sizes.rows // self.rows), -(-sizes.columns // self.columns)
        return sizes.batch * down * across

    def is_for(self, unit: MatrixUnit) -> bool:
        """Whether it is made of what a unit computes at once."""
        if unit.memory is None:
            return self.unit == (unit.rows, unit.columns)
        rows, columns = self.unit
        is_one = self.each == (1, 1) and self.workers[1] == 1
        return is_one and rows == unit.rows and columns <= unit.columns

    def slice_bytes(self, itemsize: int, padding: int) -> int:
        """What a slice takes of shared memory, with `padding` bytes behind each line of a step."""
        return self.depth * ((self.rows + self.columns) * itemsize + 2 * padding)


def choose(sizes: Sizes, unit: MatrixUnit, target: Target) -> Tile | None:
    """The tile of a unit for such sizes; None if they are too small, or slices are too large."""
    tiling = unit.tiling
    if tiling is None or min(sizes.rows, sizes.columns, sizes.steps) < tiling.least:
        return None
    cost = _COSTS[tiling.cost]
    tiles = [(_needed(sizes, levels, tiling), levels.speed) for levels in tiling.levels]
    tile, _ = min(tiles, key=lambda one: cost(sizes, *one, target))
    if not tiling.turns or target.workgroup is None:
        return tile
    return _sliced(sizes, tile, unit, tiling, target.workgroup)


def workgroups_at_a_time(nbytes: int, workgroup: Workgroup, reserved: int) -> int:
    """How many workgroups with so much shared memory are on a multiprocessor: two, one or none."""
    return min(WORKGROUPS_AT_A_TIME, workgroup.shared_bytes // (nbytes + reserved))


def first_fitting(
    tiles: list[Tile], smaller: list[Tile], rows: int, nbytes: Callable[[Tile], int],
    workgroup: Workgroup, reserved: int,
) -> Tile:  # fmt: skip
    """The first of `tiles` of which two workgroups fit, else one, else the first `smaller` one.

    They use so many bytes each. Where all of them have few `rows`, tiles have the fewest.
    """
    fitting = lambda tile: workgroups_at_a_time(nbytes(tile), workgroup, reserved)
    if rows < tiles[0].rows * workgroup.busy:
        tiles = [tile for tile in tiles if tile.rows == tiles[-1].rows]
    return next(filter(fitting, (max(tiles, key=fitting), *smaller)))


def tiles_near(tile: Tile) -> Iterator[Tile]:
    """Tiles of subgroups with half and twice as many rows, or columns, or slices in memory."""
    rows, columns = tile.each
    for count in _half_and_twice(rows, MOST):
        yield replace(tile, each=(count, columns))
    for count in _half_and_twice(columns, MOST):
        yield replace(tile, each=(rows, count))
    for buffers in _half_and_twice(tile.buffers, MOST_BUFFERS):
        yield replace(tile, buffers=buffers)


def _half_and_twice(now: int, most: int) -> list[int]:
    return [count for count in (now // 2, now * 2) if 1 <= count <= most]


# -- levels ---------------------------------------------------------------------------------------


def _needed(sizes: Sizes, levels: Levels, tiling: Tiling) -> Tile:
    """The tile of these levels, without units of workers that such sizes have no use for."""
    (high, wide), (rows, columns), workers, _ = levels
    most = lambda size, wide: _most(size, wide, tiling.counts, tiling.fills)
    if tiling.counts:
        rows = min(rows, most(sizes.rows, high * workers[0]))
        columns = min(columns, most(sizes.columns, wide * workers[1]))
    return Tile(levels.unit, (rows, columns), workers)


def _most(size: int, wide: int, counts: tuple[int, ...], fills: bool) -> int:
    """Which of `counts` times `wide` is the least to reach `size`, or the most to be filled."""
    if fills:
        return counts[max(0, bisect_right(counts, size // wide) - 1)]
    return counts[min(len(counts) - 1, bisect_left(counts, -(-size // wide)))]


def _sliced(
    sizes: Sizes, tile: Tile, unit: MatrixUnit, tiling: Tiling, workgroup: Workgroup
) -> Tile | None:
    """The tile with the deepest slices that fit, and as many of them as are of use."""
    most = _most(sizes.steps, unit.steps, tiling.turns, tiling.fills)
    for turns in sorted((n for n in tiling.turns if n <= most), reverse=True):
        tile = replace(tile, depth=turns * unit.steps)
        nbytes = tile.slice_bytes(unit.dtype.itemsize, tiling.padding)
        if nbytes <= workgroup.shared_bytes:
            room = workgroup.shared_bytes // tiling.workgroups - tiling.reserved
            buffers = min(tiling.buffers, room // nbytes, -(-sizes.steps // tile.depth))
            return replace(tile, buffers=max(1, buffers))
    return None


# -- costs ----------------------------------------------------------------------------------------


def _missing(sizes: Sizes, tile: Tile, speed: float, target: Target) -> float:
    """How many workgroups are missing to keep all of the processor at work."""
    return max(0, _busy(target) - tile.count(sizes))


def _time(sizes: Sizes, tile: Tile, speed: float, target: Target) -> float:
    """How long all workgroups take, of which as many run at a time as keep the processor busy."""
    turns = math.ceil(tile.count(sizes) / _busy(target))
    return turns * tile.rows * tile.columns / speed


def _busy(target: Target) -> int:
    return 1 if target.workgroup is None else target.workgroup.busy


def loads_of(sizes: Sizes, tile: Tile, speed: float, target: Target) -> float:
    """What each step of a result takes, in multiply-adds, with padding."""
    rows, vectors = tile.each
    wide = vectors * sizes.beside
    # One register for each accumulator, for each vector of y, for one element of x, and those for
    # what is made of both: a product has one where the same instruction does not add it.
    passing = max(sizes.passing, 0 if target.has_fma else 1)
    others = max(FEW_REGISTERS, wide + 1 + passing)
    others += SPARE if target.vector_registers >= MANY_REGISTERS else 0
    if rows * vectors * sizes.sums > target.vector_registers - others:
        return math.inf
    computed = tile.count(sizes) * tile.rows * tile.columns
    waste = computed / (sizes.batch * sizes.rows * sizes.columns)
    # Each step loads `wide` registers and `rows` scalars for rows * wide FMAs. Panels of several
    # products are larger than the first-level cache. A scalar takes as long for half a vector.
    loads = (wide * min(sizes.beside, 2) + rows / speed) / (rows * wide)
    # A panel that the first-level cache does not hold comes into it again for each tile, x always.
    nbytes = speed * target.vector_bytes
    itemsize = nbytes / tile.unit[1]
    is_far = wide * nbytes * sizes.steps > CACHE_SHARE * target.l1
    lines = (is_far * wide * nbytes + rows * itemsize) / CACHE_LINE / (rows * wide * speed)
    # Long rows of results are pages of their own. Of many, each is looked up again for each panel.
    is_apart = sizes.columns * itemsize >= PAGE and sizes.rows >= PAGES
    pages = 1 / (wide * sizes.steps) if is_apart else 0
    # Each column of a turned tile is stored by itself, in pieces of 1, 2, 4 ... rows.
    turned = sizes.is_turned * tile.unit[1] * rows.bit_count() / (rows * sizes.steps)
    costs, idle = target.costs, max(1.0, 8 / (rows * wide))
    beside = costs.accesses * loads + costs.into_l1 * lines + costs.pages * pages
    beside += costs.apart * turned
    return round(waste * idle * (1 + beside / costs.arithmetic), 9)


_COSTS: dict[str, Callable[[Sizes, Tile, float, Target], float]] = {
    "workgroups": _missing, "time": _time, "loads": loads_of,
}  # fmt: skip
