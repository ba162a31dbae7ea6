"""The meaning of each elementwise op on Python scalars: constant folding.

Results are exact for integers (wrapped to the width) and rounded to the dtype for floats.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from ..dtype import DType
from .op import COMPARE, Op

__all__ = ["erfinv", "fold_scalar", "round_to"]


def _floor_div(a: Any, b: Any) -> Any:
    return a // b if b else 0


def _floor_mod(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        return math.nan if b == 0 or math.isinf(a) else a % b
    return a % b if b else 0


def _divide(a: Any, b: Any) -> Any:
    if b != 0:
        return a / b
    if isinstance(b, complex):
        return complex(math.nan, math.nan)
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _total(function: Callable[[float], float], outside: float = math.nan) -> Callable[[Any], Any]:
    def call(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return outside
        except OverflowError:
            return math.inf

    return call


def _log(function: Callable[[float], float]) -> Callable[[Any], Any]:
    total = _total(function)
    return lambda x: -math.inf if x == 0 else total(x)


def _rounding(function: Callable[[float], int]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        if not isinstance(x, float) or not math.isfinite(x):
            return x
        return math.copysign(float(function(x)), x)

    return call


def _pow(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        odd = b == math.floor(b) and b % 2 == 1
        return -math.inf if a < 0 and odd else math.inf
    except ValueError:
        return math.inf if a == 0 else math.nan


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


def _max(a: Any, b: Any) -> Any:
    return a if a != a or (b == b and a > b) else b


def _min(a: Any, b: Any) -> Any:
    return a if a != a or (b == b and a < b) else b


_FOLD: dict[Op, Callable[..., Any]] = {
    Op.NEG: lambda a: -a,
    Op.RECIP: lambda a: _divide(1.0, a),
    Op.REAL: lambda a: a.real,
    Op.IMAG: lambda a: a.imag,
    Op.SQRT: _total(math.sqrt),
    Op.EXP2: _total(lambda a: 2.0**a),
    Op.EXP: _total(math.exp),
    Op.LOG2: _log(math.log2),
    Op.LOG: _log(math.log),
    Op.LOG10: _log(math.log10),
    Op.LOG1P: lambda a: -math.inf if a == -1 else _total(math.log1p)(a),
    Op.SIN: _total(math.sin),
    Op.COS: _total(math.cos),
    Op.TAN: _total(math.tan),
    Op.TANH: math.tanh,
    Op.ASINH: math.asinh,
    Op.ACOSH: _total(math.acosh),
    Op.ATANH: lambda a: math.copysign(math.inf, a) if abs(a) == 1 else _total(math.atanh)(a),
    Op.ERF: math.erf,
    Op.ERFC: math.erfc,
    Op.ERFINV: erfinv,
    Op.TRUNC: _rounding(math.trunc),
    Op.FLOOR: _rounding(math.floor),
    Op.CEIL: _rounding(math.ceil),
    Op.ROUND: _rounding(round),
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.FDIV: _divide,
    Op.IDIV: _floor_div,
    Op.MOD: _floor_mod,
    Op.POW: _pow,
    Op.MAX: _max,
    Op.MIN: _min,
    Op.AND: lambda a, b: a & b,
    Op.OR: lambda a, b: a | b,
    Op.XOR: lambda a, b: a ^ b,
    Op.COMPLEX: complex,
    Op.CMPLT: lambda a, b: a < b,
    Op.CMPEQ: lambda a, b: a == b,
    Op.CMPNE: lambda a, b: a != b,
    Op.WHERE: lambda c, a, b: a if c else b,
    Op.FMA: lambda a, b, c: a * b + c,
}


def round_to(dtype: DType, value: Any) -> Any:
    """`value` rounded to the nearest number of a float dtype, of a complex one part by part."""
    if dtype.is_complex:
        return complex(round_to(dtype.real, value.real), round_to(dtype.real, value.imag))
    if dtype.name == "float64" or not math.isfinite(value):
        return value
    if dtype.name == "float32":
        try:
            return struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    import numpy as np

    from ..dtype import numpy_names

    with np.errstate(over="ignore"):
        return float(numpy_names()[dtype].type(value))


def float_to_int(dtype: DType, value: float) -> int:
    """CAST to an integer: truncated, saturated at 32 (64) bits, then wrapped to the width."""
    if value != value:
        return 0
    bits = 64 if dtype.bits == 64 or dtype.name == "uint32" else 32
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if dtype.name == "uint64" and value > 0:
        low, high = 0, (1 << 64) - 1
    if math.isinf(value):
        return dtype.as_const(high if value > 0 else low)
    return dtype.as_const(min(max(math.trunc(value), low), high))


def _cast(dtype: DType, value: Any) -> Any:
    if dtype.is_inexact:
        return round_to(dtype, dtype.as_const(value))
    if isinstance(value, float) and dtype.kind in ("int", "uint"):
        return float_to_int(dtype, value)
    return dtype.as_const(value)


def fold_scalar(op: Op, dtype: DType, types: tuple[DType, ...], args: tuple[Any, ...]) -> Any:
    """The value of `op` on the constants `args` of `types`, as a Python scalar of `dtype`."""
    if op is Op.CAST:
        return _cast(dtype, args[0])
    if op in (Op.SHL, Op.SHR):
        return _shift(op, types[0], *args)
    result = _FOLD[op](*args)
    if op in COMPARE:
        return bool(result)
    if dtype.is_inexact:
        return round_to(dtype, dtype.as_const(result))
    return dtype.as_const(result)


def _shift(op: Op, dtype: DType, value: int, by: int) -> int:
    bits = dtype.bits
    inside = 0 <= by < bits
    if op is Op.SHL:
        return dtype.as_const(value << by) if inside else 0
    if inside:
        return value >> by
    return -1 if value < 0 else 0
