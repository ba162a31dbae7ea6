"""Inverse trigonometric and hyperbolic functions of complex numbers, from those of their parts.

    Tensor([2 + 0j]).asin()  -> [1.5707964+1.3169578j]; of floats it is NaN

Branch cuts are those of C99 and NumPy, where signed zeros say on which side a number is: on the
real axis beyond -1 and 1 for asin, acos and atanh, below 1 for acosh, on the imaginary axis beyond
-i and i for asinh and atan. No formula subtracts nearly equal numbers: W. Kahan, "Branch cuts for
complex elementary functions, or much ado about nothing's sign bit" (1987). Infinities and
NaN give what C99 (annex G) says.
"""

from __future__ import annotations

import math
from typing import Self

from .analytic import Analytic

__all__ = ["Arcs"]

_FAR = 1e10  # from here on the first terms of an expansion are exact, and squares may overflow
_NEAR = 1e-8  # squares of less may underflow


class Arcs(Analytic):
    """Each method is that of real numbers where the tensor is real."""

    __slots__ = ()

    def asin(self) -> Self:
        """The inverse sine of each element; integers give floats. Of floats NaN beyond -1 and 1."""
        if not self.dtype.is_complex:
            return super().asin()
        x, y, below = self.real, self.imag, self.imag.signbit()
        far, left, right = self._roots_beside_one()
        across = left.real.mul(right.real).sub(left.imag.mul(right.imag))
        re = far.where(x, far.where(0.5, x)).atan2(far.where(below.where(y.neg(), y), across))
        re = x.eq(0).bitwise_and(y.isnan()).where(x, re)
        return re.complex(self._distance(far, left, right))

    def acos(self) -> Self:
        """The inverse cosine of each element; integers give floats.

        Of floats NaN beyond -1 and 1.
        """
        if not self.dtype.is_complex:
            return super().acos()
        x, y, below = self.real, self.imag, self.imag.signbit()
        far, left, right = self._roots_beside_one()
        half = left.real.atan2(right.real).mul(2.0)
        whole = far.where(below.where(y.neg(), y), 0.0).atan2(far.where(x, 1.0))
        upright = x.eq(0).bitwise_and(y.isnan())
        re = upright.where(math.pi / 2, far.where(whole, half))
        return re.complex(self._distance(far, left, right).neg())

    def _roots_beside_one(self) -> tuple[Self, Self, Self]:
        """Where elements are far from 0, and the square roots of 1 - z and 1 + z of the others."""
        x, y = self.real, self.imag
        far = x.abs().gt(_FAR).bitwise_or(y.abs().gt(_FAR))
        x, y = far.where(0.5, x), far.where(0.5, y)
        return far, x.neg().add(1.0).complex(y.neg()).sqrt(), x.add(1.0).complex(y).sqrt()

    def _distance(self, far: Self, left: Self, right: Self) -> Self:
        """The imaginary part of the inverse sine; far from 0 it is log(2 |z|)."""
        near = left.real.mul(right.imag).sub(left.imag.mul(right.real)).asinh()
        x, y = far.where(self.real, 1.0), far.where(self.imag, 0.0)
        size = x.mul(0.25).hypot(y.mul(0.25)).log().add(math.log(8))  # the whole may overflow
        return far.where(self.imag.signbit().where(size.neg(), size), near)

    def atanh(self) -> Self:
        """The inverse hyperbolic tangent of each element; integers give floats.

        Of floats NaN beyond -1 and 1.
        """
        if not self.dtype.is_complex:
            return super().atanh()
        left, below = self.real.signbit(), self.imag.signbit()
        x = left.where(self.real.neg(), self.real)
        y = below.where(self.imag.neg(), self.imag)
        far, endless = x.gt(_FAR).bitwise_or(y.gt(_FAR)), x.isinf().bitwise_or(y.isinf())
        inner = far.bitwise_and(endless.logical_not())
        inverse = inner.where(x.complex(y), 1.0).reciprocal()
        x, y = far.where(0.5, x), far.where(0.5, y)
        gap, height = x.neg().add(1.0), y.square()
        near = gap.hypot(y).lt(_NEAR)
        square = near.where(1.0, gap.square().add(height))
        apart = x.mul(4.0).div(square).log1p().mul(0.25)
        close = x.add(1.0).div(near.where(gap.hypot(y), 1.0)).log().mul(0.5)
        angle = y.mul(2.0).atan2(gap.mul(x.add(1.0)).sub(height)).mul(0.5)
        re = far.where(endless.where(0.0, inverse.real), near.where(close, apart))
        im = far.where(endless.where(0.0, inverse.imag).add(math.pi / 2), angle)
        re, im = left.where(re.neg(), re), below.where(im.neg(), im)
        unknown = self.imag.isnan()
        re = unknown.bitwise_and(self.real.eq(0)).where(self.real, re)
        return re.complex(unknown.where(math.nan, im))

    def acosh(self) -> Self:
        """The inverse hyperbolic cosine of each element; integers give floats.

        Of floats NaN below 1.
        """
        if not self.dtype.is_complex:
            return super().acosh()
        angle, below = self.acos(), self.imag.signbit()
        re = below.where(angle.imag, angle.imag.neg())
        return re.complex(below.where(angle.real.neg(), angle.real))

    def asinh(self) -> Self:
        """The inverse hyperbolic sine of each element; integers give floats."""
        if not self.dtype.is_complex:
            return super().asinh()
        turned = self._times_i().asin()
        return turned.imag.complex(turned.real.neg())

    def atan(self) -> Self:
        """The inverse tangent of each element; integers give floats."""
        if not self.dtype.is_complex:
            return super().atan()
        turned = self._times_i().atanh()
        return turned.imag.complex(turned.real.neg())
