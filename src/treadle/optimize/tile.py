"""Tiles of a product: one hierarchy for processors' registers, work items, and matrix units.

    unit      results that are computed at once: of a matrix unit, a vector, or one of an item
    each      units that a worker has (a core, an item, a subgroup, a warpgroup), in registers
    workers   of a workgroup, or the one core

    Tile((1, 8), (6, 2), (1, 1))                   6 rows by 2 vectors of 8 columns
    Tile((16, 8), (4, 4), (2, 4), depth=32)        128 x 128 results by eight subgroups

Which tile a product has is decided in choose_tile.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..target import MatrixUnit
from .records import Record

__all__ = ["Product", "Tile", "tiles_near"]

Pair = tuple[int, int]  # along rows and along columns

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
        """How many tiles a product has: workgroups, or turns of a processor's cores."""
        across, down = -(-product.rows // self.rows), -(-product.columns // self.columns)
        return product.batch * across * down

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


def tiles_near(tile: Tile) -> Iterator[Tile]:
    """Tiles of subgroups with half and twice as many rows, or columns, or slices in memory."""
    for axis in (0, 1):
        for count in _half_and_twice(tile.each[axis], MOST):
            yield tile.with_each(axis, count)
    for buffers in _half_and_twice(tile.buffers, MOST_BUFFERS):
        yield replace(tile, buffers=buffers)


def _half_and_twice(now: int, most: int) -> list[int]:
    return [count for count in (now // 2, now * 2) if 1 <= count <= most]
