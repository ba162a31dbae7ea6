"""What every processor multiplies with: one multiply-add, of a vector or by a work item.

    vector_unit(parse_target("x86-64-v3"), dtypes.float32).columns    ->  8
    work_item_unit(parse_target("sm_75").workgroup, dtypes.float32).columns   ->  1

It is a unit like any other: one row by the columns of a vector, in one step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from treadle.target.matrix import Levels, MatrixUnit, Tiling

if TYPE_CHECKING:
    from treadle.dtype import DType
    from treadle.target.data import Target, Workgroup

__all__ = ["FEW_REGISTERS", "vector_unit", "work_item_unit"]

Pair = tuple[int, int]

MOST_ROWS, MOST_VECTORS = 16, 4
MOST_HALVES, SPEED_OF_HALVES = 6, 0.5  # vectors of half the lanes
FEW_REGISTERS = 4  # that hold no sums
ONE = (1, 1)

SMALL = 4  # rows, and columns, of a work item that are no more divided to make workgroups
MOST_WORK_ITEMS = 256
MOST_BUFFERS = 3


def vector_unit(target: Target, dtype: DType, each: Pair | None = None) -> MatrixUnit:
    """The vectors of a processor; a tile has `each` rows and vectors, if that is given."""
    lanes = min(max(2, target.vector_bytes // dtype.itemsize), target.max_lanes)
    registers = target.vector_registers - FEW_REGISTERS
    return _of_vectors(dtype, lanes, registers, target.halves_vectors, each)


@lru_cache
def _of_vectors(
    dtype: DType, lanes: int, registers: int, halves: bool, each: Pair | None
) -> MatrixUnit:
    levels = [Levels((1, lanes), one, ONE) for one in ([each] if each else _tiles_in(registers))]
    if halves and not each:
        narrow = _tiles_in(registers, MOST_HALVES)
        levels += [Levels((1, lanes // 2), one, ONE, SPEED_OF_HALVES) for one in narrow]
    return _unit(dtype, lanes, Tiling(tuple(levels), "loads", tuple(range(1, MOST_ROWS + 1))))


def _tiles_in(registers: int, most: int = MOST_VECTORS) -> list[Pair]:
    """Rows, and vectors up to `most`, that so many registers hold."""
    return [
        (rows, vectors)
        for vectors in range(1, most + 1)
        for rows in range(1, min(MOST_ROWS, registers // vectors) + 1)
    ]


def work_item_unit(workgroup: Workgroup, dtype: DType) -> MatrixUnit:
    """The work items of a workgroup."""
    work_items = min(workgroup.work_items, MOST_WORK_ITEMS)
    wide = 1 << work_items.bit_length() // 2
    # Sixteen results of eight bytes take as many registers as thirty-two of four.
    most = min(workgroup.tile, max(SMALL, workgroup.tile * 4 // dtype.itemsize))
    several = [workgroup.each] if workgroup.each else _halved(most)
    tiling = Tiling(
        tuple(Levels(ONE, one, (work_items // wide, wide)) for one in several), "workgroups",
        counts=() if workgroup.each else _powers(most), fills=True, turns=_powers(workgroup.depth),
        padding=workgroup.together * dtype.itemsize,
        buffers=MOST_BUFFERS if workgroup.copies_ahead else 1,
    )  # fmt: skip
    return _unit(dtype, 1, tiling)


def _unit(dtype: DType, columns: int, tiling: Tiling) -> MatrixUnit:
    return MatrixUnit(dtype.name, "fma", dtype, dtype, 1, columns, 1, tiling=tiling)


def _halved(most: int) -> list[Pair]:
    """Squares of results and halves of them."""
    found = [(most, most)]
    while found[-1][0] > SMALL:
        rows, columns = found[-1]
        found += [(rows, columns // 2), (rows // 2, columns // 2)]
    return found


def _powers(most: int) -> tuple[int, ...]:
    return tuple(1 << n for n in range(most.bit_length()))
