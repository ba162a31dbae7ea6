"""Formulas of inverse functions of complex numbers, from those of their parts.

    asin(z), z = 2 + 0j  -> [1.5707964+1.3169578j]; of floats it is NaN

Branch cuts are those of C99 and NumPy, where signed zeros say on which side a number is: on the
real axis beyond -1 and 1 for asin, acos and atanh, below 1 for acosh, on the imaginary axis beyond
-i and i for asinh and atan. No formula subtracts nearly equal numbers: W. Kahan, "Branch cuts for
complex elementary functions, or much ado about nothing's sign bit" (1987). Infinities and
NaN give what C99 (annex G) says.
"""

from __future__ import annotations

import math
from typing import TypeVar

from . import reals
from .complexes import sqrt, times_i, turned_back
from .formulas import Formulas

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atanh"]

T = TypeVar("T", bound=Formulas)

_FAR = 1e10  # from here on the first terms of an expansion are exact, and squares may overflow
_NEAR = 1e-8  # squares of less may underflow


def asin(z: T) -> T:
    """The inverse sine."""
    x, y, below = z.real, z.imag, z.imag.signbit()
    far, left, right = _roots_beside_one(z)
    across = left.real.mul(right.real).sub(left.imag.mul(right.imag))
    numerator, denominator = far.where(0.5, x), far.where(below.where(y.neg(), y), across)
    re = reals.atan2(far.where(x, numerator), denominator)
    re = x.eq(0).bitwise_and(y.isnan()).where(x, re)
    return re.complex(_distance(z, far, left, right))


def acos(z: T) -> T:
    """The inverse cosine."""
    x, y, below = z.real, z.imag, z.imag.signbit()
    far, left, right = _roots_beside_one(z)
    half = reals.atan2(left.real, right.real).mul(2.0)
    whole = reals.atan2(far.where(below.where(y.neg(), y), 0.0), far.where(x, 1.0))
    upright = x.eq(0).bitwise_and(y.isnan())
    re = upright.where(math.pi / 2, far.where(whole, half))
    return re.complex(_distance(z, far, left, right).neg())


def _roots_beside_one(z: T) -> tuple[T, T, T]:
    """Where elements are far from 0, and the square roots of 1 - z and 1 + z of the others."""
    x, y = z.real, z.imag
    far = reals.magnitude(x).gt(_FAR).bitwise_or(reals.magnitude(y).gt(_FAR))
    x, y = far.where(0.5, x), far.where(0.5, y)
    return far, sqrt(x.neg().add(1.0).complex(y.neg())), sqrt(x.add(1.0).complex(y))


def _distance(z: T, far: T, left: T, right: T) -> T:
    """The imaginary part of the inverse sine; far from 0 it is log(2 |z|)."""
    near = reals.asinh(left.real.mul(right.imag).sub(left.imag.mul(right.real)))
    x, y = far.where(z.real, 1.0), far.where(z.imag, 0.0)
    # the whole length may overflow
    size = reals.log(reals.hypot(x.mul(0.25), y.mul(0.25))).add(math.log(8))
    return far.where(z.imag.signbit().where(size.neg(), size), near)


def atanh(z: T) -> T:
    """The inverse hyperbolic tangent."""
    left, below = z.real.signbit(), z.imag.signbit()
    x = left.where(z.real.neg(), z.real)
    y = below.where(z.imag.neg(), z.imag)
    far, endless = x.gt(_FAR).bitwise_or(y.gt(_FAR)), reals.isinf(x).bitwise_or(reals.isinf(y))
    inner = far.bitwise_and(endless.logical_not())
    inverse = inner.where(x.complex(y), 1.0).reciprocal()
    x, y = far.where(0.5, x), far.where(0.5, y)
    gap, height = x.neg().add(1.0), y.square()
    near = reals.hypot(gap, y).lt(_NEAR)
    square = near.where(1.0, gap.square().add(height))
    apart = reals.log1p(x.mul(4.0).div(square)).mul(0.25)
    close = reals.log(x.add(1.0).div(near.where(reals.hypot(gap, y), 1.0))).mul(0.5)
    angle = reals.atan2(y.mul(2.0), gap.mul(x.add(1.0)).sub(height)).mul(0.5)
    re = far.where(endless.where(0.0, inverse.real), near.where(close, apart))
    im = far.where(endless.where(0.0, inverse.imag).add(math.pi / 2), angle)
    re, im = left.where(re.neg(), re), below.where(im.neg(), im)
    unknown = z.imag.isnan()
    re = unknown.bitwise_and(z.real.eq(0)).where(z.real, re)
    return re.complex(unknown.where(math.nan, im))


def acosh(z: T) -> T:
    """The inverse hyperbolic cosine."""
    angle, below = acos(z), z.imag.signbit()
    re = below.where(angle.imag, angle.imag.neg())
    return re.complex(below.where(angle.real.neg(), angle.real))


def asinh(z: T) -> T:
    """The inverse hyperbolic sine."""
    return turned_back(asin(times_i(z)))


def atan(z: T) -> T:
    """The inverse tangent."""
    return turned_back(atanh(times_i(z)))
