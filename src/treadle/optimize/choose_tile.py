"""Which tile a product has on a unit: of those that the unit's data lists, one that costs least.

    choose(Product(512, 512, 512), vector_unit(target, dtypes.float32), target)
        ->  Tile((1, 8), (6, 2), (1, 1))                              on a processor
    choose(Product(4096, 4096, 64), MMA["float16"], target)
        ->  Tile((16, 8), (4, 4), (2, 4), depth=32, buffers=2)        on matrix units

A processor's vectors, work items, subgroups and warpgroups go the same way. What a target is quick
with is data: a `Tiling` lists tiles, the best first, and says by which cost one is taken, and how
slices lie in shared memory (target/matrix.py). Blocks of attention have lists of their own
(attention_tiles.py): two products share their registers and memory.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace

from ..target import FEW_REGISTERS, Levels, MatrixUnit, Target, Tiling, Workgroup
from .tile import Product, Tile

__all__ = ["choose", "groups_at_a_time"]

GROUPS_AT_A_TIME = 2  # on one multiprocessor, if their memory is small enough


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


def groups_at_a_time(nbytes: int, group: Workgroup, reserved: int) -> int:
    """How many workgroups with so much shared memory are on a multiprocessor: two, one or none."""
    return min(GROUPS_AT_A_TIME, group.shared_bytes // (nbytes + reserved))


# -- levels ---------------------------------------------------------------------------------------


def _needed(product: Product, levels: Levels, tiling: Tiling) -> Tile:
    """The tile of these levels, without units of workers that the product has no use for."""
    (high, wide), (rows, columns), workers, _ = levels
    if tiling.counts:
        rows = min(rows, _most(product.rows, high * workers[0], tiling.counts, tiling.fills))
        columns = min(
            columns, _most(product.columns, wide * workers[1], tiling.counts, tiling.fills)
        )
    return Tile(levels.unit, (rows, columns), workers)


def _most(size: int, wide: int, counts: tuple[int, ...], fills: bool) -> int:
    """Which of `counts` times `wide` is the least to reach `size`, or the most to be filled."""
    if fills:
        return counts[max(0, bisect_right(counts, size // wide) - 1)]
    return counts[min(len(counts) - 1, bisect_left(counts, -(-size // wide)))]


def _sliced(
    product: Product, tile: Tile, unit: MatrixUnit, tiling: Tiling, group: Workgroup
) -> Tile | None:
    """The tile with the deepest slices that fit, and as many of them as are of use."""
    most = _most(product.steps, unit.steps, tiling.turns, tiling.fills)
    for turns in sorted((n for n in tiling.turns if n <= most), reverse=True):
        tile = replace(tile, depth=turns * unit.steps)
        nbytes = tile.slice_bytes(unit.dtype.itemsize, tiling.padding)
        if nbytes <= group.shared_bytes:
            room = group.shared_bytes // tiling.groups - tiling.reserved
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


def _loads(product: Product, tile: Tile, speed: float, target: Target) -> float:
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
    # products are larger than the first-level cache.
    loads = (wide * min(product.beside, 2) + rows) / (rows * wide)
    idle = max(1.0, 8 / (rows * wide))
    return round(waste * idle * (1 + loads), 9)


_COSTS: dict[str, Callable[[Product, Tile, float, Target], float]] = {
    "groups": _missing, "time": _time, "loads": _loads,
}  # fmt: skip
