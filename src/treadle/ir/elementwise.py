"""The meaning of each elementwise op on NumPy arrays: ELEMENTWISE, `apply_alu` and `cast_array`.

    apply_alu(Op.IDIV, dtypes.int32, (dtypes.int32, dtypes.int32), (a, b)) -> floor(a / b)

Arrays hold one element a value, in NumPy's dtype of the same name (bfloat16 and fp8 as ml_dtypes
have them, index as int64). The narrow floats are computed in float32 and rounded after each op;
functions such as EXP are computed in float64 and rounded, so they serve as reference.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from ..dtype import DType, dtypes, numpy_names
from .op import COMPARE, INFO, Op

__all__ = [
    "ELEMENTWISE", "apply_alu", "cast_array", "constant_array", "erfinv", "numpy_dtype",
]  # fmt: skip

Array = np.ndarray
_WIDE = (dtypes.float32, dtypes.float64)


@functools.cache
def numpy_dtype(dtype: DType) -> np.dtype:
    """The NumPy dtype of one lane of `dtype`; index is int64."""
    return np.dtype(np.int64) if dtype.kind == "index" else numpy_names()[dtype.scalar]


def constant_array(dtype: DType, value: complex) -> Array:
    """`value` as a 0-d array of `dtype`."""
    return np.array(value, numpy_dtype(dtype))


def erfinv(y: float) -> float:
    """The x with erf(x) = y, to a few units in the last place; NaN beyond -1 and 1."""
    if not abs(y) < 1 or y == 0:
        return y if y == 0 else math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    rest = 1 - abs(y)
    # S. Winitzki, A handy approximation for the error function (2008), then Halley's method
    half = 4.33 + math.log(rest * (1 + abs(y))) / 2
    x = math.sqrt(math.sqrt(half**2 - math.log(rest * (1 + abs(y))) / 0.147) - half)
    for _ in range(3):
        beyond = math.erf(x) - abs(y) if rest > 0.5 else rest - math.erfc(x)
        step = beyond * math.exp(x * x) * math.sqrt(math.pi) / 2
        x -= step / (1 + x * step)
    return math.copysign(x, y)


def _power(a: Array, b: Array) -> Array:
    """C's pow. NumPy's takes a root for an exponent of 1/2: NaN of -inf, -0.0 of -0.0."""
    result = np.power(a, b)
    return np.where((b == 0.5) & ((a == 0) | (a == -math.inf)), np.abs(a), result)


def _in_double(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: function(*(np.asarray(a, np.float64) for a in args))


def _rounding(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda a: function(a) if a.dtype.kind == "f" else a


def _subtract(a: Array, b: Array) -> Array:
    return a ^ b if a.dtype == np.bool_ else a - b


def _negate(a: Array) -> Array:
    return a if a.dtype == np.bool_ else -a


def _shift_left(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    return np.where(inside, a << np.where(inside, b, 0).astype(a.dtype), a.dtype.type(0))


def _shift_right(a: Array, b: Array) -> Array:
    """Beyond the width only the sign is left, which takes two shifts of less than the width."""
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    by = np.where(inside, b, bits - 1).astype(a.dtype)
    return (a >> by) >> np.where(inside, 0, 1).astype(a.dtype)


def _fma_exact(a: float, b: float, c: float) -> float:
    product = a * b
    if not (math.isfinite(a) and math.isfinite(b)):
        return product + c
    if not math.isfinite(c):  # a product that overflows alone is finite beside it
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return product + c
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype.kind != "f":
        return a * b + c
    if a.dtype == np.float64:
        return np.vectorize(_fma_exact, otypes=[np.float64])(a, b, c)
    x, y = a.astype(np.float64) * b, c.astype(np.float64)  # the product is exact in float64
    total = x + y
    high = total - x
    error = (x - (total - high)) + (y - high)  # Knuth's two-sum: total + error is exact
    return _odd(total, error).astype(np.float32)


def _odd(rounded: Array, error: Array) -> Array:
    """`rounded` + `error` rounded to odd, so that a second, narrower rounding is right."""
    bits = np.ascontiguousarray(rounded).view(np.int64).reshape(rounded.shape)
    inexact = np.isfinite(rounded) & np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    towards = np.where((error > 0) == (rounded > 0), 1, -1)
    return np.where(inexact, bits + towards, bits).view(np.float64)


def _larger(a: Array, b: Array) -> Array:
    """The larger, the first of equals (0.0 and -0.0), NaN if either is."""
    return np.where((a < b) | (b != b), b, a)


def _smaller(a: Array, b: Array) -> Array:
    """The smaller, the first of equals (0.0 and -0.0), NaN if either is."""
    return np.where((b < a) | (b != b), b, a)


def _complex(a: Array, b: Array) -> Array:
    """Not a + 1j * b, where an infinite b would make a NaN."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a.dtype, np.complex64))
    out.real, out.imag = a, b
    return out


ELEMENTWISE: dict[Op, Callable[..., Array]] = {
    **{op: _in_double(getattr(np, info.numpy)) for op, info in INFO.items() if info.numpy},
    Op.NEG: _negate,
    Op.RECIP: lambda a: a.dtype.type(1) / a,
    Op.SQRT: np.sqrt,
    Op.ERF: _in_double(np.vectorize(math.erf, otypes=[np.float64])),
    Op.ERFC: _in_double(np.vectorize(math.erfc, otypes=[np.float64])),
    Op.ERFINV: _in_double(np.vectorize(erfinv, otypes=[np.float64])),
    Op.TRUNC: _rounding(np.trunc),
    Op.FLOOR: _rounding(np.floor),
    Op.CEIL: _rounding(np.ceil),
    Op.ROUND: _rounding(np.rint),
    Op.REAL: np.real,
    Op.IMAG: np.imag,
    Op.ADD: np.add,
    Op.SUB: _subtract,
    Op.MUL: np.multiply,
    Op.FDIV: np.divide,
    Op.IDIV: np.floor_divide,
    Op.MOD: np.remainder,
    Op.POW: _in_double(_power),
    Op.MAX: _larger,
    Op.MIN: _smaller,
    Op.AND: np.bitwise_and,
    Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor,
    Op.SHL: _shift_left,
    Op.SHR: _shift_right,
    Op.COMPLEX: _complex,
    Op.CMPLT: np.less,
    Op.CMPEQ: np.equal,
    Op.CMPNE: np.not_equal,
    Op.WHERE: np.where,
    Op.FMA: _fma,
}
"""Each op on arrays of the dtype it computes in: float32 or float64 for floats, else its own."""


def apply_alu(op: Op, dtype: DType, types: Sequence[DType], arrays: Sequence[Array]) -> Array:
    """`op` on `arrays` of element types `types`, as an array of `dtype`; sources broadcast."""
    with np.errstate(all="ignore"):
        if op is Op.CAST:
            return cast_array(arrays[0], dtype)
        if op is Op.BITCAST:
            source = np.ascontiguousarray(arrays[0])
            return source.view(numpy_dtype(dtype)).reshape(arrays[0].shape)
        wide = [
            a.astype(np.float32) if t.is_float and t.scalar not in _WIDE else np.asarray(a)
            for a, t in zip(arrays, types, strict=True)
        ]
        result = np.asarray(ELEMENTWISE[op](*wide))
        if op in COMPARE or not dtype.is_float:
            return result.astype(numpy_dtype(dtype), copy=False)
        return _narrow(result, dtype)


def _narrow(result: Array, dtype: DType) -> Array:
    if dtype.scalar not in _WIDE:
        result = result.astype(np.float32, copy=False)
    return result.astype(numpy_dtype(dtype), copy=False)


def cast_array(array: Array, dtype: DType) -> Array:
    """`array` as `dtype`: one rounding; float to integer as Op.CAST says."""
    target = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        if array.dtype == target or array.dtype == np.bool_:
            return array.astype(target)
        if array.dtype.kind == "c" or dtype.is_complex:
            return array != 0 if dtype.is_bool else array.astype(target)
        if array.dtype.kind in "iu":
            return (array.astype(np.float32) if _narrow_float(dtype) else array).astype(target)
        if dtype.is_bool:
            return array.astype(np.float64) != 0
        if dtype.is_float:
            return (_odd_single(array) if _narrow_float(dtype) else array).astype(target)
        return _float_to_int(array.astype(np.float64), dtype)


def _narrow_float(dtype: DType) -> bool:
    return dtype.is_float and dtype.scalar not in _WIDE


def _odd_single(array: Array) -> Array:
    """A float64 rounded to odd in float32, from where any narrower float rounds correctly."""
    if array.dtype != np.float64:
        return array.astype(np.float32)
    single = array.astype(np.float32)
    back = single.astype(np.float64)
    too_large = np.abs(back) > np.abs(array)
    bits = np.ascontiguousarray(single).view(np.uint32).reshape(array.shape)
    bits = np.where(too_large, bits - np.uint32(1), bits)
    inexact = (back != array) & ~np.isnan(array)
    return np.where(inexact, bits | np.uint32(1), bits).view(np.float32)


def _float_to_int(array: Array, dtype: DType) -> Array:
    """Truncated, saturated at 32 or 64 bits, then wrapped; NaN is 0."""
    wide = dtype.bits == 64 or dtype.scalar is dtypes.uint32
    limit = 2.0 ** (63 if wide else 31)
    number = np.where(np.isnan(array), 0.0, np.trunc(array))
    inside = np.where(np.abs(number) < limit, number, 0.0).astype(np.int64)
    top = np.int64(2 ** (63 if wide else 31) - 1)
    result = np.where(number >= limit, top, np.where(number <= -limit, -top - 1, inside))
    if dtype.scalar is not dtypes.uint64:
        return result.astype(numpy_dtype(dtype))
    half = np.where((number >= limit) & (number < 2 * limit), number - limit, 0.0)
    upper = half.astype(np.uint64) + np.uint64(2**63)
    upper = np.where(number >= 2 * limit, np.uint64(2**64 - 1), upper)
    return np.where(number >= limit, upper, result.astype(np.uint64))
