"""Formulas of functions of real numbers, elementwise: what the methods of `mathematics` compute.

    atan(x)      integers give floats; half types are computed in float32
    hypot(x, y)  shapes broadcast, dtypes promote

`complexes` has those of complex numbers. What is no op of its own is written with ops whose
gradients exist, so these have them too.
"""

from __future__ import annotations

import math
from typing import TypeVar

from ...dtype import dtypes
from ...ir.node import alu
from ...ir.op import Op
from ..operands import Operand
from .formulas import Formulas

__all__ = [
    "acos", "asin", "asinh", "atan", "atan2", "cos", "cosh", "exp", "expm1", "hypot", "isfinite",
    "isinf", "log", "log1p", "magnitude", "sigmoid", "sign", "sin", "sinh", "sqrt",
]  # fmt: skip

T = TypeVar("T", bound=Formulas)

# atan on |x| <= 0.66, from Cephes (S. L. Moshier, atan.c): x + x^3 P(x^2) / Q(x^2)
_ATAN_P = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
    -1.228866684490136173410e2, -6.485021904942025371773e1,
)  # fmt: skip
_ATAN_Q = (
    1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
    4.853903996359136964868e2, 1.945506571482613964425e2,
)  # fmt: skip
# (asin(x) - x) / x^3 in x^2, from the constant term upwards, by scripts/fit_polynomials.py
_ASIN = {
    32: (  # error 2**-39.4
        0.1666666716337204,
        0.07500002533197403,
        0.044641394168138504,
        0.030416293069720268,
        0.02194899506866932,
        0.02026897482573986,
        0.002873990684747696,
        0.03204606473445892,
    ),
    64: (  # error 2**-71.2
        0.16666666666666666,
        0.07500000000000005,
        0.04464285714284603,
        0.030381944445597896,
        0.022372159024840774,
        0.01735276678857582,
        0.013964786860526898,
        0.01155276162474613,
        0.009749901532010939,
        0.008494850074650987,
        0.006626043171291905,
        0.009744289204507123,
        -0.005611829041215905,
        0.03204304577837105,
        -0.03564039644453495,
        0.035355661689970015,
    ),
}
# pi less its value in the type
_PI_TAIL = {dtypes.float32: -8.742278000372486e-08, dtypes.float64: 1.2246467991473532e-16}
_EXPM1_SERIES = tuple(1 / math.factorial(k + 1) for k in reversed(range(16)))
_SINH_SERIES = tuple(1 / math.factorial(2 * k + 1) for k in reversed(range(9)))
# powers of two: squares are normal numbers from the first to its inverse, and those of what is
# smaller or larger after multiplication with the second or third
_HYPOT_SCALES = {
    dtypes.float32: (2.0**-62, 2.0**87, 2.0**-66),
    dtypes.float64: (2.0**-510, 2.0**564, 2.0**-514),
}


# -- exponentials and logarithms ------------------------------------------------------------------


def exp(x: T) -> T:
    """e to the power of each element."""
    return x._float_unary(Op.EXP)


def log(x: T) -> T:
    """The natural logarithm: NaN below 0, -inf at 0."""
    return x._float_unary(Op.LOG)


def log1p(x: T) -> T:
    """log(1 + x), exact near 0."""
    return x._wide_unary(Op.LOG1P)


def sqrt(x: T) -> T:
    """The square root: NaN below 0."""
    return x._float_unary(Op.SQRT)


def expm1(given: T) -> T:
    """exp(x) - 1, exact near 0."""
    x = given._wide()
    small = magnitude(x).lt(0.5)
    inner = small.where(x, 0.0)
    terms = _EXPM1_SERIES if x.dtype is dtypes.float64 else _EXPM1_SERIES[-9:]
    result = small.where(inner.mul(inner._polynomial(terms)), exp(x).sub(1.0))
    return result.cast(given._float().dtype)


def sigmoid(given: T) -> T:
    """1 / (1 + exp(-x))."""
    x = given._wide()
    negative = x.lt(0)
    size = exp(negative.where(x, x.neg()))  # at most 1
    rest = size.mul(size.add(1.0).reciprocal())  # sigmoid(-|x|), which is 1 - sigmoid(|x|)
    top = negative.where(size, 1.0)
    return top.sub(top.mul(rest)).cast(given._float().dtype)


# -- angles and lengths ---------------------------------------------------------------------------


def sin(x: T) -> T:
    """The sine of an angle in radians."""
    return x._float_unary(Op.SIN)


def cos(x: T) -> T:
    """The cosine of an angle in radians."""
    return x._float_unary(Op.COS)


def atan(given: T) -> T:
    """The arc tangent, in radians."""
    x = given._wide()
    size = x._magnitude()
    large, middle = size.gt(2.414213562373095), size.gt(0.66)
    # the branch that is not taken divides by something harmless
    inverse = large.where(size, 1.0).reciprocal().neg()
    near = large.where(1.0, size)
    shifted = near.sub(1.0).div(near.add(1.0))
    reduced = large.where(inverse, middle.where(shifted, size))
    square = reduced.mul(reduced)
    ratio = square._polynomial(_ATAN_P).div(square._polynomial(_ATAN_Q))
    offset = large.where(math.pi / 2, middle.where(math.pi / 4, x._filled(0.0)))
    result = offset.add(reduced.add(reduced.mul(square).mul(ratio)))
    return x._odd(result).cast(given._float().dtype)


def asin(given: T) -> T:
    """The arc sine, in radians; NaN outside -1 to 1."""
    x = given._wide()
    size, outer = x._magnitude(), x._magnitude().gt(0.5)
    sine, rest = _arc_sine_parts(size, outer)
    # pi/2 - 2 asin, of which pi/4 is taken first: that loses nothing, or less than it would
    less = sine.mul(2.0).sub(math.pi / 4).add(rest.mul(2.0).sub(_PI_TAIL[x.dtype] / 2))
    angle = outer.where(less.neg().add(math.pi / 4), sine.add(rest))
    return x._odd(angle).cast(given._float().dtype)


def acos(given: T) -> T:
    """The arc cosine, in radians; NaN outside -1 to 1."""
    x = given._wide()
    size, outer, negative = x._magnitude(), x._magnitude().gt(0.5), x.lt(0)
    sine, rest = _arc_sine_parts(size, outer)
    # 2 asin of the outer ones, less than a half turn or nothing; a quarter turn less asin(x)
    is_less = outer.eq(negative)
    factor = outer.where(2.0, x._filled(1.0))
    factor = is_less.where(factor, factor.neg())
    turns = outer.where(negative.where(1.0, x._filled(0.0)), 0.5)
    head = turns.mul(math.pi).sub(sine.mul(factor))
    tail = rest.mul(factor).sub(turns.mul(_PI_TAIL[x.dtype]))
    return head.sub(tail).cast(given._float().dtype)


def _arc_sine_parts(size: T, outer: T) -> tuple[T, T]:
    """(s, asin(s) - s) of these sizes, or where `outer`, of sines of half the missing angle.

    asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)), and 1 - x is exact from 1/2 on.
    """
    half = outer.where(size.neg().add(1.0), 0.5).mul(0.5)
    sine = outer.where(sqrt(half), size)
    square = outer.where(half, size.mul(size))
    series = square._polynomial(_ASIN[size.dtype.bits][::-1])
    return sine, sine.mul(square.mul(series))


def atan2(given: T, other: Operand) -> T:
    """The angle from the positive first axis to (other, given), in -pi to pi."""
    y, x = given._wide_pair("atan2", other)
    both_zero = y.eq(0).bitwise_and(x.eq(0))
    both_inf = isinf(y).bitwise_and(isinf(x))
    steep = y._magnitude().gt(x._magnitude())
    top, bottom = steep.where(x, y), steep.where(y, x)
    harmless = both_zero.bitwise_or(both_inf)
    ratio = harmless.where(top, top.div(harmless.where(1.0, bottom)))
    ratio = both_inf.where(sign(y).mul(sign(x)), ratio)
    angle = atan(both_zero.where(y.detach(), ratio))
    half = y.signbit().where(y._filled(-math.pi), math.pi)
    flat = x.signbit().where(angle.add(half), angle)
    return steep.where(half.mul(0.5).sub(angle), flat).cast(given._common_float(other))


def hypot(given: T, other: Operand) -> T:
    """sqrt(given ** 2 + other ** 2), without overflow in between."""
    x, y = given._wide_pair("hypot", other)
    top = x._magnitude().maximum(y._magnitude()).detach()
    infinite = isinf(x).bitwise_or(isinf(y))
    least, up, down = _HYPOT_SCALES[x.dtype]
    large, small = top.gt(1 / least), top.lt(least)
    scale = large.where(down, small.where(up, x._filled(1.0)))
    back = large.where(1 / down, small.where(1 / up, x._filled(1.0)))
    length = sqrt(x.mul(scale).square().add(y.mul(scale).square())).mul(back)
    return infinite.where(math.inf, length).cast(given._common_float(other))


# -- hyperbolic functions -------------------------------------------------------------------------


def sinh(given: T) -> T:
    """The hyperbolic sine."""
    x = given._wide()
    small = magnitude(x).lt(1.0)
    inner = small.where(x, 0.0)
    series = inner.mul(inner.mul(inner)._polynomial(_SINH_SERIES))
    return small.where(series, _half_exp(x).sub(_half_exp(x.neg()))).cast(given._float().dtype)


def cosh(given: T) -> T:
    """The hyperbolic cosine."""
    x = given._wide()
    return _half_exp(x).add(_half_exp(x.neg())).cast(given._float().dtype)


def _half_exp(x: T) -> T:
    """exp(x) / 2, also where exp(x) overflows: there 0.8125 less than x is exact.

    Half the exponential of 0.8125 is nearly a float32.
    """
    far = x.gt(88.0 if x.dtype is dtypes.float32 else 709.0)
    reduced = exp(x.sub(far.where(0.8125, x._filled(0.0))))
    return reduced.mul(far.where(math.exp(0.8125) / 2, x._filled(0.5)))


def asinh(x: T) -> T:
    """The inverse hyperbolic sine."""
    return x._wide_unary(Op.ASINH)


# -- signs and classes ----------------------------------------------------------------------------


def magnitude(x: T) -> T:
    """The absolute value, in the same dtype; its slope at 0 is 0."""
    if x.dtype.is_bool or x.dtype.is_unsigned:
        return x._again()
    size = alu(Op.MAX, x.node, alu(Op.NEG, x.node))
    # of equals a maximum may be either one: adding 0 makes -0.0 the other
    return x._result(size + 0.0 if size.dtype.is_float else size)


def sign(x: T) -> T:
    """-1, 0 or 1, in the same dtype; NaN stays NaN."""
    if x.dtype.is_bool or x.dtype.is_unsigned:
        return x.ne(0).cast(x.dtype)
    signs = x.lt(0).where(x._filled(-1), x.gt(0).where(x._filled(1), 0))
    return x.ne(x).where(x, signs) if x.dtype.is_float else signs


def isinf(x: T, detect_positive: bool = True, detect_negative: bool = True) -> T:
    """Where a value is +inf or -inf, or only one of them."""
    positive = x.eq(math.inf).bitwise_and(bool(detect_positive))
    return positive.bitwise_or(x.eq(-math.inf).bitwise_and(bool(detect_negative)))


def isfinite(x: T) -> T:
    """Where elements are neither infinite nor NaN."""
    return isinf(x).bitwise_or(x.isnan()).logical_not()
