"""Special values of every dtype, and when two results are the same."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtype import DType, finfo
from treadle.ir.elementwise import cast_array, numpy_dtype

INF, NAN = float("inf"), float("nan")
# Signed zeros, ties of rounding, bounds of series, infinities, NaN.
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 0.3, -7.25, INF, -INF, NAN)
_PARTS = (0.0, -0.0, 1.0, -2.5, INF, -INF, NAN)


def special_values(dtype: DType) -> list[Any]:
    """What goes wrong first: zeros, ties, extremes, the smallest numbers, infinities, NaN."""
    if dtype.is_bool:
        return [False, True]
    if dtype.is_complex:
        return [complex(re, im) for re, im in itertools.product(_PARTS, repeat=2)]
    if dtype.is_float:
        limits = finfo(dtype)
        tiny, least = float(limits.smallest_normal), float(limits.smallest_normal * limits.eps)
        return [*_FLOATS, tiny, -tiny, least, -least, float(limits.max), -float(limits.max)]
    signed = [-1, -2, -3, -7, dtype.min, dtype.min + 1] if dtype.min else []
    return [0, 1, 2, 3, 7, dtype.max, dtype.max - 1, dtype.bits - 1, dtype.bits, *signed]


def special_array(dtype: DType) -> np.ndarray:
    """The special values as an array of NumPy's dtype of this name."""
    values = special_values(dtype)
    if dtype.is_float:
        return cast_array(np.array(values, np.float64), dtype)
    return np.array(values, numpy_dtype(dtype))


def combinations(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Columns with every value of each array beside every value of the others."""
    return [grid.reshape(-1) for grid in np.meshgrid(*arrays)]


def same(a: Any, b: Any) -> np.ndarray:
    """Where two results are equal: NaN equals NaN, and zeros have one sign."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "c":
        return same(a.real, b.real) & same(a.imag, b.imag)
    if a.dtype.kind in "biu":
        return a == b
    a, b = a.astype(np.float64), b.astype(np.float64)
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


REAL = (dtypes.bool, *dtypes.ints, *dtypes.floats)
