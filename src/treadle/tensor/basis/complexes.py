"""Formulas of functions of complex numbers, from those of their real and imaginary parts.

    exp(z), z = 1j * math.pi    -> [-1.+0.j], nearly
    sqrt(z), z = -1 + 0j        -> [0.+1.j]; of floats it is NaN

Branch cuts lie on the negative real axis, as in C and NumPy, and signed zeros say on which side.
Infinities and NaN give what C99 (annex G) and the Array API say: where a product of parts would be
inf * 0, or of an angle that is none, the part is given apart.
"""

from __future__ import annotations

import math
from typing import TypeVar

from ...dtype import complex_of, finfo
from ...ir.node import Node
from ..operands import is_scalar, weak_dtype
from ..shapes import expand
from . import reals
from .formulas import Formulas

__all__ = [
    "angle", "cos", "cosh", "exp", "exp2", "expm1", "log", "log1p", "log_to_base", "magnitude",
    "power", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "times_i", "turned_back",
]  # fmt: skip

T = TypeVar("T", bound=Formulas)

_SATURATED = 20.0  # tanh of more is 1 in every type
_LARGEST_POWER = 32  # of integers that are multiplied out


# -- polar coordinates ----------------------------------------------------------------------------


def magnitude(z: T) -> T:
    """The magnitude, real; its slope at 0 is 0."""
    zero = z.eq(0)
    return zero.where(0.0, reals.hypot(zero.where(1.0, z.real), z.imag))


def angle(z: T) -> T:
    """The angle from the positive real axis, -pi to pi, real."""
    return reals.atan2(z.imag, z.real)


# -- exponentials and logarithms ------------------------------------------------------------------


def exp(z: T) -> T:
    """e to the power of each element."""
    x, y = z.real, z.imag
    aimless = reals.isinf(x).bitwise_and(reals.isfinite(y).logical_not())
    # A size beyond the largest number may have a part that is not: it is multiplied in halves.
    large = x.gt(math.log(finfo(x.dtype).max)).bitwise_and(reals.isfinite(x))
    size = reals.exp(large.where(x.mul(0.5), x))
    again = large.where(size, 1.0)
    re = size.mul(aimless.where(1.0, reals.cos(y))).mul(again)
    flat = y.eq(0).bitwise_and(reals.isfinite(size.mul(again)).logical_not())
    im = flat.where(y, size.mul(flat.where(0.0, reals.sin(y))).mul(again))
    return re.complex(aimless.where(x.lt(0).where(_signed_zero(y), math.nan), im))


def _signed_zero(x: T) -> T:
    """-0.0 below 0, else 0.0."""
    return x.lt(0).where(-0.0, x._filled(0.0))


def expm1(z: T) -> T:
    """exp(z) - 1, exact near 0."""
    near = reals.magnitude(z.real).lt(1).bitwise_and(reals.isfinite(z.imag))
    x, y = (near.where(part, 0.0) for part in (z.real, z.imag))
    # exp(x) cos(y) - 1, of which nothing cancels
    exact = reals.expm1(x).mul(reals.cos(y)).sub(reals.sin(y.mul(0.5)).square().mul(2))
    whole = exp(z)
    found = near.where(exact, whole.real.sub(1)).complex(whole.imag)
    return z.eq(0).where(z, found)


def exp2(z: T) -> T:
    """2 to the power of each element."""
    return exp(z.mul(math.log(2)))


def log(z: T) -> T:
    """The natural logarithm, with an angle from -pi to pi."""
    x, y = z.real, z.imag
    scaled, back = _within_range(z)
    size = magnitude(scaled)
    # near a length of 1, where that rounds away what its logarithm is made of
    near = size.gt(0.5).bitwise_and(size.lt(2.0)).bitwise_and(back.eq(1.0))
    steep = x._magnitude().lt(y._magnitude())
    large, small = steep.where(y, x), steep.where(x, y)
    beyond = large.sub(1.0).mul(large.add(1.0)).add(small.square())
    close = reals.log1p(near.where(beyond, 0.0)).mul(0.5)
    far = reals.log(near.where(1.0, size)).add(reals.log(back))
    return near.where(close, far).complex(angle(z))


def _within_range(z: T) -> tuple[T, T]:
    """These numbers, those whose length might overflow in quarters; and 4 for these, 1 for the
    others.
    """
    limit = finfo(z.dtype).max / 4
    large = reals.magnitude(z.real).gt(limit).bitwise_or(reals.magnitude(z.imag).gt(limit))
    part = large.where(0.25, z.real._filled(1.0))
    return z.real.mul(part).complex(z.imag.mul(part)), part.reciprocal()


def log_to_base(z: T, base: int) -> T:
    """The logarithm to a base, by parts: an infinite one makes no NaN of the other."""
    natural, factor = log(z), 1 / math.log(base)
    return natural.real.mul(factor).complex(natural.imag.mul(factor))


def log1p(z: T) -> T:
    """log(1 + z), exact near 0."""
    x, y = z.real, z.imag
    moved = x.add(1.0).complex(y)
    near = reals.magnitude(x).lt(0.5).bitwise_and(reals.magnitude(y).lt(0.5))
    beyond = x.mul(x.add(2.0)).add(y.square())  # of the square of the length, beyond 1
    close = reals.log1p(near.where(beyond, 0.0)).mul(0.5)
    return near.where(close, log(near.where(1.0, moved)).real).complex(angle(moved))


def sqrt(z: T) -> T:
    """The square root to the right."""
    zero = z.eq(0)
    scaled, back = _within_range(z)
    x, y = zero.where(1.0, scaled.real), scaled.imag
    # sqrt((|x| + |z|) / 2), the part without cancellation
    large = reals.sqrt(x._magnitude().mul(0.5).add(reals.hypot(x, y).mul(0.5)))
    small = y.div(large).mul(0.5)
    left, below, endless = x.lt(0), y.signbit(), reals.isinf(y)
    back = reals.sqrt(back)
    re = left.where(below.where(small.neg(), small), large).mul(back)
    im = left.where(below.where(large.neg(), large), small).mul(back)
    re = zero.where(0.0, endless.where(math.inf, re))
    return re.complex(zero.bitwise_or(endless).where(y.detach(), im))


# -- trigonometric and hyperbolic functions -------------------------------------------------------


def times_i(z: T) -> T:
    """i z, the number a quarter turn further."""
    return z.imag.neg().complex(z.real)


def turned_back(z: T) -> T:
    """-i z, which undoes `times_i`."""
    return z.imag.complex(z.real.neg())


def sin(z: T) -> T:
    """The sine."""
    return turned_back(sinh(times_i(z)))


def cos(z: T) -> T:
    """The cosine."""
    return cosh(times_i(z))


def tan(z: T) -> T:
    """The tangent."""
    return turned_back(tanh(times_i(z)))


def sinh(z: T) -> T:
    """The hyperbolic sine."""
    x, y = z.real, z.imag
    aimless, flat = _edges(z)
    re = aimless.where(x, reals.sinh(x).mul(aimless.where(1.0, reals.cos(y))))
    return re.complex(flat.where(y, reals.cosh(x).mul(flat.where(0.0, reals.sin(y)))))


def _edges(z: T) -> tuple[T, T]:
    """Where the imaginary part is no angle, beside 0 or an infinity; and where it is 0, beside
    what has no finite hyperbolic cosine.
    """
    x, y = z.real, z.imag
    aimless = reals.isfinite(y).logical_not().bitwise_and(x.eq(0).bitwise_or(reals.isinf(x)))
    return aimless, y.eq(0).bitwise_and(reals.isfinite(reals.cosh(x)).logical_not())


def cosh(z: T) -> T:
    """The hyperbolic cosine."""
    x, y = z.real, z.imag
    aimless, flat = _edges(z)
    endless = aimless.bitwise_and(reals.isinf(x))
    re = endless.where(math.inf, reals.cosh(x).mul(endless.where(1.0, reals.cos(y))))
    im = reals.sinh(x).mul(flat.where(0.0, reals.sin(y)))
    level = x.lt(0).where(y.neg(), y)  # with the sign of sinh(x) y
    im = flat.where(level, aimless.bitwise_and(x.eq(0)).where(_signed_zero(y), im))
    return re.complex(im)


def tanh(z: T) -> T:
    """The hyperbolic tangent."""
    x, y = z.real, z.imag
    far = x._magnitude().gt(_SATURATED)
    inner, wave = far.where(0.5, x), reals.sin(y).mul(reals.cos(y))
    below = reals.sinh(inner).square().add(reals.cos(y).square())
    re = far.where(reals.sign(x), reals.sinh(inner).mul(reals.cosh(inner)).div(below))
    rest = reals.exp(far.where(x._magnitude(), 1.0).mul(-2.0)).mul(4.0)
    im = far.where(wave.mul(rest), wave.div(below))
    aimless, flat = _edges(z)
    beyond = reals.isinf(x).where(reals.sign(x), x)
    re = aimless.where(beyond, reals.isfinite(y).where(re, math.nan))
    im = aimless.bitwise_and(reals.isinf(x)).where(_signed_zero(y), im)
    return re.complex(flat.where(y, im))


def sigmoid(z: T) -> T:
    """1 / (1 + exp(-z))."""
    return tanh(z.mul(0.5)).mul(0.5).add(0.5)


# -- powers ---------------------------------------------------------------------------------------


def power(base: T, exponent: T | complex, reverse: bool) -> T:
    """`base ** exponent`, or the `reverse`: the principal value. Either may be real."""
    if is_scalar(exponent) and not isinstance(exponent, complex) and not reverse:
        if exponent == 0.5:
            return sqrt(base)
        if abs(exponent) <= _LARGEST_POWER and exponent == int(exponent):
            return _whole_power(base, int(exponent))
    if is_scalar(exponent):
        exponent = base.cast(weak_dtype(exponent, base.dtype))._filled(exponent)
    return _principal(exponent, base) if reverse else _principal(base, exponent)


def _principal(base: T, exponent: T) -> T:
    zero, exponent = base.eq(0), exponent.cast(complex_of(exponent._float().dtype))
    safe = zero.where(1.0, base)
    found = exp(log(safe.cast(complex_of(safe._float().dtype))).mul(exponent))
    rising = exponent.real.gt(0)
    return zero.where(exponent.eq(0).where(1.0, rising.where(0.0, math.nan)), found)


def _whole_power(z: T, exponent: int) -> T:
    if exponent < 0:
        return _whole_power(z, -exponent).reciprocal()
    total, square = None, z
    while exponent:
        if exponent & 1:
            total = square if total is None else total.mul(square)
        exponent >>= 1
        square = square.square() if exponent else square
    if total is None:
        return type(z)._of(expand(Node.const(z.dtype, 1), z.shape), z.device)
    return total
