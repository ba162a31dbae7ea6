"""The tile of a product that a workgroup computes: one hierarchy, and which tile of it is taken.

    unit      results that are computed at once: of a matrix unit, or one result of an item
    each      units that a worker has (a subgroup, a warpgroup, an item), one by one in registers
    workers   of a workgroup

choose_for_unit(problem, unit, target)         ->  GroupTile, or None for too small a product
choose_for_items(problem, group, parameters)   ->  likewise for items without a unit

Why warpgroups have the tiles that they have is on the page docs/design/nvidia.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..ir.loops import loop_size
from ..target import MatrixUnit, SwizzledRows, Target, Workgroup
from .fragments import most_bytes
from .matmul_problem import MatmulProblem
from .parameters import Parameters
from .records import Record

__all__ = ["GroupTile", "choose_for_items", "choose_for_unit", "tiles_near"]

Pair = tuple[int, int]  # along rows and along columns

GROUPS_AT_A_TIME = 2  # on one multiprocessor
RESERVED = 1 << 10  # bytes of shared memory that each of them has besides

# Units of subgroups.
FEW = 16  # rows, columns and steps below which most of a unit's work would be for nothing
MOST = 4  # products along the rows, and along the columns, of one subgroup
SUBGROUPS = (2, 4)
MOST_BUFFERS = 4

# Units of warpgroups.
LEAST = 64  # rows, columns and steps, likewise
BUFFERS = 4  # slices in memory at a time: one is multiplied, three are on their way
# What tiles reach of the units' speed, estimated from what they read: (warpgroups, columns).
SPEEDS = {(2, 256): 1.0, (2, 128): 0.9, (2, 64): 0.6, (1, 128): 0.6, (1, 64): 0.4}

# Items.
SMALL = 4  # rows, and columns, of an item that are no more divided to make groups
DEPTH = 16  # steps of the reduction in a slice
MOST_BUFFERS_OF_ITEMS = 3


@dataclass(frozen=True)
class GroupTile(Record):
    """What a workgroup computes, in slices of `depth` steps, `buffers` of which are in memory."""

    word = "group_tile"

    unit: Pair
    each: Pair
    workers: Pair
    depth: int
    buffers: int = 1

    @property
    def rows(self) -> int:
        return self.unit[0] * self.each[0] * self.workers[0]

    @property
    def columns(self) -> int:
        return self.unit[1] * self.each[1] * self.workers[1]

    def groups(self, problem: MatmulProblem) -> int:
        """How many workgroups compute all of a product."""
        rows, columns, _ = _sizes(problem)
        tiles = math.ceil(rows / self.rows) * math.ceil(columns / self.columns)
        return loop_size(*problem.batch) * tiles

    def is_for(self, unit: MatrixUnit) -> bool:
        """Whether it is made of what a unit computes at once."""
        if unit.memory is None:
            return self.unit == (unit.rows, unit.columns)
        rows, columns = self.unit
        is_one = self.each == (1, 1) and self.workers[1] == 1
        return is_one and rows == unit.rows and columns <= unit.columns

    def with_each(self, axis: int, count: int) -> GroupTile:
        """The tile whose workers have `count` units along an axis."""
        rows, columns = self.each
        return replace(self, each=(count, columns) if axis == 0 else (rows, count))

    def halved(self, axis: int) -> GroupTile:
        """The tile whose workers have half as much along an axis."""
        return self.with_each(axis, self.each[axis] // 2)


def _sizes(problem: MatmulProblem) -> tuple[int, int, int]:
    rows, columns, steps = (
        loop_size(*loops) for loops in (problem.rows, problem.columns, problem.steps)
    )
    return rows, columns, steps


def choose_for_unit(problem: MatmulProblem, unit: MatrixUnit, target: Target) -> GroupTile | None:
    """The tile of a unit that a product takes, if it is large enough for one."""
    group = target.workgroup
    least = FEW if unit.memory is None else LEAST
    if group is None or min(_sizes(problem)) < least:
        return None
    if unit.memory is not None:
        return _quickest(problem, unit, unit.memory, group)
    return _largest(problem, unit, group)


def _largest(problem: MatmulProblem, unit: MatrixUnit, group: Workgroup) -> GroupTile:
    """The largest tile of subgroups of which the output has enough."""
    *sizes, steps = _sizes(problem)
    depth = 2 * unit.steps if steps > unit.steps else unit.steps
    tile = GroupTile((unit.rows, unit.columns), (MOST, MOST), SUBGROUPS, depth)
    for axis, size in enumerate(sizes):
        while tile.each[axis] > 1:
            extent = (tile.rows, tile.columns)[axis]
            if extent // 2 < size and tile.groups(problem) >= group.busy:
                break
            tile = tile.halved(axis)
    lines = (tile.rows, tile.columns)
    slice_bytes = sum(most_bytes(n, depth, unit.dtype.itemsize) for n in lines)
    room = group.shared_bytes // GROUPS_AT_A_TIME - RESERVED
    buffers = max(1, min(MOST_BUFFERS, room // slice_bytes))
    return replace(tile, buffers=min(buffers, math.ceil(steps / depth)))


def tiles_near(tile: GroupTile) -> Iterator[GroupTile]:
    """Tiles of subgroups with half and twice as many rows, or columns, or slices in memory."""
    for axis in (0, 1):
        for count in _half_and_twice(tile.each[axis], MOST):
            yield tile.with_each(axis, count)
    for buffers in _half_and_twice(tile.buffers, MOST_BUFFERS):
        yield replace(tile, buffers=buffers)


def _half_and_twice(now: int, most: int) -> list[int]:
    return [count for count in (now // 2, now * 2) if 1 <= count <= most]


def _quickest(
    problem: MatmulProblem, unit: MatrixUnit, memory: SwizzledRows, group: Workgroup
) -> GroupTile:
    """The tile of warpgroups with which the output should take the least time."""

    def cost(key: Pair) -> float:
        tile = tiles[key]
        turns = math.ceil(tile.groups(problem) / group.busy)
        return turns * tile.rows * tile.columns / SPEEDS[key]

    depth = memory.row // unit.dtype.itemsize
    tiles = {
        (warpgroups, columns): GroupTile((unit.rows, columns), (1, 1), (warpgroups, 1), depth)
        for warpgroups, columns in SPEEDS
    }
    tile = tiles[min(tiles, key=cost)]
    slice_bytes = (tile.rows + tile.columns) * memory.row
    buffers = min(BUFFERS, (group.shared_bytes - memory.row) // slice_bytes)
    return replace(tile, buffers=buffers)


def choose_for_items(
    problem: MatmulProblem, group: Workgroup, parameters: Parameters
) -> GroupTile | None:
    """The largest square-like tile that the output fills, often enough, and shared memory holds.

    So many rows and columns of an item, and steps of a slice, as `parameters` say, if they do.
    """
    tile = _tile_of_items(problem, group, parameters)
    steps = loop_size(*problem.steps)
    itemsize = problem.reduce.dtype.itemsize
    padding = 2 * group.together
    for _ in range(4):
        held = tile.depth * (tile.rows + tile.columns + padding) * itemsize
        if held <= group.shared_bytes:
            slices = math.ceil(steps / tile.depth) if group.copies_ahead else 1
            room = group.shared_bytes // GROUPS_AT_A_TIME // held
            buffers = max(1, min(slices, MOST_BUFFERS_OF_ITEMS, room))
            return replace(tile, buffers=buffers)
        tile = replace(tile, depth=max(1, tile.depth // 2))
    return None


def _tile_of_items(problem: MatmulProblem, group: Workgroup, parameters: Parameters) -> GroupTile:
    """The tile whose slices are as deep as they may be, if shared memory holds them."""
    *sizes, steps = _sizes(problem)
    items = min(group.items, 256)
    wide = 1 << ((items.bit_length() - 1 + 1) // 2)
    itemsize = problem.reduce.dtype.itemsize
    # Sixteen results of eight bytes take as many registers as thirty-two of four.
    each = min(group.tile, max(SMALL, group.tile * 4 // itemsize))
    depth = min(parameters.depth or DEPTH, 1 << (steps.bit_length() - 1))
    tile = GroupTile((1, 1), (each, each), (items // wide, wide), depth)
    if parameters.tile is not None:
        return replace(tile, each=parameters.tile)
    for axis, size in enumerate(sizes):
        while tile.each[axis] > 1 and (tile.rows, tile.columns)[axis] > size:
            tile = tile.halved(axis)
    while tile.groups(problem) < group.busy and max(tile.each) > SMALL:
        tile = tile.halved(0 if tile.each[0] > tile.each[1] else 1)
    return tile
