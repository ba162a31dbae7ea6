"""Functions of complex numbers, from those of their real and imaginary parts.

    Tensor([1j * math.pi]).exp()   -> [-1.+0.j], nearly
    Tensor([-1 + 0j]).sqrt()       -> [0.+1.j]; of floats it is NaN

Branch cuts lie on the negative real axis, as in C and NumPy, and signed zeros say on which side.
Infinities and NaN give what C99 (annex G) and the Array API say: where a product of parts would be
inf * 0, or of an angle that is none, the part is given apart.
"""

from __future__ import annotations

import math
from typing import Self

from ..dtype import complex_of, finfo
from .complexes import Complexes
from .operands import Operand, is_scalar, weak_dtype

__all__ = ["Analytic"]

_SATURATED = 20.0  # tanh of more is 1 in every type
_LARGEST_POWER = 32  # of integers that are multiplied out


class Analytic(Complexes):
    """Each method is that of real numbers where the tensor is real."""

    __slots__ = ()

    def exp(self) -> Self:
        """e to the power of each element; integers give floats."""
        if not self.dtype.is_complex:
            return super().exp()
        x, y = self.real, self.imag
        aimless = x.isinf().bitwise_and(y.isfinite().logical_not())
        # A size beyond the largest number may have a part that is not: it is multiplied in halves.
        large = x.gt(math.log(finfo(x.dtype).max)).bitwise_and(x.isfinite())
        size = large.where(x.mul(0.5), x).exp()
        again = large.where(size, 1.0)
        re = size.mul(aimless.where(1.0, y.cos())).mul(again)
        flat = y.eq(0).bitwise_and(size.mul(again).isfinite().logical_not())
        im = flat.where(y, size.mul(flat.where(0.0, y.sin())).mul(again))
        return re.complex(aimless.where(x.lt(0).where(y._signed_zero(), math.nan), im))

    def _signed_zero(self) -> Self:
        """-0.0 below 0, else 0.0."""
        return self.lt(0).where(-0.0, self._filled(0.0))

    def expm1(self) -> Self:
        """exp(x) - 1 of each element, exact near 0; integers give floats."""
        if not self.dtype.is_complex:
            return super().expm1()
        near = self.real.abs().lt(1).bitwise_and(self.imag.isfinite())
        x, y = (near.where(part, 0.0) for part in (self.real, self.imag))
        # exp(x) cos(y) - 1, of which nothing cancels
        exact = x.expm1().mul(y.cos()).sub(y.mul(0.5).sin().square().mul(2))
        whole = self.exp()
        found = near.where(exact, whole.real.sub(1)).complex(whole.imag)
        return self.eq(0).where(self, found)

    def exp2(self) -> Self:
        """2 to the power of each element; integers give floats."""
        return self.mul(math.log(2)).exp() if self.dtype.is_complex else super().exp2()

    def log(self) -> Self:
        """The natural logarithm of each element; integers give floats.

        Real ones give NaN below 0, -inf at 0; complex ones have an angle from -pi to pi.
        """
        if not self.dtype.is_complex:
            return super().log()
        x, y = self.real, self.imag
        scaled, back = self._within_range()
        size = scaled.abs()
        # near a length of 1, where that rounds away what its logarithm is made of
        near = size.gt(0.5).bitwise_and(size.lt(2.0)).bitwise_and(back.eq(1.0))
        steep = x._magnitude().lt(y._magnitude())
        large, small = steep.where(y, x), steep.where(x, y)
        beyond = large.sub(1.0).mul(large.add(1.0)).add(small.square())
        close = near.where(beyond, 0.0).log1p().mul(0.5)
        far = near.where(1.0, size).log().add(back.log())
        return near.where(close, far).complex(self.angle())

    def _within_range(self) -> tuple[Self, Self]:
        """These numbers, those whose length might overflow in quarters; and 4 for these, 1 for the
        others.
        """
        limit = finfo(self.dtype).max / 4
        large = self.real.abs().gt(limit).bitwise_or(self.imag.abs().gt(limit))
        part = large.where(0.25, self.real._filled(1.0))
        return self.real.mul(part).complex(self.imag.mul(part)), part.reciprocal()

    def log2(self) -> Self:
        """The logarithm to base 2 of each element; integers give floats.

        Of floats NaN below 0, -inf at 0.
        """
        return self._log_to(2) if self.dtype.is_complex else super().log2()

    def _log_to(self, base: int) -> Self:
        """By parts: an infinite one makes no NaN of the other."""
        log, factor = self.log(), 1 / math.log(base)
        return log.real.mul(factor).complex(log.imag.mul(factor))

    def log1p(self) -> Self:
        """log(1 + x) of each element, exact near 0; integers give floats."""
        if not self.dtype.is_complex:
            return super().log1p()
        x, y = self.real, self.imag
        moved = x.add(1.0).complex(y)
        near = x.abs().lt(0.5).bitwise_and(y.abs().lt(0.5))
        beyond = x.mul(x.add(2.0)).add(y.square())  # of the square of the length, beyond 1
        close = near.where(beyond, 0.0).log1p().mul(0.5)
        return near.where(close, near.where(1.0, moved).log().real).complex(moved.angle())

    def log10(self) -> Self:
        """The logarithm to base 10 of each element; integers give floats."""
        return self._log_to(10) if self.dtype.is_complex else super().log10()

    def sqrt(self) -> Self:
        """The square root of each element; integers give floats.

        Of floats NaN below 0, of complex numbers the one to the right.
        """
        if not self.dtype.is_complex:
            return super().sqrt()
        zero = self.eq(0)
        scaled, back = self._within_range()
        x, y = zero.where(1.0, scaled.real), scaled.imag
        # sqrt((|x| + |z|) / 2), the part without cancellation
        large = x._magnitude().mul(0.5).add(x.hypot(y).mul(0.5)).sqrt()
        small = y.div(large).mul(0.5)
        left, below, endless = x.lt(0), y.signbit(), y.isinf()
        back = back.sqrt()
        re = left.where(below.where(small.neg(), small), large).mul(back)
        im = left.where(below.where(large.neg(), large), small).mul(back)
        re = zero.where(0.0, endless.where(math.inf, re))
        return re.complex(zero.bitwise_or(endless).where(y.detach(), im))

    def sin(self) -> Self:
        """The sine of each element, in radians; integers give floats."""
        if not self.dtype.is_complex:
            return super().sin()
        turned = self._times_i().sinh()
        return turned.imag.complex(turned.real.neg())

    def cos(self) -> Self:
        """The cosine of each element, in radians; integers give floats."""
        if not self.dtype.is_complex:
            return super().cos()
        return self._times_i().cosh()

    def tan(self) -> Self:
        """The tangent of each element, in radians; integers give floats."""
        if not self.dtype.is_complex:
            return super().tan()
        turned = self._times_i().tanh()
        return turned.imag.complex(turned.real.neg())

    def sinh(self) -> Self:
        """The hyperbolic sine of each element; integers give floats."""
        if not self.dtype.is_complex:
            return super().sinh()
        x, y = self.real, self.imag
        aimless, flat = self._edges()
        re = aimless.where(x, x.sinh().mul(aimless.where(1.0, y.cos())))
        return re.complex(flat.where(y, x.cosh().mul(flat.where(0.0, y.sin()))))

    def _edges(self) -> tuple[Self, Self]:
        """Where the imaginary part is no angle, beside 0 or an infinity; and where it is 0, beside
        what has no finite hyperbolic cosine.
        """
        x, y = self.real, self.imag
        aimless = y.isfinite().logical_not().bitwise_and(x.eq(0).bitwise_or(x.isinf()))
        return aimless, y.eq(0).bitwise_and(x.cosh().isfinite().logical_not())

    def cosh(self) -> Self:
        """The hyperbolic cosine of each element; integers give floats."""
        if not self.dtype.is_complex:
            return super().cosh()
        x, y = self.real, self.imag
        aimless, flat = self._edges()
        endless = aimless.bitwise_and(x.isinf())
        re = endless.where(math.inf, x.cosh().mul(endless.where(1.0, y.cos())))
        im = x.sinh().mul(flat.where(0.0, y.sin()))
        level = x.lt(0).where(y.neg(), y)  # with the sign of sinh(x) y
        im = flat.where(level, aimless.bitwise_and(x.eq(0)).where(y._signed_zero(), im))
        return re.complex(im)

    def tanh(self) -> Self:
        """The hyperbolic tangent of each element; integers give floats."""
        if not self.dtype.is_complex:
            return super().tanh()
        x, y = self.real, self.imag
        far = x._magnitude().gt(_SATURATED)
        inner, wave = far.where(0.5, x), y.sin().mul(y.cos())
        below = inner.sinh().square().add(y.cos().square())
        re = far.where(x.sign(), inner.sinh().mul(inner.cosh()).div(below))
        rest = far.where(x._magnitude(), 1.0).mul(-2.0).exp().mul(4.0)
        im = far.where(wave.mul(rest), wave.div(below))
        aimless, flat = self._edges()
        beyond = x.isinf().where(x.sign(), x)
        re = aimless.where(beyond, y.isfinite().where(re, math.nan))
        im = aimless.bitwise_and(x.isinf()).where(y._signed_zero(), im)
        return re.complex(flat.where(y, im))

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x)), elementwise; integers give floats."""
        if not self.dtype.is_complex:
            return super().sigmoid()
        return self.mul(0.5).tanh().mul(0.5).add(0.5)

    def _times_i(self) -> Self:
        return self.imag.neg().complex(self.real)

    def pow(self, x: Operand, reverse: bool = False) -> Self:
        """`self ** x`, elementwise; shapes broadcast, dtypes promote; bools give int32.

        Integers to an integer power stay integers and wrap. Of complex numbers the principal value.
        Raises ShapeError, and DTypeError for a negative integer power of integers.
        """
        x = self._operand("pow", x)
        theirs = isinstance(x, complex) if is_scalar(x) else x.dtype.is_complex
        if not (self.dtype.is_complex or theirs):
            return super().pow(x, reverse)
        if is_scalar(x) and not isinstance(x, complex) and not reverse:
            if x == 0.5:
                return self.sqrt()
            if abs(x) <= _LARGEST_POWER and x == int(x):
                return self._whole_power(int(x))
        if is_scalar(x):
            x = self.cast(weak_dtype(x, self.dtype))._filled(x)
        return x._principal_power(self) if reverse else self._principal_power(x)

    def _principal_power(self, exponent: Self) -> Self:
        zero, exponent = self.eq(0), exponent.cast(complex_of(exponent._float().dtype))
        safe = zero.where(1.0, self)
        power = safe.cast(complex_of(safe._float().dtype)).log().mul(exponent).exp()
        rising = exponent.real.gt(0)
        return zero.where(exponent.eq(0).where(1.0, rising.where(0.0, math.nan)), power)

    def _whole_power(self, exponent: int) -> Self:
        if exponent < 0:
            return self._whole_power(-exponent).reciprocal()
        total, square = None, self
        while exponent:
            if exponent & 1:
                total = square if total is None else total.mul(square)
            exponent >>= 1
            square = square.square() if exponent else square
        return self._filled(1).expand(self.shape)._again() if total is None else total
