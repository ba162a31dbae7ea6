"""Mathematical functions of each element: exponentials, trigonometry, rounding, classification.

    Tensor([0.0, 1.0]).exp()    -> float32; integers become the default float first
    Tensor([-1 + 0j]).sqrt()    -> [0.+1.j]; of floats it is NaN

`reals` has the formulas of real numbers, `complexes` those of complex ones.
"""

from __future__ import annotations

import math
from typing import Self

from ...dtype import dtypes, least_upper_float, promoted
from ...errors import ArgumentError, DTypeError
from ...explained import explained
from ...ir.node import Node
from ...ir.op import Op
from ..operands import Operand, is_scalar
from ..shapes import broadcast_shapes, expand
from ..types import Scalar
from . import complex_arcs, complexes, powers, reals
from .formulas import Formulas

__all__ = ["Mathematics"]


class Mathematics(Formulas):
    """Functions of each element; where elements are complex numbers, by formulas for these."""

    __slots__ = ()

    # -- exponentials, logarithms and powers --------------------------------------------------

    def exp(self) -> Self:
        """e to the power of each element; integers give floats."""
        return complexes.exp(self) if self.dtype.is_complex else reals.exp(self)

    def exp2(self) -> Self:
        """2 to the power of each element; integers give floats."""
        return complexes.exp2(self) if self.dtype.is_complex else self._float_unary(Op.EXP2)

    def expm1(self) -> Self:
        """exp(x) - 1 of each element, exact near 0; integers give floats."""
        return complexes.expm1(self) if self.dtype.is_complex else reals.expm1(self)

    def log(self) -> Self:
        """The natural logarithm of each element; integers give floats.

        Real ones give NaN below 0, -inf at 0; complex ones have an angle from -pi to pi.
        """
        return complexes.log(self) if self.dtype.is_complex else reals.log(self)

    def log2(self) -> Self:
        """The logarithm to base 2 of each element; integers give floats.

        Of floats NaN below 0, -inf at 0.
        """
        if self.dtype.is_complex:
            return complexes.log_to_base(self, 2)
        return self._float_unary(Op.LOG2)

    def log10(self) -> Self:
        """The logarithm to base 10 of each element; integers give floats."""
        if self.dtype.is_complex:
            return complexes.log_to_base(self, 10)
        return self._wide_unary(Op.LOG10)

    def log1p(self) -> Self:
        """log(1 + x) of each element, exact near 0; integers give floats."""
        return complexes.log1p(self) if self.dtype.is_complex else reals.log1p(self)

    def logaddexp(self, other: Operand) -> Self:
        """log(exp(self) + exp(other)), elementwise, without overflow; integers give floats.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        first, second = self._wide_pair("logaddexp", other)
        top = first.maximum(second)
        endless = top.isinf()
        level = endless.where(0.0, top.detach())
        a, b = (endless.where(0.0, each.sub(level)) for each in (first, second))
        # exp of the larger one is 1, which log1p counts; less 1 it is 0, with its derivatives
        is_first = first.ge(second)
        larger, smaller = is_first.where(a, b), is_first.where(b, a)
        beyond = larger.exp().sub(1.0).add(smaller.exp())
        return endless.where(top, beyond.log1p().add(level)).cast(self._common_float(other))

    def xlogy(self, other: Operand) -> Self:
        """self * log(other), elementwise, and 0 where `self` is 0 (NaN if `other` is).

        Shapes broadcast, dtypes promote, integers give floats. Raises ShapeError.
        """
        other = self._as_tensor("xlogy", other)
        nothing = self.eq(0).bitwise_and(other.isnan().logical_not())
        return nothing.where(0.0, self.mul(nothing.where(1.0, other).log()))

    def sqrt(self) -> Self:
        """The square root of each element; integers give floats.

        Of floats NaN below 0, of complex numbers the one to the right.
        """
        return complexes.sqrt(self) if self.dtype.is_complex else reals.sqrt(self)

    def rsqrt(self) -> Self:
        """1 / sqrt(x) of each element; integers give floats."""
        return self.sqrt().reciprocal()

    def pow(self, x: Operand, reverse: bool = False) -> Self:
        """`self ** x`, elementwise; shapes broadcast, dtypes promote; bools give int32.

        Integers to an integer power stay integers and wrap. Of complex numbers the principal value.
        Raises ShapeError, and DTypeError for a negative integer power of integers.
        """
        x = self._operand("pow", x)
        theirs = isinstance(x, complex) if is_scalar(x) else x.dtype.is_complex
        if self.dtype.is_complex or theirs:
            return complexes.power(self, x, reverse)
        return powers.power(self, x, reverse)

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x)), elementwise; integers give floats."""
        return complexes.sigmoid(self) if self.dtype.is_complex else reals.sigmoid(self)

    def relu(self) -> Self:
        """max(x, 0), elementwise, in its dtype; bools give int32. Its gradient at 0 is 0. Raises
        DTypeError for complex numbers.
        """
        return self._at_least("relu", 0)

    def logsigmoid(self) -> Self:
        """The logarithm of `sigmoid` of each element; integers give floats. Raises DTypeError for
        complex numbers.
        """
        return self.neg().softplus().neg()

    def softplus(self, beta: Scalar = 1.0, threshold: float | None = None) -> Self:
        """log(1 + exp(beta x)) / beta, elementwise, without overflow; x where beta x is above
        `threshold`.

        The formula holds for every x, so that there is no threshold unless one is asked for.
        Integers give floats. Raises DTypeError for complex numbers.
        """
        x = self._float()
        scaled = x.mul(beta)
        smooth = scaled.logaddexp(0.0).mul(1 / beta)
        return smooth if threshold is None else scaled.gt(threshold).where(x, smooth)

    def erf(self) -> Self:
        """The error function of each element; integers give floats.

        Raises DTypeError for complex numbers.
        """
        return self._float_unary(Op.ERF)

    # -- trigonometric and hyperbolic functions -----------------------------------------------

    def sin(self) -> Self:
        """The sine of each element, in radians; integers give floats."""
        return complexes.sin(self) if self.dtype.is_complex else reals.sin(self)

    def cos(self) -> Self:
        """The cosine of each element, in radians; integers give floats."""
        return complexes.cos(self) if self.dtype.is_complex else reals.cos(self)

    def tan(self) -> Self:
        """The tangent of each element, in radians; integers give floats."""
        return complexes.tan(self) if self.dtype.is_complex else self._float_unary(Op.TAN)

    def asin(self) -> Self:
        """The inverse sine of each element; integers give floats. Of floats NaN beyond -1 and 1."""
        return complex_arcs.asin(self) if self.dtype.is_complex else reals.asin(self)

    def acos(self) -> Self:
        """The inverse cosine of each element; integers give floats.

        Of floats NaN beyond -1 and 1.
        """
        return complex_arcs.acos(self) if self.dtype.is_complex else reals.acos(self)

    def atan(self) -> Self:
        """The inverse tangent of each element; integers give floats."""
        return complex_arcs.atan(self) if self.dtype.is_complex else reals.atan(self)

    def atan2(self, other: Operand) -> Self:
        """The angle from the positive first axis to (other, self), in -pi to pi; integers give
        floats.

        Shapes broadcast. Raises ShapeError, and DTypeError for complex numbers.
        """
        return reals.atan2(self, other)

    def hypot(self, other: Operand) -> Self:
        """sqrt(self ** 2 + other ** 2), elementwise, without overflow in between; integers give
        floats.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        return reals.hypot(self, other)

    def sinh(self) -> Self:
        """The hyperbolic sine of each element; integers give floats."""
        return complexes.sinh(self) if self.dtype.is_complex else reals.sinh(self)

    def cosh(self) -> Self:
        """The hyperbolic cosine of each element; integers give floats."""
        return complexes.cosh(self) if self.dtype.is_complex else reals.cosh(self)

    def tanh(self) -> Self:
        """The hyperbolic tangent of each element; integers give floats."""
        return complexes.tanh(self) if self.dtype.is_complex else self._float_unary(Op.TANH)

    def asinh(self) -> Self:
        """The inverse hyperbolic sine of each element; integers give floats."""
        return complex_arcs.asinh(self) if self.dtype.is_complex else reals.asinh(self)

    def acosh(self) -> Self:
        """The inverse hyperbolic cosine of each element; integers give floats.

        Of floats NaN below 1.
        """
        if self.dtype.is_complex:
            return complex_arcs.acosh(self)
        return self._wide_unary(Op.ACOSH)

    def atanh(self) -> Self:
        """The inverse hyperbolic tangent of each element; integers give floats.

        Of floats NaN beyond -1 and 1.
        """
        if self.dtype.is_complex:
            return complex_arcs.atanh(self)
        return self._wide_unary(Op.ATANH)

    # -- rounding --------------------------------------------------------------------------------

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

    # -- sizes, signs and angles -----------------------------------------------------------------

    def abs(self) -> Self:
        """The magnitude of each element, in its dtype; its slope at 0 is 0.

        Complex numbers give their length, as real ones.
        """
        return complexes.magnitude(self) if self.dtype.is_complex else reals.magnitude(self)

    def sign(self) -> Self:
        """-1, 0 or 1 for each element, in its dtype; NaN stays NaN. Raises DTypeError for complex
        numbers.
        """
        return reals.sign(self)

    def sgn(self) -> Self:
        """Complex elements divided by their length, 0 where that is; the sign of real ones.

        Shape and dtype stay.
        """
        if not self.dtype.is_complex:
            return self.sign()
        size = self.abs()
        nothing = size.eq(0)
        return nothing.where(0.0, self.div(nothing.where(1.0, size)))

    def copysign(self, other: Operand) -> Self:
        """The size of each element with the sign of `other`'s, -0.0 counted as negative; integers
        give floats.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        other = self._as_tensor("copysign", other)
        broadcast_shapes("copysign", self.shape, other.shape)
        negative = other.signbit()
        size = self.cast(least_upper_float(promoted(self.dtype, other.dtype))).abs()
        return negative.where(size.neg(), size)

    def angle(self) -> Self:
        """The angle of each element from the positive real axis, -pi to pi, as a float.

        0 or pi for real numbers.
        """
        if self.dtype.is_complex:
            return complexes.angle(self)
        x = self._float()
        return x.isnan().where(x, x.lt(0).where(math.pi, x._filled(0.0)))

    def polar(self, angle: Operand) -> Self:
        """The complex numbers of lengths self and angles `angle`, floats that broadcast.

        complex64, or complex128 of float64. Raises ShapeError, and DTypeError for anything but
        floats.
        """
        angle = self._float_operand("polar", angle)
        return self.mul(angle.cos()).complex(self.mul(angle.sin()))

    # -- classes and bounds ----------------------------------------------------------------------

    def isreal(self) -> Self:
        """Where the imaginary part of elements is 0, as bool in this shape."""
        if self.dtype.is_complex:
            return self.imag.eq(0)
        return type(self)._of(expand(Node.const(dtypes.bool, True), self.shape), self.device)

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """Where elements are +inf or -inf, as bool in this shape; of complex numbers, either part.

        `detect_positive` or `detect_negative` false leaves those out, which raises DTypeError for
        complex numbers.
        """
        if not self.dtype.is_complex:
            return reals.isinf(self, detect_positive, detect_negative)
        if not (detect_positive and detect_negative):
            raise DTypeError(f"[isinf] infinities of {self.dtype.name} have no sign")
        return reals.isinf(self.real).bitwise_or(reals.isinf(self.imag))

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
