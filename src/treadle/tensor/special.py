"""Special functions: those of libm and of statistics that are written with the others.

    Tensor([9.0]).erfc()            -> 4.1370318e-37: exact where 1 - erf(x) is 0
    Tensor([0.5, 4.0]).lgamma()     -> the logarithm of |gamma|
    y.atan2(x)                      -> the angle of (x, y), in all four quadrants

Integers become the default float first; half types are computed in float32. Errors are of a few
units in the last place of float32 and float64, or what a function's docstring says. Gradients are
those of the formulas, so they hold for any order.
"""

from __future__ import annotations

import math
from typing import Self

from ..dtype import DType, dtypes, finfo, least_upper_dtype
from ..errors import DTypeError
from ..ir.op import Op
from .operands import Operand
from .sharding import Sharding

__all__ = ["INTEGERS", "Special"]

_SINC_SERIES = tuple((-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(10)))
# lgamma(x + 2) / x on 0 <= x <= 1, and the tail of Stirling's series, from Cephes (gamma.c)
_LGAMMA_B = (
    -1.37825152569120859100e3, -3.88016315134637840924e4, -3.31612992738871184744e5,
    -1.16237097492762307383e6, -1.72173700820839662146e6, -8.53555664245765465627e5,
)  # fmt: skip
_LGAMMA_C = (
    1.0, -3.51815701436523470549e2, -1.70642106651881159223e4, -2.20528590553854454839e5,
    -1.13933444367982507207e6, -2.53252307177582951285e6, -2.01889141433532773231e6,
)  # fmt: skip
_STIRLING = (
    8.11614167470508450300e-4, -5.95061904284301438324e-4, 7.93650340457716943945e-4,
    -2.77777777730099687205e-3, 8.33333333333331927722e-2,
)  # fmt: skip
_SHIFTS = 11  # lgamma and digamma are brought beyond 13 and 10 by so many steps at most
# digamma(x) - log(x) + 1 / (2x), in powers of 1 / x^2: Bernoulli numbers over 2k
_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12, 0.0)
# powers of two: squares are normal numbers from the first to its inverse, and those of what is
# smaller or larger after multiplication with the second or third
_HYPOT_SCALES = {
    dtypes.float32: (2.0**-62, 2.0**87, 2.0**-66),
    dtypes.float64: (2.0**-510, 2.0**564, 2.0**-514),
}
_NORMAL_POWERS = {32: (-126, 127), 64: (-1022, 1023)}  # of 2
INTEGERS = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


class Special(Sharding):
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

    def xlogy(self, other: Operand) -> Self:
        """self * log(other), elementwise, and 0 where `self` is 0 (NaN if `other` is).

        Shapes broadcast, dtypes promote, integers give floats. Raises ShapeError.
        """
        other = self._as_tensor("xlogy", other)
        nothing = self.eq(0).bitwise_and(other.isnan().logical_not())
        return nothing.where(0.0, self.mul(nothing.where(1.0, other).log()))

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
        x = self._wide()
        reflected = x.lt(0.5)
        size = reflected.where(x.neg().add(1.0), x)  # at least 0.5
        large = size.ge(13.0)
        # brought into [2, 3) by lgamma(z + 1) = lgamma(z) + log(z)
        z, factor = large.where(2.5, size), large.where(1.0, 1.0).cast(x.dtype)
        for _ in range(2):
            low = z.lt(2.0)
            factor = low.where(factor.div(z), factor)
            z = low.where(z.add(1.0), z)
        for _ in range(_SHIFTS):
            high = z.ge(3.0)
            lower = high.where(z.sub(1.0), z)
            factor, z = high.where(factor.mul(lower), factor), lower
        z = z.sub(2.0)
        near = factor.log().add(z.mul(z._polynomial(_LGAMMA_B).div(z._polynomial(_LGAMMA_C))))
        infinite = size.isinf()
        far = large.bitwise_and(infinite.logical_not()).where(size, 13.0)
        inverse = far.reciprocal()
        series = inverse.square()._polynomial(_STIRLING).mul(inverse)
        stirling = far.sub(0.5).mul(far.log()).sub(far).add(0.5 * math.log(2 * math.pi))
        positive = large.where(infinite.where(size.square(), stirling.add(series)), near)
        # lgamma(x) = log(pi / |sin(pi x)|) - lgamma(1 - x)
        part = reflected.where(x, 0.25)
        sine = part.sub(part.round().detach()).mul(math.pi).sin()
        other = sine._magnitude().log().neg().add(math.log(math.pi)).sub(positive)
        result = reflected.where(x.eq(-math.inf).where(math.inf, other), positive)
        return result.cast(self._float().dtype)

    def digamma(self) -> Self:
        """The derivative of `lgamma` of each element; NaN at -1, -2, ..., -inf at 0; integers give
        floats.

        Errors are below 1e-6 (float32) or 1e-13 (float64) of the larger of 1 and the result. Raises
        DTypeError for complex numbers.
        """
        x = self._wide()
        reflected = x.lt(0.5)
        z = reflected.where(x.neg().add(1.0), x)
        total = x._filled(0.0)
        for _ in range(_SHIFTS):
            low = z.lt(10.0)
            total = low.where(total.sub(low.where(z, 1.0).reciprocal()), total)
            z = low.where(z.add(1.0), z)
        inverse = z.reciprocal()
        series = inverse.square()._polynomial(_DIGAMMA)
        positive = total.add(z.log()).sub(inverse.mul(0.5)).sub(series)
        part = reflected.where(x, 0.25)
        turn = part.sub(part.round().detach()).mul(math.pi)
        whole = turn.eq(0)
        cotangent = whole.where(1.0, turn.cos()).div(whole.where(1.0, turn.sin()))
        pole = x.eq(0).where(x.reciprocal().neg(), math.nan)
        other = whole.where(pole, positive.sub(cotangent.mul(math.pi)))
        return reflected.where(other, positive).cast(self._float().dtype)

    # -- angles and lengths -------------------------------------------------------------------

    def atan2(self, other: Operand) -> Self:
        """The angle from the positive first axis to (other, self), in -pi to pi; integers give
        floats.

        Shapes broadcast. Raises ShapeError, and DTypeError for complex numbers.
        """
        y, x = self._wide_pair("atan2", other)
        both_zero = y.eq(0).bitwise_and(x.eq(0))
        both_inf = y.isinf().bitwise_and(x.isinf())
        steep = y._magnitude().gt(x._magnitude())
        top, bottom = steep.where(x, y), steep.where(y, x)
        harmless = both_zero.bitwise_or(both_inf)
        ratio = harmless.where(top, top.div(harmless.where(1.0, bottom)))
        ratio = both_inf.where(y.sign().mul(x.sign()), ratio)
        angle = both_zero.where(y.detach(), ratio).atan()
        half = y.signbit().where(y._filled(-math.pi), math.pi)
        flat = x.signbit().where(angle.add(half), angle)
        return steep.where(half.mul(0.5).sub(angle), flat).cast(self._common_float(other))

    def hypot(self, other: Operand) -> Self:
        """sqrt(self ** 2 + other ** 2), elementwise, without overflow in between; integers give
        floats.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        x, y = self._wide_pair("hypot", other)
        top = x._magnitude().maximum(y._magnitude()).detach()
        infinite = x.isinf().bitwise_or(y.isinf())
        least, up, down = _HYPOT_SCALES[x.dtype]
        large, small = top.gt(1 / least), top.lt(least)
        scale = large.where(down, small.where(up, x._filled(1.0)))
        back = large.where(1 / down, small.where(1 / up, x._filled(1.0)))
        length = x.mul(scale).square().add(y.mul(scale).square()).sqrt().mul(back)
        return infinite.where(math.inf, length).cast(self._common_float(other))

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

    def signbit(self) -> Self:
        """Where an element is negative, -0.0 and NaN with a sign counted, as bool.

        Raises DTypeError for complex numbers.
        """
        if not self.dtype.is_float:
            return self.lt(0)
        return self._result(self.node.bitcast(INTEGERS[self.dtype.bits])).lt(0)

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
        """NaN and the infinities replaced, the latter by the largest finite numbers."""
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

    def _common_float(self, other: Operand) -> DType:
        return self.add(other)._float().dtype

    def _wide_pair(self, name: str, other: Operand) -> tuple[Self, Self]:
        """Both as floats of one type of at least 32 bits, broadcast."""
        other = self._operand(name, other)
        wide = self.add(other)._wide().dtype
        return self._wide().cast(wide), self._as_tensor(name, other)._wide().cast(wide)
