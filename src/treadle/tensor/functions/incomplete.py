"""The incomplete gamma functions, by one quadrature for all of their range.

    a.igamma(x)      P(a, x) = 1 / gamma(a) * integral of t^(a - 1) exp(-t) from 0 to x
    a.igammac(x)     Q(a, x) = 1 - P(a, x)

The tail that lies away from the integrand's top is integrated: with t = x exp(-s) below it and
t = x exp(s) above, it is the integrand at x times an integral of exp(-h(s)) from 0 on, where h(s)
rises from 0. Takahasi and Mori's double exponential formula, "Double exponential formulas for
numerical integration" (1974), takes that with s in units of its own width.

Errors are below 2e-5 (float32) or 1e-12 (float64) of the one that is integrated, P up to the larger
of a and 1 and Q beyond; the other one is 1 less that. Both are below 5e-7 (2e-14) of 1.
"""

from __future__ import annotations

import math
from typing import Self, TypeVar

from ...dtype import dtypes
from ..basis import Basis
from ..operands import Operand
from .gamma import lgamma

__all__ = ["Incomplete"]

# of log(gamma(a)), in powers of 1 / a^2: Abramowitz and Stegun 6.1.41
_STIRLING = (
    -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12,
)  # fmt: skip
_STEPS, _FINE_STEPS = (48, -3.2, 3.4), (128, -3.7, 4.2)  # of the formula's variable, and its range
_NEAR = 0.5  # up to there differences of exponentials, and of logarithms, are series
_TERMS = 17

T = TypeVar("T", bound=Basis)


class Incomplete(Basis):
    """Gamma functions of two arguments."""

    __slots__ = ()

    def igamma(self, other: Operand) -> Self:
        """P(self, other), the lower regularized incomplete gamma function; arguments broadcast.

        0 at other = 0, 1 at infinity; NaN where either argument is negative or both are 0 or
        infinite. It has gradients for both arguments. Dtypes promote, integers give floats. Raises
        ShapeError, and DTypeError for complex numbers.
        """
        lower, upper, is_lower = self._incomplete("igamma", other)
        return is_lower.where(lower, upper.neg().add(1.0)).cast(self._common_float(other))

    def igammac(self, other: Operand) -> Self:
        """Q(self, other) = 1 - P(self, other), the upper one; see `igamma`.

        Shapes broadcast, dtypes promote, integers give floats. Raises ShapeError, and DTypeError
        for complex numbers.
        """
        lower, upper, is_lower = self._incomplete("igammac", other)
        return is_lower.where(lower.neg().add(1.0), upper).cast(self._common_float(other))

    def _incomplete(self, name: str, other: Operand) -> tuple[Self, Self, Self]:
        """P, Q, and where it is P that is found."""
        a, x = self._broadcast_with(name, other)
        a, x = a._wide_pair(name, x)
        inside = (
            a.gt(0).bitwise_and(x.gt(0)).bitwise_and(a.isinf().bitwise_or(x.isinf()).logical_not())
        )
        is_lower = inside.where(x.le(a.maximum(1.0)), x.lt(a).bitwise_or(x.eq(0)))
        edge = inside.where(0.0, _defined(a, x).where(0.0, math.nan))
        a, x = inside.where(a, 1.0), inside.where(x, 1.0)
        below = inside.bitwise_and(is_lower)
        above = inside.bitwise_and(is_lower.logical_not())
        lower = below.where(a, 1.0)._lower(below.where(x, 1.0))
        upper = above.where(a, 1.0)._upper(above.where(x, 2.0))
        return inside.where(lower, edge), inside.where(upper, edge), is_lower

    def _lower(self, x: Self) -> Self:
        """P of x up to the larger of self and 1."""
        is_small = self.lt(1.0)
        a = is_small.where(self.add(1.0), self)  # P(a, x) = P(a + 1, x) + the density there
        density = self._density(x, is_small)
        integral = x._tail(a.sub(x), -1.0)
        return is_small.where(density.mul(x.mul(integral).add(1.0)), density.mul(integral))

    def _upper(self, x: Self) -> Self:
        """Q of x beyond self and 1."""
        is_small = self.lt(1.0)
        density = self._density(x, is_small)
        return is_small.where(self, 1.0).mul(density).mul(x._tail(x.sub(self), 1.0))

    def _density(self, x: Self, is_small: Self) -> Self:
        """x^a exp(-x) / gamma(a); / gamma(a + 1) where a `is_small`."""
        # in float32 that is where the rounding of logarithms of gamma does not matter
        least = 10.0 if self.dtype is dtypes.float64 else 3.0
        is_large = self.ge(least)
        a = is_large.where(self, least)
        ratio = is_large.where(x, least).div(a)
        inverse = a.reciprocal()
        correction = inverse.mul(inverse.square()._polynomial(_STIRLING))
        excess = a.mul(is_large.where(x.sub(self), 0.0).div(a)._beyond_logarithm(ratio))
        large = a.mul(1 / (2 * math.pi)).sqrt().mul(excess.add(correction).neg().exp())
        b, y = is_large.where(1.0, self), is_large.where(1.0, x)
        gamma = lgamma(is_small.where(b.add(1.0), b))
        return is_large.where(large, b.mul(y.log()).sub(y).sub(gamma).exp())

    def _beyond_logarithm(self, ratio: Self) -> Self:
        """m - log(1 + m) of self, where `ratio` is 1 + m."""
        near = self._magnitude().lt(_NEAR)
        m = near.where(self, 0.0)
        z = m.div(m.add(2.0))  # log(1 + m) = 2 atanh(z)
        squared = z.square()
        series = squared._polynomial(tuple(2 / (2 * k + 1) for k in range(_TERMS, 0, -1)))
        far = near.where(1.0, ratio).maximum(1e-37)
        return near.where(z.mul(m.sub(squared.mul(series))), self.sub(far.log()))

    def _tail(self, rate: Self, sign: float) -> Self:
        """The integral over s > 0 of exp(-`rate` s - self (exp(sign s) - 1 - sign s))."""
        count, low, high = _FINE_STEPS if self.dtype is dtypes.float64 else _STEPS
        step = (high - low) / (count - 1)
        at = self._range(count, self.dtype).mul(step).add(low)
        fall = at.neg().exp()
        s = at.sub(fall).exp()
        weights = s.mul(fall.add(1.0)).mul(step)
        # the width only says where the integrand is looked at: the integral does not depend on it
        width = rate.add(self.sqrt().mul(0.8)).detach().reciprocal()
        t = width.unsqueeze(-1).mul(s)
        drop = rate.unsqueeze(-1).mul(t).add(self.unsqueeze(-1).mul(t._beyond_exponential(sign)))
        return drop.neg().exp().mul(weights).sum(-1).mul(width)

    def _beyond_exponential(self, sign: float) -> Self:
        """exp(sign t) - 1 - sign t of self."""
        near = self.lt(_NEAR)
        t, far = near.where(self, 0.0).mul(sign), near.where(1.0, self).mul(sign)
        series = t._polynomial(tuple(1 / math.factorial(k) for k in range(_TERMS, 1, -1)))
        return near.where(t.square().mul(series), far.exp().sub(1.0).sub(far))


def _defined(a: T, x: T) -> T:
    """Where a limit exists at the edges: neither negative nor both 0 or infinite."""
    both = a.eq(0).bitwise_and(x.eq(0)).bitwise_or(a.isinf().bitwise_and(x.isinf()))
    return a.ge(0).bitwise_and(x.ge(0)).bitwise_and(both.logical_not())
