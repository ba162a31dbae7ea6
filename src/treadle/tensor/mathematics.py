"""Mathematical functions of each element: exponentials, trigonometry, rounding, classification.

    Tensor([0.0, 1.0]).exp()    -> float32; integers become the default float first

What is no op of its own is written with ops whose gradients exist, so these have them too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from ..dtype import dtypes, least_upper_dtype, least_upper_float
from ..errors import ArgumentError
from ..explained import explained
from ..ir.node import Node, alu
from ..ir.op import Op
from ..lower.polynomials import ASIN
from .elementwise import Elementwise
from .operands import Operand, is_scalar
from .shapes import broadcast_shapes

__all__ = ["Mathematics"]

# atan on |x| <= 0.66, from Cephes (S. L. Moshier, atan.c): x + x^3 P(x^2) / Q(x^2)
_ATAN_P = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
    -1.228866684490136173410e2, -6.485021904942025371773e1,
)  # fmt: skip
_ATAN_Q = (
    1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
    4.853903996359136964868e2, 1.945506571482613964425e2,
)  # fmt: skip
# pi less its value in the type
_PI_TAIL = {dtypes.float32: -8.742278000372486e-08, dtypes.float64: 1.2246467991473532e-16}
_EXPM1_SERIES = tuple(1 / math.factorial(k + 1) for k in reversed(range(16)))
_SINH_SERIES = tuple(1 / math.factorial(2 * k + 1) for k in reversed(range(9)))


class Mathematics(Elementwise):
    """Functions of one tensor on top of arithmetic."""

    __slots__ = ()

    def _float_unary(self, op: Op) -> Self:
        return self._float()._unary(op)

    def log(self) -> Self:
        """The natural logarithm of each element; integers give floats. NaN below 0, -inf at 0."""
        return self._float_unary(Op.LOG)

    def log2(self) -> Self:
        """The logarithm to base 2, elementwise: NaN below 0, -inf at 0."""
        return self._float_unary(Op.LOG2)

    def log10(self) -> Self:
        """The logarithm to base 10 of each element; integers give floats."""
        return self._wide_unary(Op.LOG10)

    def log1p(self) -> Self:
        """log(1 + x) of each element, exact near 0; integers give floats."""
        return self._wide_unary(Op.LOG1P)

    def exp(self) -> Self:
        """e to the power of each element."""
        return self._float_unary(Op.EXP)

    def exp2(self) -> Self:
        """2 to the power of each element."""
        return self._float_unary(Op.EXP2)

    def sqrt(self) -> Self:
        """The square root, elementwise: NaN below 0."""
        return self._float_unary(Op.SQRT)

    def rsqrt(self) -> Self:
        """1 / sqrt(x) of each element; integers give floats."""
        return self.sqrt().reciprocal()

    def reciprocal(self) -> Self:
        """1 / x, elementwise: integers give floats."""
        return self._float_unary(Op.RECIP)

    def sin(self) -> Self:
        """The sine of each element, in radians."""
        return self._float_unary(Op.SIN)

    def cos(self) -> Self:
        """The cosine of each element, in radians."""
        return self._float_unary(Op.COS)

    def tan(self) -> Self:
        """The tangent of each element, in radians."""
        return self._float_unary(Op.TAN)

    def tanh(self) -> Self:
        """The hyperbolic tangent of each element; integers give floats."""
        return self._float_unary(Op.TANH)

    def erf(self) -> Self:
        """The error function of each element; integers give floats.

        Raises DTypeError for complex numbers.
        """
        return self._float_unary(Op.ERF)

    def atan(self) -> Self:
        """The arc tangent of each element, in radians; integers give floats."""
        x = self._wide()
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
        return x._odd(result).cast(self._float().dtype)

    def asin(self) -> Self:
        """Arc sine, in radians; NaN outside -1 to 1."""
        x = self._wide()
        size, outer = x._magnitude(), x._magnitude().gt(0.5)
        sine, rest = size._arc_sine_parts(outer)
        # pi/2 - 2 asin, of which pi/4 is taken first: that loses nothing, or less than it would
        less = sine.mul(2.0).sub(math.pi / 4).add(rest.mul(2.0).sub(_PI_TAIL[x.dtype] / 2))
        angle = outer.where(less.neg().add(math.pi / 4), sine.add(rest))
        return x._odd(angle).cast(self._float().dtype)

    def acos(self) -> Self:
        """Arc cosine, in radians; NaN outside -1 to 1."""
        x = self._wide()
        size, outer, negative = x._magnitude(), x._magnitude().gt(0.5), x.lt(0)
        sine, rest = size._arc_sine_parts(outer)
        # 2 asin of the outer ones, less than a half turn or nothing; a quarter turn less asin(x)
        is_less = outer.eq(negative)
        factor = outer.where(2.0, x._filled(1.0))
        factor = is_less.where(factor, factor.neg())
        turns = outer.where(negative.where(1.0, x._filled(0.0)), 0.5)
        head = turns.mul(math.pi).sub(sine.mul(factor))
        tail = rest.mul(factor).sub(turns.mul(_PI_TAIL[x.dtype]))
        return head.sub(tail).cast(self._float().dtype)

    def _arc_sine_parts(self, outer: Self) -> tuple[Self, Self]:
        """(s, asin(s) - s) of these sizes, or where `outer`, of sines of half the missing angle.

        asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)), and 1 - x is exact from 1/2 on.
        """
        half = outer.where(self.neg().add(1.0), 0.5).mul(0.5)
        sine = outer.where(half.sqrt(), self)
        square = outer.where(half, self.mul(self))
        series = square._polynomial(ASIN[self.dtype.bits][::-1])
        return sine, sine.mul(square.mul(series))

    def expm1(self) -> Self:
        """exp(x) - 1 of each element, exact near 0; integers give floats."""
        x = self._wide()
        small = x.abs().lt(0.5)
        inner = small.where(x, 0.0)
        terms = _EXPM1_SERIES if x.dtype is dtypes.float64 else _EXPM1_SERIES[-9:]
        result = small.where(inner.mul(inner._polynomial(terms)), x.exp().sub(1.0))
        return result.cast(self._float().dtype)

    def sinh(self) -> Self:
        """The hyperbolic sine of each element; integers give floats."""
        x = self._wide()
        small = x.abs().lt(1.0)
        inner = small.where(x, 0.0)
        series = inner.mul(inner.mul(inner)._polynomial(_SINH_SERIES))
        return small.where(series, x._half_exp().sub(x.neg()._half_exp())).cast(self._float().dtype)

    def cosh(self) -> Self:
        """The hyperbolic cosine of each element; integers give floats."""
        x = self._wide()
        return x._half_exp().add(x.neg()._half_exp()).cast(self._float().dtype)

    def _half_exp(self) -> Self:
        """exp(x) / 2, also where exp(x) overflows: there 0.8125 less than x is exact.

        Half the exponential of 0.8125 is nearly a float32.
        """
        far = self.gt(88.0 if self.dtype is dtypes.float32 else 709.0)
        return (
            self.sub(far.where(0.8125, self._filled(0.0)))
            .exp()
            .mul(far.where(math.exp(0.8125) / 2, self._filled(0.5)))
        )

    def asinh(self) -> Self:
        """The inverse hyperbolic sine, elementwise."""
        return self._wide_unary(Op.ASINH)

    def acosh(self) -> Self:
        """Inverse hyperbolic cosine; NaN below 1."""
        return self._wide_unary(Op.ACOSH)

    def atanh(self) -> Self:
        """Inverse hyperbolic tangent; NaN outside -1 to 1."""
        return self._wide_unary(Op.ATANH)

    def _wide_unary(self, op: Op) -> Self:
        """`op` whose slope would lose too much, or overflow, in less than 32 bits."""
        return self._wide()._unary(op).cast(self._float().dtype)

    def _wide(self) -> Self:
        """As floats of at least 32 bits, for formulas that would lose too much in less."""
        x = self._float()
        return x.cast(dtypes.float32) if x.dtype.bits < 32 else x

    def _magnitude(self) -> Self:
        """The absolute value with slope 1 at 0, where an odd function has a slope."""
        return self.lt(0).where(self.neg(), self)

    def _odd(self, size: Self) -> Self:
        """`size` with this tensor's sign, for odd functions of slope 1 at 0, where -0.0 stays."""
        return self.eq(0).where(self, self.lt(0).where(size.neg(), size))

    def _filled(self, value: complex) -> Self:
        """A constant of this tensor's dtype that broadcasts to it."""
        return type(self)._of(Node.const(self.dtype, value), self.device)

    def _polynomial(self, coefficients: Sequence[float]) -> Self:
        """Horner's rule, highest power first."""
        total = self.mul(coefficients[0]).add(coefficients[1])
        for coefficient in coefficients[2:]:
            total = total.mul(self).add(coefficient)
        return total

    # -- rounding and signs -------------------------------------------------------------------

    def _rounded(self, op: Op) -> Self:
        return self._unary(op) if self.dtype.is_inexact else self

    def trunc(self) -> Self:
        """Each element rounded towards zero, in its own dtype. Raises DTypeError for complex
        numbers.
        """
        return self._rounded(Op.TRUNC)

    def ceil(self) -> Self:
        """Each element rounded up, in its own dtype. Raises DTypeError for complex numbers."""
        return self._rounded(Op.CEIL)

    def floor(self) -> Self:
        """Each element rounded down, in its own dtype. Raises DTypeError for complex numbers."""
        return self._rounded(Op.FLOOR)

    @explained
    def round(self, decimals: int = 0) -> Self:
        """Rounded to nearest, ties to even, elementwise, in its own dtype.

        `decimals`: to so many digits behind the point, or if negative, in front of it. Raises
        DTypeError for complex numbers.
        """
        if not decimals or not self.dtype.is_float:
            return self._rounded(Op.ROUND)
        scale = 10.0 ** abs(decimals)
        if decimals > 0:
            return self.mul(scale)._rounded(Op.ROUND).div(scale)
        return self.div(scale)._rounded(Op.ROUND).mul(scale)

    def abs(self) -> Self:
        """The magnitude of each element, of the same dtype."""
        if self.dtype.is_bool or self.dtype.is_unsigned:
            return self._again()
        size = alu(Op.MAX, self.node, alu(Op.NEG, self.node))
        # of equals a maximum may be either one: adding 0 makes -0.0 the other
        return self._result(size + 0.0 if size.dtype.is_float else size)

    def sign(self) -> Self:
        """-1, 0 or 1 for each element, in its dtype; NaN stays NaN. Raises DTypeError for complex
        numbers.
        """
        if self.dtype.is_bool or self.dtype.is_unsigned:
            return self.ne(0).cast(self.dtype)
        signs = self.lt(0).where(self._filled(-1), self.gt(0).where(self._filled(1), 0))
        return self.ne(self).where(self, signs) if self.dtype.is_float else signs

    def copysign(self, other: Operand) -> Self:
        """The size of each element with the sign of `other`'s, -0.0 counted as negative; integers
        give floats.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        other = self._as_tensor("copysign", other)
        broadcast_shapes("copysign", self.shape, other.shape)
        negative = other._has_sign_bit() if other.dtype.is_float else other.lt(0)
        size = self.cast(least_upper_float(least_upper_dtype(self.dtype, other.dtype))).abs()
        return negative.where(size.neg(), size)

    def _has_sign_bit(self) -> Self:
        """Where floats are negative, -0.0 and NaN with a sign counted."""
        bits = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}
        return self._result(self.node.bitcast(bits[self.dtype.bits])).lt(0)

    def square(self) -> Self:
        """Each element times itself, in its own dtype."""
        return self.mul(self)

    def isnan(self) -> Self:
        """Where elements are NaN, as bool in this shape."""
        return self.ne(self)

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """Where a value is +inf or -inf, or only one of them."""
        positive = self.eq(math.inf).bitwise_and(bool(detect_positive))
        return positive.bitwise_or(self.eq(-math.inf).bitwise_and(bool(detect_negative)))

    def isfinite(self) -> Self:
        """Where elements are neither infinite nor NaN, as bool in this shape."""
        return self.isinf().bitwise_or(self.isnan()).logical_not()

    @explained
    def isclose(
        self, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Self:
        """Where `|self - other| <= atol + rtol * |other|`, or both are the same infinity: bool.

        Shapes broadcast; `equal_nan` says whether NaN is close to NaN. Raises ShapeError,
        DTypeError for bools, ArgumentError for tolerances below 0.
        """
        if rtol < 0 or atol < 0:
            raise ArgumentError(f"[isclose] tolerances are at least 0, not {rtol} and {atol}")
        other = self._as_tensor("isclose", other)
        broadcast_shapes("isclose", self.shape, other.shape)
        limit = other.abs().mul(rtol).add(atol)
        near = self.isfinite().bitwise_and(other.isfinite())
        near = near.bitwise_and(self.sub(other).abs().le(limit)).bitwise_or(self.eq(other))
        if equal_nan:
            near = near.bitwise_or(self.isnan().bitwise_and(other.isnan()))
        return near

    @explained
    def clamp(self, min_: Operand | None = None, max_: Operand | None = None) -> Self:
        """Elements below `min_` or above `max_` replaced by them; either may be a tensor.

        Shapes broadcast, dtypes promote: a float as a bound makes floats of integers. Raises
        ShapeError, DTypeError for complex numbers, ArgumentError for no bound at all.
        """
        if min_ is None and max_ is None:
            raise ArgumentError("[clamp] give min_, max_ or both")
        bounds = [bound for bound in (min_, max_) if bound is not None and not is_scalar(bound)]
        broadcast_shapes("clamp", self.shape, *(self._as_tensor("clamp", b).shape for b in bounds))
        low = self if min_ is None else self.lt(min_).where(min_, self)
        return low if max_ is None else low.gt(max_).where(max_, low)

    def clip(self, min_: Operand | None = None, max_: Operand | None = None) -> Self:
        """Elements below `min_` or above `max_` replaced by them: `clamp`, under NumPy's name.

        Shapes broadcast, dtypes promote: a float as a bound makes floats of integers. Raises
        ShapeError, DTypeError for complex numbers, ArgumentError for no bound at all.
        """
        return self.clamp(min_, max_)

    def lerp(self, end: Operand, weight: Operand) -> Self:
        """`self + (end - self) * weight`, elementwise; shapes broadcast, dtypes promote.

        Raises ShapeError, DTypeError for bools.
        """
        end = self._as_tensor("lerp", end)
        broadcast_shapes("lerp", self.shape, end.shape)
        return self.add(end.sub(self).mul(weight))

    def logaddexp(self, other: Operand) -> Self:
        """log(exp(self) + exp(other)), elementwise, without overflow; integers give floats.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        other = self._as_tensor("logaddexp", other)
        top = self.maximum(other)
        endless = top.isinf()
        level = endless.where(0.0, top.detach())
        a, b = (endless.where(0.0, each.sub(level)) for each in (self, other))
        # exp of the larger one is 1, which log1p counts; less 1 it is 0, with its derivatives
        is_first = self.ge(other)
        larger, smaller = is_first.where(a, b), is_first.where(b, a)
        beyond = larger.exp().sub(1.0).add(smaller.exp())
        return endless.where(top, beyond.log1p().add(level))
