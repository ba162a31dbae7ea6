"""Values in float64, each with how far a result that is computed in fewer bits may be from it.

    x = exact(np.array([1.0, 2.0]))                           what memory holds: no error
    y = elementwise(Op.MUL, dtypes.float32, types, [x, x])    [1, 4], within 2 ** -23 of each
    total(ReduceArg(Op.ADD), dtypes.float32, y)               5, within the errors of the terms too

An operation rounds by `ROUNDINGS[op]` units in the last place of its result, a sum by so many of
the sum of its terms' magnitudes. What is wrong in an operand is passed on as far as the result
moves with it: integers, comparisons and choices are exact where that does not change them, and
not known (an error of infinity) where it does, but for the bits of floats: see rounding_bits.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..dtype import DType, dtypes
from .elementwise import ELEMENTWISE, cast_array, numpy_dtype
from .op import TRANSCENDENTAL, Op
from .rounding_bits import distance, ends, extreme, stays_between

__all__ = ["ROUNDINGS", "Value", "elementwise", "epsilon", "exact", "recurrence", "total", "totals"]

Array = np.ndarray

# How many units in the last place (the distance from 1 to the next number, times the result) an
# operation may be off; for ADD and MUL in a REDUCE, SCAN or SCATTER see SUMMED.
ROUNDINGS: dict[Op, float] = {
    Op.ADD: 1, Op.SUB: 1, Op.MUL: 1, Op.FMA: 1, Op.CAST: 1,
    Op.FDIV: 3, Op.RECIP: 3, Op.SQRT: 3, Op.MOD: 4,
    **dict.fromkeys(TRANSCENDENTAL, 4), Op.TAN: 6, Op.TANH: 6,
    Op.ASINH: 6, Op.ACOSH: 6, Op.ATANH: 6, Op.ERF: 6, Op.ERFC: 16, Op.ERFINV: 8, Op.POW: 16,
}  # fmt: skip

# Units in the last place of the sum of |terms|. A register adds up to 160 terms one after the other
# on every device (see lower/summation), a walk of roundings; terms alike round alike, so that it
# is no walk. A bound for a row of thousands would hide that one of them is left out.
SUMMED: dict[Op, float] = {Op.ADD: 16, Op.MUL: 16}

# Operations that an operand moves by what the others are: that of two, each off, may be off by more
# than what each is answerable for, such as the square of what should be 0.
_TOGETHER = frozenset((Op.MUL, Op.FMA, Op.FDIV, Op.POW))


class Value(NamedTuple):
    """Elements, floats as float64, and how far a right result may be off; None: not at all."""

    value: Array
    error: Array | None = None


def exact(array: Array) -> Value:
    """What memory holds: floats of any width as float64."""
    if array.dtype.kind in "biu":
        return Value(array)
    with np.errstate(invalid="ignore"):  # of signalling NaNs, in memory that nobody has filled
        return Value(array.astype(np.float64))


@functools.cache
def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    one = np.array(1, numpy_dtype(dtype))
    bits = (one.view(f"u{one.itemsize}") + 1).astype(f"u{one.itemsize}")
    return float(bits.view(one.dtype)) - 1


@functools.cache
def _range(dtype: DType) -> tuple[float, float]:
    """The smallest normal number, below which there may be zeros, and the largest one."""
    import ml_dtypes

    info = ml_dtypes.finfo(numpy_dtype(dtype))
    return float(info.smallest_normal), float(info.max)


def elementwise(
    op: Op, dtype: DType, types: Sequence[DType], sources: Sequence[Value], roundings: float = 0
) -> Value:
    """`op` on values of element types `types`, as elements of `dtype`.

    `roundings`: at least so many units in the last place.
    """
    with np.errstate(all="ignore"):
        arrays = [source.value for source in sources]
        known = all(source.error is None for source in sources)
        value = _apply(op, dtype, types, arrays, known)
        error: Array | float = 0.0
        for number, source in enumerate(sources):
            if source.error is not None:
                moved = _moved(source, types[number])
                change = functools.reduce(
                    np.maximum, (_change(op, dtype, types, arrays, number, m, value) for m in moved)
                )
                if dtype.kind != "float" and types[number].kind != "bool":
                    steady, off = _of_bits(op, dtype, types, arrays, number, source.error, value)
                    change = np.where(steady, off, change)
                error = error + change
        if op in _TOGETHER and sum(source.error is not None for source in sources) > 1:
            error = np.maximum(error, _moved_together(op, dtype, types, sources, value))
        if dtype.kind != "float":
            return Value(value, None if known else np.asarray(error))
        count = max(ROUNDINGS.get(op, 0), roundings if op in ROUNDINGS else 0)
        if count and not (op is Op.CAST and known):
            error = error + _rounded(value, dtype, count)
        elif known:
            return Value(value)
        return _in_range(value, np.asarray(error), dtype)


def _apply(
    op: Op, dtype: DType, types: Sequence[DType], arrays: Sequence[Array], known: bool
) -> Array:
    if op is Op.CAST:
        return _cast(arrays[0], types[0], dtype, known)
    if op is Op.BITCAST:
        source = np.ascontiguousarray(arrays[0].astype(numpy_dtype(types[0])))
        found = source.view(numpy_dtype(dtype)).reshape(source.shape)
        return found.astype(np.float64) if dtype.kind == "float" else found
    result = np.asarray(ELEMENTWISE[op](*arrays))
    return result.astype(_held(dtype), copy=False)


def _held(dtype: DType) -> np.dtype:
    """The type of an array of elements of `dtype`."""
    return np.dtype(np.float64) if dtype.kind == "float" else numpy_dtype(dtype)


def _cast(array: Array, source: DType, dtype: DType, known: bool) -> Array:
    if dtype.kind == "float" and source.kind == "float" and not known:
        return array  # how it rounds is part of the error
    if source.kind == "float" and known and source.bits < 64:
        array = array.astype(numpy_dtype(source))
    return cast_array(array, dtype).astype(_held(dtype), copy=False)


def _moved(source: Value, dtype: DType) -> list[Array]:
    """What else an operand may be, within its error."""
    assert source.error is not None  # whoever asks has looked
    value, error = np.broadcast_arrays(source.value, source.error)
    if dtype.kind == "float":
        return [value + error, value - error]
    if dtype.kind == "bool":
        return [np.where(error > 0, ~value, value)]
    return [np.where(error > 0, ~value, value), np.where(error > 0, value + 1, value)]


def _change(
    op: Op, dtype: DType, types: Sequence[DType], arrays: Sequence[Array], number: int,
    moved: Array, value: Array,
) -> Array:  # fmt: skip
    """How far the result moves where operand `number` is `moved`."""
    there = _apply(op, dtype, types, _with(arrays, number, moved), False)
    return _apart(dtype, there, value)


def _moved_together(
    op: Op, dtype: DType, types: Sequence[DType], sources: Sequence[Value], value: Array
) -> Array:
    """How far the result moves at most where all operands that may be off are."""
    ways = [
        [source.value] if source.error is None else _moved(source, kind)
        for source, kind in zip(sources, types, strict=True)
    ]
    found = (_apply(op, dtype, types, moved, False) for moved in itertools.product(*ways))
    return functools.reduce(np.maximum, (_apart(dtype, there, value) for there in found))


def _apart(dtype: DType, there: Array, value: Array) -> Array:
    """How far two results of `dtype` are apart."""
    same = (there == value) | ((there != there) & (value != value))
    if dtype.kind != "float":
        return np.where(same, 0.0, np.inf)
    change = np.abs(there - value)
    return np.where(same, 0.0, np.where(np.isnan(change), np.inf, change))


def _of_bits(
    op: Op, dtype: DType, types: Sequence[DType], arrays: Sequence[Array], number: int,
    error: Array, value: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Where it is known how far an integer moves with what operand `number` may be, and how far."""
    known, off = np.asarray(np.isfinite(error)), np.zeros(())
    for end in ends(arrays[number], error):
        moved = _with(arrays, number, end)
        known = known & stays_between(op, dtype, types[number], arrays, moved, number)
        off = np.maximum(off, distance(_apply(op, dtype, types, moved, False), value))
    return known, off


def _with(arrays: Sequence[Array], number: int, moved: Array) -> list[Array]:
    return [*arrays[:number], moved, *arrays[number + 1 :]]


def _rounded(value: Array, dtype: DType, count: float | Array) -> Array:
    return count * epsilon(dtype) * np.abs(value) + _range(dtype)[0]


def _in_range(value: Array, error: Array, dtype: DType) -> Value:
    """What is beyond the largest number of `dtype` is infinite, and near that, not known."""
    error = np.broadcast_to(error, value.shape)
    largest = _range(dtype)[1]
    magnitude = np.abs(value)
    beyond = magnitude > largest
    near = (magnitude + error > largest) & np.isfinite(value)
    near &= ~(beyond & (magnitude - error > largest * (1 + epsilon(dtype))))
    value = np.where(beyond, np.copysign(np.inf, value), value)
    unknown = near | np.isinf(error) | np.isnan(error)
    return Value(value, np.where(unknown, np.inf, np.where(np.isfinite(value), error, 0.0)))


_COMBINE: dict[Op, np.ufunc] = {
    Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum,
}  # fmt: skip


def total(op: Op, dtype: DType, terms: Value, count: Array | int | None = None) -> Value:
    """The first axis of `terms` combined by `op`: ADD, MUL, MAX or MIN.

    `count`: how many of them are combined one after the other, where that is known (a SCATTER).
    """
    ufunc, (value, error) = _COMBINE[op], terms
    with np.errstate(all="ignore"):
        found = np.asarray(ufunc.reduce(value, axis=0, dtype=value.dtype))
        if dtype.kind != "float":
            off = None if error is None else extreme(op, found, value, _widened(error, value))
            return Value(found, off)
        spread = np.zeros(()) if error is None else _widened(error, value)
        if op in (Op.MAX, Op.MIN):
            if error is None:
                return Value(found)
            high, low = ufunc.reduce(value + spread, axis=0), ufunc.reduce(value - spread, axis=0)
            off = np.maximum(np.abs(high - found), np.abs(found - low))
            return Value(found, np.where(np.isnan(off), np.inf, off))
        narrow = dtype.bits < 32
        inner = dtypes.float32 if narrow else dtype
        magnitude = np.abs(value)
        if op is Op.ADD:
            off = np.broadcast_to(spread, value.shape).sum(axis=0)
            rounded = np.maximum(SUMMED[op], 0 if count is None else np.asarray(count) / 2)
            if dtype.bits == 64:  # what is found here is rounded as often itself
                rounded = rounded + len(value) / 2
            off = off + _rounded(magnitude.sum(axis=0), inner, rounded)
        else:
            product = magnitude.prod(axis=0)
            off = (magnitude + spread).prod(axis=0) - product
            rounded = SUMMED[op] + np.asarray(len(value) if count is None else count)
            off = off + _rounded(product, inner, rounded)
        if narrow:
            off = off + _rounded(found, dtype, 1)
        return _in_range(found, np.where(np.isnan(off), np.inf, off), dtype)


def totals(
    op: Op, dtype: DType, terms: Sequence[Value], count: Array | int | None = None
) -> list[Value]:
    """The first axes of `terms` combined: of one of them alone as by `total`, of two an extreme of
    elements of `dtype` and its place, of equals the first. That is not known where another term is
    as close to the extreme as both are off.
    """
    found = total(op, dtype, terms[0], count)
    if len(terms) == 1:
        return [found]
    (value, error), places = terms
    first = np.expand_dims((np.argmax if op is Op.MAX else np.argmin)(value, axis=0), 0)
    taken = lambda array: np.take_along_axis(_widened(array, value), first, 0)
    off = np.zeros(first.shape) if places.error is None else taken(places.error)
    if error is not None:
        within = _widened(error, value) + taken(error)
        with np.errstate(all="ignore"):
            rivals = (within > 0) & ~(distance(value, taken(value)) > within)
        np.put_along_axis(rivals, first, False, 0)
        off = np.where(rivals.any(axis=0), np.inf, off)
    is_known = error is None and places.error is None
    return [found, Value(taken(places.value)[0], None if is_known else off[0])]


def recurrence(dtype: DType, total: Value, terms: Value, factors: Value, holds: Array) -> Value:
    """What `total` becomes where in each step that `holds`, along the first axes, a factor
    multiplies it before a term is added. Not known where it leaves the numbers of `dtype` between.
    """
    inner = dtypes.float32 if dtype.bits < 32 else dtype
    found, off = total.value, np.asarray(0.0 if total.error is None else total.error)
    parts = (holds, terms.value, terms.error, factors.value, factors.error)
    known = [np.asarray(0.0 if part is None else part) for part in parts]
    shape = np.broadcast_shapes(*(part.shape for part in known))
    arrays = (np.broadcast_to(part, shape) for part in known)
    with np.errstate(all="ignore"):
        for is_step, term, term_off, factor, factor_off in zip(*arrays, strict=True):
            product = factor * found
            new = product + term
            off_now = off * (np.abs(factor) + factor_off) + np.abs(found) * factor_off + term_off
            off_now = off_now + _rounded(np.abs(product) + np.abs(new), inner, 1)
            off_now = np.where(np.abs(new) > _range(inner)[1], np.inf, off_now)
            found, off = np.where(is_step, new, found), np.where(is_step, off_now, off)
    return Value(found, off)


def _widened(error: Array, value: Array) -> Array:
    return np.broadcast_to(error, value.shape)
