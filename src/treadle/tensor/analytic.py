"""Functions of complex numbers, from those of their real and imaginary parts.

    Tensor([1j * math.pi]).exp()   -> [-1.+0.j], nearly
    Tensor([-1 + 0j]).sqrt()       -> [0.+1.j]; of floats it is NaN

Branch cuts lie on the negative real axis, as in C and NumPy, and signed zeros say on which side.
"""

from __future__ import annotations

import math
from typing import Any, Self

from ..dtype import complex_of
from .complexes import Complexes
from .operands import is_scalar, weak_dtype

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
        size, angle = self.real.exp(), self.imag
        flat = angle.eq(0).bitwise_and(size.isinf())  # inf * 0
        im = flat.where(0.0, size.mul(flat.where(0.0, angle.sin())))
        return size.mul(angle.cos()).complex(im)

    def exp2(self) -> Self:
        """2 to the power of each element; integers give floats."""
        return self.mul(math.log(2)).exp() if self.dtype.is_complex else super().exp2()

    def log(self) -> Self:
        """The natural logarithm of each element; integers give floats.

        Real ones give NaN below 0, -inf at 0; complex ones have an angle from -pi to pi.
        """
        if not self.dtype.is_complex:
            return super().log()
        x, y, size = self.real, self.imag, self.abs()
        # near a length of 1, where that rounds away what its logarithm is made of
        near = size.gt(0.5).bitwise_and(size.lt(2.0))
        steep = x._magnitude().lt(y._magnitude())
        large, small = steep.where(y, x), steep.where(x, y)
        beyond = large.sub(1.0).mul(large.add(1.0)).add(small.square())
        close = near.where(beyond, 0.0).log1p().mul(0.5)
        return near.where(close, near.where(1.0, size).log()).complex(self.angle())

    def log2(self) -> Self:
        """The logarithm to base 2 of each element; integers give floats.

        Of floats NaN below 0, -inf at 0.
        """
        return self.log().mul(1 / math.log(2)) if self.dtype.is_complex else super().log2()

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
        return self.log().mul(1 / math.log(10)) if self.dtype.is_complex else super().log10()

    def sqrt(self) -> Self:
        """The square root of each element; integers give floats.

        Of floats NaN below 0, of complex numbers the one to the right.
        """
        if not self.dtype.is_complex:
            return super().sqrt()
        zero = self.eq(0)
        x, y = zero.where(1.0, self.real), self.imag
        # sqrt((|x| + |z|) / 2), the part without cancellation
        large = x._magnitude().mul(0.5).add(x.hypot(y).mul(0.5)).sqrt()
        small = y.div(large).mul(0.5)
        left, below, endless = x.lt(0), y.signbit(), y.isinf()
        re = left.where(below.where(small.neg(), small), large)
        im = left.where(below.where(large.neg(), large), small)
        re = zero.where(0.0, endless.where(math.inf, re))
        return re.complex(zero.bitwise_or(endless).where(y.detach(), im))

    def sin(self) -> Self:
        """The sine of each element, in radians; integers give floats."""
        if not self.dtype.is_complex:
            return super().sin()
        x, y = self.real, self.imag
        return x.sin().mul(y.cosh()).complex(x.cos().mul(y.sinh()))

    def cos(self) -> Self:
        """The cosine of each element, in radians; integers give floats."""
        if not self.dtype.is_complex:
            return super().cos()
        x, y = self.real, self.imag
        return x.cos().mul(y.cosh()).complex(x.sin().mul(y.sinh()).neg())

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
        return x.sinh().mul(y.cos()).complex(x.cosh().mul(y.sin()))

    def cosh(self) -> Self:
        """The hyperbolic cosine of each element; integers give floats."""
        if not self.dtype.is_complex:
            return super().cosh()
        x, y = self.real, self.imag
        return x.cosh().mul(y.cos()).complex(x.sinh().mul(y.sin()))

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
        return re.complex(far.where(wave.mul(rest), wave.div(below)))

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x)), elementwise; integers give floats."""
        if not self.dtype.is_complex:
            return super().sigmoid()
        return self.mul(0.5).tanh().mul(0.5).add(0.5)

    def _times_i(self) -> Self:
        return self.imag.neg().complex(self.real)

    def pow(self, x: Any, reverse: Any = False) -> Self:
        """`self ** x`, elementwise; shapes broadcast, dtypes promote; bools give int32.

        Integers to an integer power stay integers and wrap. Of complex numbers the principal value.
        Raises ShapeError, and DTypeError for a negative integer power of integers.
        """
        x = self._operand("pow", x)
        number = is_scalar(x)
        theirs = isinstance(x, complex) if number else x.dtype.is_complex
        if not (self.dtype.is_complex or theirs):
            return super().pow(x, reverse)
        if number and not reverse and not theirs:
            if x == 0.5:
                return self.sqrt()
            if abs(x) <= _LARGEST_POWER and x == int(x):
                return self._whole_power(int(x))
        if number:
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
        return self._filled(1).expand(self.shape) if total is None else total
