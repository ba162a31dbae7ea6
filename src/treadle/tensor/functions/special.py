"""Special functions: those of libm and of statistics that are written with the others.

    Tensor([9.0]).erfc()            -> 4.1370318e-37: exact where 1 - erf(x) is 0
    Tensor([0.5, 4.0]).lgamma()     -> the logarithm of |gamma|
    Tensor([0.5]).erfinv()          -> the x with erf(x) = 0.5

Integers become the default float first; half types are computed in float32. Errors are of a few
units in the last place of float32 and float64, or what a function's docstring says. Gradients are
those of the formulas, so they hold for any order.
"""

from __future__ import annotations

import math
from typing import Self

from ...dtype import dtypes, finfo, least_upper_dtype
from ...errors import DTypeError
from ...ir.op import Op
from ..basis import Basis
from ..basis.formulas import INTEGERS
from ..operands import Operand
from .gamma import digamma, lgamma

__all__ = ["Special"]

_SINC_SERIES = tuple((-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(10)))
_NORMAL_POWERS = {32: (-126, 127), 64: (-1022, 1023)}  # of 2


class Special(Basis):
    """Special functions on top of the common ones."""

    __slots__ = ()

    # -- exponentials and logarithms ----------------------------------------------------------

    def logaddexp2(self, other: Operand) -> Self:
        """log2(2 ** self + 2 ** other), elementwise, without overflow; integers give floats.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        other = self._as_tensor("logaddexp2", other)
        return self.mul(math.log(2)).logaddexp(other.mul(math.log(2))).mul(1 / math.log(2))

    def logit(self, eps: float | None = None) -> Self:
        """log(x / (1 - x)) of each element, NaN outside of 0 to 1; integers give floats.

        `eps` brings x into [eps, 1 - eps] first.
        """
        if self.dtype.is_complex:
            return self.log().sub(self.neg().log1p())
        x = self._wide()
        if eps is not None:
            x = x.clamp(eps, 1 - eps)
        low = x.lt(0.25)
        small, large = low.where(x, 0.25), low.where(0.5, x)
        # the two logarithms are nearly equal around 1/2; 2 x - 1 is exact from 1/4 on
        outer, inner = small.log().sub(small.neg().log1p()), large.mul(2.0).sub(1.0).atanh()
        result = low.where(outer, inner.mul(2.0))
        return result.cast(self._float().dtype)

    def ldexp(self, other: Operand) -> Self:
        """self * 2 ** other, elementwise; shapes broadcast, dtypes promote, integers give floats.
        Raises ShapeError.
        """
        other = self._as_tensor("ldexp", other)
        kind = self._float().dtype
        kind = least_upper_dtype(kind, other.dtype) if other.dtype.is_inexact else kind
        wide = kind if kind.bits >= 32 else dtypes.float32
        if kind.is_complex:
            return self.cast(kind).mul(other._float().exp2())
        # in factors that are normal numbers: what rounds, or overflows, is the last product alone
        low, high = _NORMAL_POWERS[wide.bits]
        rest, factors = other.cast(wide), []
        for _ in range(3):
            factors.append(rest._at_least("ldexp", low)._at_most("ldexp", high))
            rest = rest.sub(factors[-1])
        result = self.cast(wide)
        for power in reversed(factors):
            result = result.mul(power.exp2())
        return result.cast(kind)

    # -- around the normal distribution -------------------------------------------------------

    def erfc(self) -> Self:
        """1 - erf(x) of each element, exact to a few units in the last place where that is tiny
        too; integers give floats.

        Raises DTypeError for complex numbers.
        """
        return self._wide_unary(Op.ERFC)

    def erfinv(self) -> Self:
        """The x with erf(x) = self, elementwise; ±inf at ±1, NaN beyond; integers give floats.

        Raises DTypeError for complex numbers.
        """
        return self._wide_unary(Op.ERFINV)

    # -- gamma --------------------------------------------------------------------------------

    def lgamma(self) -> Self:
        """log(|gamma(x)|) of each element; inf at 0, -1, -2, ...; integers give floats.

        Errors are below 1e-6 (float32) or 1e-14 (float64) of the larger of 1 and the result. Raises
        DTypeError for complex numbers.
        """
        return lgamma(self)

    def digamma(self) -> Self:
        """The derivative of `lgamma` of each element; NaN at -1, -2, ..., -inf at 0; integers give
        floats.

        Errors are below 1e-6 (float32) or 1e-13 (float64) of the larger of 1 and the result. Raises
        DTypeError for complex numbers.
        """
        return digamma(self)

    # -- angles -------------------------------------------------------------------------------

    def sinc(self) -> Self:
        """sin(pi x) / (pi x), elementwise, 1 at 0; NaN at infinities; integers give floats. Raises
        DTypeError for complex numbers.
        """
        x = self._wide()
        # a quotient's derivative is the difference of two large numbers near 0
        near = x._magnitude().lt(0.3)
        square = near.where(x, 0.0).mul(math.pi).square()
        terms = _SINC_SERIES if x.dtype is dtypes.float64 else _SINC_SERIES[-6:]
        # the sine of what is beyond the nearest whole number, with the sign of that
        safe = near.where(1.0, x)
        whole = safe.round().detach()
        odd = whole.mod(2.0).ne(0)
        sine = safe.sub(whole).mul(math.pi).sin()
        wave = odd.where(sine.neg(), sine).div(safe.mul(math.pi))
        return near.where(square._polynomial(terms), wave).cast(self._float().dtype)

    def deg2rad(self) -> Self:
        """Degrees converted to radians, elementwise; integers give floats."""
        return self._float().mul(math.pi / 180)

    def rad2deg(self) -> Self:
        """Radians converted to degrees, elementwise; integers give floats."""
        return self._float().mul(180 / math.pi)

    # -- parts and neighbours of a number -----------------------------------------------------

    def fmod(self, other: Operand) -> Self:
        """The rest of a division rounded towards zero, elementwise: it has the sign of `self`.

        Shapes broadcast, dtypes promote; bools give int32. Raises ShapeError, and DTypeError for
        complex numbers.
        """
        other = self._as_tensor("fmod", other)
        if not (self.dtype.is_float or other.dtype.is_float):
            rest = self.mod(other)  # with the divisor's sign; no magnitude, for -128 has none
            beyond = rest.ne(0).bitwise_and(rest.lt(0).ne(self.lt(0)))
            return beyond.where(rest.sub(other), rest)
        size = self._magnitude().mod(other._magnitude())
        signed = self.lt(0).where(size.neg(), size)
        return self.eq(0).bitwise_and(size.eq(0)).where(self, signed)

    def frac(self) -> Self:
        """What is beyond the whole part of each element, with its sign, in its dtype.

        Raises DTypeError for bools and complex numbers.
        """
        return self.sub(self.trunc())

    def nextafter(self, other: Operand) -> Self:
        """The neighbouring float of each element towards `other`, which moves as this one does.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError unless both are floats.
        """
        other = self._as_tensor("nextafter", other)
        if not (self.dtype.is_float and other.dtype.is_float):
            raise DTypeError(
                f"[nextafter] needs floats, not {self.dtype.name} and {other.dtype.name}"
            )
        dtype = self.add(other).dtype
        x, y = self.cast(dtype), other.cast(dtype)
        bits = x._result(x.node.bitcast(INTEGERS[dtype.bits]))
        outwards = x.lt(y).eq(x.gt(0))
        moved = outwards.where(bits.add(1), bits.sub(1))
        least = bits.mul(0).add(1)
        first = y.gt(0).where(least, least.add(bits.dtype.min))
        stepped = x.eq(0).where(first, moved)
        result = stepped._result(stepped.node.bitcast(dtype))
        value = x.eq(y).where(y, x.isnan().bitwise_or(y.isnan()).where(math.nan, result)).detach()
        still = x.eq(y).bitwise_or(x.isfinite().logical_not())
        return value.sub(still.where(0.0, x.detach().sub(x)))  # minus 0: a zero keeps its sign

    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Self:
        """Elements that are NaN or infinite replaced, the latter by the largest finite numbers; in
        each part.

        Shape and dtype stay; integers are themselves.
        """
        if self.dtype.is_complex:
            re, im = (part.nan_to_num(nan, posinf, neginf) for part in (self.real, self.imag))
            return re.complex(im)
        if not self.dtype.is_float:
            return self._again()
        largest = finfo(self.dtype).max
        high = largest if posinf is None else posinf
        low = -largest if neginf is None else neginf
        finite = self.eq(math.inf).where(high, self.eq(-math.inf).where(low, self))
        return self.isnan().where(nan, finite)

    def heaviside(self, values: Operand) -> Self:
        """0 below zero, 1 above, `values` at zero, elementwise; NaN stays NaN.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        step = self.eq(0).where(values, self.gt(0).cast(self.dtype))
        return self.isnan().where(self, step) if self.dtype.is_float else step

    def isposinf(self) -> Self:
        """Where elements are +inf, as bool in this shape. Raises DTypeError for complex numbers."""
        return self.isinf(detect_negative=False)

    def isneginf(self) -> Self:
        """Where elements are -inf, as bool in this shape. Raises DTypeError for complex numbers."""
        return self.isinf(detect_positive=False)

    def logical_xor(self, x: Operand) -> Self:
        """Where exactly one of the two is not 0, as bool; shapes broadcast. Raises ShapeError."""
        return self.bool().bitwise_xor(self._as_tensor("logical_xor", x).bool())
