"""Tiles of a product, in one hierarchy for every target, and which one it has on a unit.

    unit      results that are computed at once: of a matrix unit, a vector, or one of a work item
    each      units that a worker has (a core, a work item, a subgroup, a warpgroup), in registers
    workers   of a workgroup, or the one core

    choose(Product(512, 512, 512), vector_unit(target, dtypes.float32), target)
        ->  Tile((1, 8), (4, 3), (1, 1))                              on a processor
    choose(Product(4096, 4096, 64), MMA["float16"], target)
        ->  Tile((16, 8), (4, 4), (2, 4), depth=32, buffers=2)        on matrix units

What a target is quick with is data: a `Tiling` lists levels, the best first, and says by which cost
one of them is taken, and how slices lie in shared memory (target/matrix.py). Blocks of attention
have a list of their own (attention_tiles.py): a row of scores stays in one subgroup.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..target import FEW_REGISTERS, Levels, MatrixUnit, Target, Tiling, Workgroup
from .records import Record

__all__ = ["Product", "Tile", "choose", "loads_of", "tiles_near", "workgroups_at_a_time"]

Pair = tuple[int, int]  # along rows and along columns
WORKGROUPS_AT_A_TIME = 2  # on one multiprocessor, if their memory is small enough
MOST, MOST_BUFFERS = 4, 4  # that a search tries


class Product(NamedTuple):
    """What is to be tiled: `batch` products of rows x steps by steps x columns.

    So many products `beside` each other have such a tile each, of the same rows; of all that are
    computed, so many `sums` are in registers in the end.
    """

    rows: int
    columns: int
    steps: int = 1
    batch: int = 1
    beside: int = 1
    sums: int = 1

    @property
    def work(self) -> int:
        """How many multiply-adds it takes."""
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

    def count(self, product: Product) -> int:
        """How many tiles a product has."""
        down, across = -(-product.rows // self.rows), -(-product.columns // self.columns)
        return product.batch * down * across

    def is_for(self, unit: MatrixUnit) -> bool:
        """Whether it is made of what a unit computes at once."""
        if unit.memory is None:
            return self.unit == (unit.rows, unit.columns)
        rows, columns = self.unit
        is_one = self.each == (1, 1) and self.workers[1] == 1
        return is_one and rows == unit.rows and columns <= unit.columns

    def with_each(self, axis: int, count: int) -> Tile:
        """The tile whose workers have `count` units along an axis."""
        rows, columns = self.each
        return replace(self, each=(count, columns) if axis == 0 else (rows, count))

    def slice_bytes(self, itemsize: int, padding: int) -> int:
        """What a slice takes of shared memory, with `padding` bytes behind each line of a step."""
        return self.depth * ((self.rows + self.columns) * itemsize + 2 * padding)


def choose(product: Product, unit: MatrixUnit, target: Target) -> Tile | None:
    """The tile that a product takes of a unit; None if it is too small, or slices are too large."""
    tiling = unit.tiling
    if tiling is None or min(product.rows, product.columns, product.steps) < tiling.least:
        return None
    cost = _COSTS[tiling.cost]
    tiles = [(_needed(product, levels, tiling), levels.speed) for levels in tiling.levels]
    tile, _ = min(tiles, key=lambda one: cost(product, *one, target))
    if not tiling.turns or target.workgroup is None:
        return tile
    return _sliced(product, tile, unit, tiling, target.workgroup)


def workgroups_at_a_time(nbytes: int, workgroup: Workgroup, reserved: int) -> int:
    """How many workgroups with so much shared memory are on a multiprocessor: two, one or none."""
    return min(WORKGROUPS_AT_A_TIME, workgroup.shared_bytes // (nbytes + reserved))


def tiles_near(tile: Tile) -> Iterator[Tile]:
    """Tiles of subgroups with half and twice as many rows, or columns, or slices in memory."""
    for axis in (0, 1):
        for count in _half_and_twice(tile.each[axis], MOST):
            yield tile.with_each(axis, count)
    for buffers in _half_and_twice(tile.buffers, MOST_BUFFERS):
        yield replace(tile, buffers=buffers)


def _half_and_twice(now: int, most: int) -> list[int]:
    return [count for count in (now // 2, now * 2) if 1 <= count <= most]


# -- levels ---------------------------------------------------------------------------------------


def _needed(product: Product, levels: Levels, tiling: Tiling) -> Tile:
    """The tile of these levels, without units of workers that the product has no use for."""
    (high, wide), (rows, columns), workers, _ = levels
    most = lambda size, wide: _most(size, wide, tiling.counts, tiling.fills)
    if tiling.counts:
        rows = min(rows, most(product.rows, high * workers[0]))
        columns = min(columns, most(product.columns, wide * workers[1]))
    return Tile(levels.unit, (rows, columns), workers)


def _most(size: int, wide: int, counts: tuple[int, ...], fills: bool) -> int:
    """Which of `counts` times `wide` is the least to reach `size`, or the most to be filled."""
    if fills:
        return counts[max(0, bisect_right(counts, size // wide) - 1)]
    return counts[min(len(counts) - 1, bisect_left(counts, -(-size // wide)))]


def _sliced(
    product: Product, tile: Tile, unit: MatrixUnit, tiling: Tiling, workgroup: Workgroup
) -> Tile | None:
    """The tile with the deepest slices that fit, and as many of them as are of use."""
    most = _most(product.steps, unit.steps, tiling.turns, tiling.fills)
    for turns in sorted((n for n in tiling.turns if n <= most), reverse=True):
        tile = replace(tile, depth=turns * unit.steps)
        nbytes = tile.slice_bytes(unit.dtype.itemsize, tiling.padding)
        if nbytes <= workgroup.shared_bytes:
            room = workgroup.shared_bytes // tiling.workgroups - tiling.reserved
            buffers = min(tiling.buffers, room // nbytes, -(-product.steps // tile.depth))
            return replace(tile, buffers=max(1, buffers))
    return None


# -- costs ----------------------------------------------------------------------------------------


def _missing(product: Product, tile: Tile, speed: float, target: Target) -> float:
    """How many workgroups are missing to keep all of the processor at work."""
    return max(0, _busy(target) - tile.count(product))


def _time(product: Product, tile: Tile, speed: float, target: Target) -> float:
    """How long all workgroups take, of which as many run at a time as keep the processor busy."""
    turns = math.ceil(tile.count(product) / _busy(target))
    return turns * tile.rows * tile.columns / speed


def _busy(target: Target) -> int:
    return 1 if target.workgroup is None else target.workgroup.busy


def loads_of(product: Product, tile: Tile, speed: float, target: Target) -> float:
    """How many instructions a product takes for each multiply-add, with padding."""
    rows, vectors = tile.each
    wide, passing = vectors * product.beside, 1 if target.has_fma else 2
    # One register for each accumulator, for each vector of y, for one element of x, and for the
    # product of both where that is not added by the same instruction.
    others = max(FEW_REGISTERS, wide + passing)
    if rows * vectors * product.sums > target.vector_registers - others:
        return math.inf
    computed = tile.count(product) * tile.rows * tile.columns
    waste = computed / (product.batch * product.rows * product.columns)
    # Each step loads `wide` registers and `rows` scalars for rows * wide FMAs. Panels of several
    # products are larger than the first-level cache. A scalar takes as long for half a vector.
    loads = (wide * min(product.beside, 2) + rows / speed) / (rows * wide)
    idle = max(1.0, 8 / (rows * wide))
    return round(waste * idle * (1 + loads), 9)


_COSTS: dict[str, Callable[[Product, Tile, float, Target], float]] = {
    "workgroups": _missing, "time": _time, "loads": loads_of,
}  # fmt: skip
