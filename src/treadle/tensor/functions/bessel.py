"""Bessel functions of orders 0 and 1, of the first and second kind, modified and not.

    x.bessel_j0(), x.bessel_y1()       J and Y
    x.i0(), x.i1e(), x.bessel_k0()     I and K, "e" and "scaled": times exp(-|x|) and exp(x)

Small arguments take power series of positive terms (I and K: Abramowitz and Stegun 9.6.10 to
9.6.13) or Chebyshev series, large ones a Chebyshev series in 1 / x, J and Y with Hankel's P and Q
(9.2.5, 9.2.6). Errors against 40 digits are below 1e-6 (float32) or 2e-14 (float64) of the result,
of J and Y of the larger of the result and sqrt(2 / pi x), the height of their waves.
"""

from __future__ import annotations

import math
from typing import Self

from ..basis import Basis
from . import chebyshev

__all__ = ["Bessel"]

_EULER = 0.57721566490153286060651209008240243
_TERMS = range(29)  # of the power series; the last is 1e-18 of the sum at x = 8
_HARMONIC = [math.fsum(1 / n for n in range(1, k + 1)) for k in _TERMS]
_I0 = tuple(1 / math.factorial(k) ** 2 for k in reversed(_TERMS))
_I1 = tuple(0.5 / (math.factorial(k) * math.factorial(k + 1)) for k in reversed(_TERMS))
_K0 = tuple(_HARMONIC[k] / math.factorial(k) ** 2 for k in reversed(_TERMS[:14]))
_K1 = tuple(
    (_HARMONIC[k] + _HARMONIC[k + 1] - 2 * _EULER) / (math.factorial(k) * math.factorial(k + 1))
    for k in reversed(_TERMS[:14])
)


class Bessel(Basis):
    """Cylinder functions on top of elementary ones."""

    __slots__ = ()

    # -- modified, of the first kind ----------------------------------------------------------

    def i0(self) -> Self:
        """The modified Bessel function I of order 0 of each element, even; integers give floats.

        Infinite where it overflows.
        """
        return self._growing(0, False)

    def i0e(self) -> Self:
        """exp(-|x|) `i0`, elementwise, which does not overflow; integers give floats."""
        return self._growing(0, True)

    def i1(self) -> Self:
        """The modified Bessel function I of order 1 of each element, odd; integers give floats.

        Raises DTypeError for complex numbers.
        """
        return self._growing(1, False)

    def i1e(self) -> Self:
        """exp(-|x|) `i1`, elementwise, which does not overflow; integers give floats. Raises
        DTypeError for complex numbers.
        """
        return self._growing(1, True)

    def _growing(self, order: int, is_scaled: bool) -> Self:
        x = self._wide()
        size = x.abs()
        is_far, is_end = size.gt(8.0), x.isinf()
        near, far = is_far.where(0.0, x), is_end.where(16.0, is_far.where(size, 16.0))
        if order:
            small = near.mul(near.mul(0.5).square()._polynomial(_I1))
            series = far.reciprocal().mul(16.0).sub(1.0)._chebyshev(chebyshev.I1_FAR)
        else:
            small = near.mul(0.5).square()._polynomial(_I0)
            series = far.reciprocal().mul(16.0).sub(1.0)._chebyshev(chebyshev.I0_FAR)
        large = series.div(far.sqrt())
        if is_scaled:
            small = small.mul(near.abs().neg().exp())
        else:  # in two factors, since exp overflows before the product does
            half = far.mul(0.5).exp()
            large = half.mul(large).mul(half)
        large = x.lt(0).where(large.neg(), large) if order else large
        limit = 0.0 if is_scaled else (x if order else size).detach()
        large = is_end.where(limit, large)
        result = x.isnan().where(x, is_far.where(large, small))
        return result.cast(self._float().dtype)

    # -- modified, of the second kind ---------------------------------------------------------

    def bessel_k0(self) -> Self:
        """The modified Bessel function K of order 0 of each element: inf at 0, NaN below.

        Integers give floats. Raises DTypeError for complex numbers.
        """
        return self._falling(0, False)

    def bessel_k1(self) -> Self:
        """The modified Bessel function K of order 1 of each element: inf at 0, NaN below.

        Integers give floats. Raises DTypeError for complex numbers.
        """
        return self._falling(1, False)

    def scaled_bessel_k0(self) -> Self:
        """exp(x) `bessel_k0`, elementwise, which does not underflow; integers give floats. Raises
        DTypeError for complex numbers.
        """
        return self._falling(0, True)

    def scaled_bessel_k1(self) -> Self:
        """exp(x) `bessel_k1`, elementwise, which does not underflow; integers give floats. Raises
        DTypeError for complex numbers.
        """
        return self._falling(1, True)

    def _falling(self, order: int, is_scaled: bool) -> Self:
        x = self._wide()
        is_near = x.gt(0).bitwise_and(x.le(2.0))
        near, far = is_near.where(x, 1.0), x.gt(2.0).where(x, 4.0)
        square = near.mul(0.5).square()
        log = near.mul(0.5).log()
        if order:
            small = near.mul(square._polynomial(_I1)).mul(log).add(near.reciprocal())
            small = small.sub(near.mul(0.25).mul(square._polynomial(_K1)))
        else:
            small = square._polynomial(_K0).sub(log.add(_EULER).mul(square._polynomial(_I0)))
        table = chebyshev.K1_FAR if order else chebyshev.K0_FAR
        large = far.reciprocal().mul(4.0).sub(1.0)._chebyshev(table).div(far.sqrt())
        if is_scaled:
            small = small.mul(near.exp())
        else:
            large = large.mul(far.neg().exp())
        edge = x.eq(0).where(math.inf, x.eq(math.inf).where(0.0, math.nan))
        beyond = x.gt(2.0).bitwise_and(x.isinf().logical_not())
        return is_near.where(small, beyond.where(large, edge)).cast(self._float().dtype)

    # -- waves --------------------------------------------------------------------------------

    def bessel_j0(self) -> Self:
        """The Bessel function J of order 0 of each element, even; 0 at infinity. Integers give
        floats.

        Raises DTypeError for complex numbers.
        """
        near, is_near, _ = self._near_parts()
        small = near._from_square()._chebyshev(chebyshev.J0_NEAR)
        return self._waving(is_near, small, 0, True)

    def bessel_j1(self) -> Self:
        """The Bessel function J of order 1 of each element, odd; 0 at infinity. Integers give
        floats.

        Raises DTypeError for complex numbers.
        """
        near, is_near, _ = self._near_parts()
        small = near.mul(near._from_square()._chebyshev(chebyshev.J1_NEAR))
        return self._waving(is_near, small, 1, True)

    def bessel_y0(self) -> Self:
        """The Bessel function Y of order 0 of each element: -inf at 0, NaN below; integers give
        floats.

        Raises DTypeError for complex numbers.
        """
        near, is_near, is_right = self._near_parts()
        at = near._from_square()
        wave = at._chebyshev(chebyshev.J0_NEAR)
        log = is_right.where(near, 1.0).log()
        small = wave.mul(log).mul(2 / math.pi).add(at._chebyshev(chebyshev.Y0_NEAR))
        return self._with_pole(self._waving(is_near, small, 0, False))

    def bessel_y1(self) -> Self:
        """The Bessel function Y of order 1 of each element: -inf at 0, NaN below; integers give
        floats.

        Raises DTypeError for complex numbers.
        """
        near, is_near, is_right = self._near_parts()
        at, safe = near._from_square(), is_right.where(near, 1.0)
        wave = safe.mul(at._chebyshev(chebyshev.J1_NEAR))
        small = wave.mul(safe.log()).sub(safe.reciprocal()).mul(2 / math.pi)
        small = small.add(safe.mul(at._chebyshev(chebyshev.Y1_NEAR)))
        return self._with_pole(self._waving(is_near, small, 1, False))

    def _near_parts(self) -> tuple[Self, Self, Self]:
        """Arguments up to 8 (0 for others), where they are, and where they are above 0."""
        x = self._wide()
        is_near = x.abs().le(8.0)
        return is_near.where(x, 0.0), is_near, is_near.bitwise_and(x.gt(0))

    def _from_square(self) -> Self:
        """0 to 8 as -1 to 1."""
        return self.square().mul(1 / 32).sub(1.0)

    def _waving(self, is_near: Self, small: Self, order: int, is_first: bool) -> Self:
        """`small`, or far away Hankel's form: waves around sqrt(2 / pi x)."""
        x = self._wide()
        far = is_near.bitwise_or(x.isfinite().logical_not()).where(8.0, x.abs())
        at = far.reciprocal().square().mul(128.0).sub(1.0)
        p, q = (chebyshev.P1, chebyshev.Q1) if order else (chebyshev.P0, chebyshev.Q0)
        even, odd = at._chebyshev(p), at._chebyshev(q).mul(8.0).div(far)
        # the cosine and sine of x - pi / 4, or of x - 3 pi / 4, times sqrt(2)
        cosine, sine = far.cos(), far.sin()
        cosine, sine = cosine.add(sine), sine.sub(cosine)
        cosine, sine = (sine, cosine.neg()) if order else (cosine, sine)
        if is_first:
            wave = even.mul(cosine).sub(odd.mul(sine))
            wave = x.lt(0).where(wave.neg(), wave) if order else wave
        else:
            wave = even.mul(sine).add(odd.mul(cosine))
        large = wave.div(far.mul(math.pi).sqrt())
        large = x.isinf().where(0.0, x.isnan().where(math.nan, large))
        return is_near.where(small, large).cast(self._float().dtype)

    def _with_pole(self, result: Self) -> Self:
        return self.eq(0).where(-math.inf, self.lt(0).where(math.nan, result))

    def spherical_bessel_j0(self) -> Self:
        """sin(x) / x of each element: 1 at 0, 0 at infinity; integers give floats."""
        x = self._wide()
        is_near, is_end = x.abs().lt(0.5), x.isinf()
        square = is_near.where(x, 0.0).square()
        series = square._polynomial(
            tuple((-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(9)))
        )
        safe = is_near.bitwise_or(is_end).where(1.0, x)
        far = is_end.where(0.0, safe.sin().div(safe))
        return is_near.where(series, far).cast(self._float().dtype)
