"""Places in sorted lines, and sums of what falls into each bin.

searchsorted(line, values, behind=False)   [1, 4, 9] and [4, 5] -> [1, 2]
bin_sums(places, 3, weights)               [0, 2, 0] and [1, 1, 1] -> [2, 0, 1]
"""

from __future__ import annotations

from typing import TypeVar

from ..dtype import dtypes
from ..errors import ShapeError
from ..ir.op import Op
from .basis import Basis
from .operands import check_device

__all__ = ["bin_sums", "insertion_places", "searchsorted"]

T = TypeVar("T", bound=Basis)


def searchsorted(line: T, values: T, behind: bool) -> T:
    """Where `values` would be inserted into an ascending line, or each into a line of its own.

    int32 in the shape of `values`; `behind` equal elements, or before them. NaN counts as larger
    than any number. Raises ShapeError, DeviceError.
    """
    check_device("searchsorted", line, values)
    if not line.ndim or (line.ndim > 1 and line.shape[:-1] != values.shape[:-1]):
        raise ShapeError(
            f"[searchsorted] {line.shape} holds no sorted line for each of the values of "
            f"shape {values.shape}: all axes but the last must be equal, or it has one axis"
        )
    return insertion_places(line, values, behind)


def insertion_places(line: T, values: T, behind: bool) -> T:
    """`searchsorted` of shapes that fit.

    A binary search for all values at once: one step for each bit of the line's size.
    """
    size = line.shape[-1]
    found = values._filled(0).cast(dtypes.int32).expand(values.shape)
    step = 1 << max(size.bit_length() - 1, 0)
    while step and size:
        probe = found.add(step)
        inside = probe.le(size)
        place = inside.where(probe.sub(1), 0)
        seen = line._pick(line.ndim - 1, place, along=line.ndim > 1)
        before = seen.le(values) if behind else seen.lt(values)
        if values.dtype.is_float:
            larger = (
                values.isnan() if behind else values.isnan().bitwise_and(seen.isnan().logical_not())
            )
            before = before.bitwise_or(larger)
        found = inside.bitwise_and(before).where(probe, found)
        step >>= 1
    return found


def bin_sums(places: T, bins: int, weights: T) -> T:
    """The sum of the weights in each of `bins`; a vector says which. Others are dropped."""
    empty = weights._filled(0).expand((bins,))
    if not bins or not len(places):
        return empty
    wide = places if places.dtype.itemsize >= 4 else places.int()
    return empty._put(0, wide, weights, Op.ADD)
