"""The logarithm of the gamma function, and its derivative, of real numbers.

lgamma(x)    integers give floats; half types are computed in float32
digamma(x)
"""

from __future__ import annotations

import math
from typing import TypeVar

from ..basis import Basis

__all__ = ["digamma", "lgamma"]

T = TypeVar("T", bound=Basis)

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


def lgamma(given: T) -> T:
    """log(|gamma(x)|); inf at 0, -1, -2, ..."""
    x = given._wide()
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
    return result.cast(given._float().dtype)


def digamma(given: T) -> T:
    """The derivative of `lgamma`; NaN at -1, -2, ..., -inf at 0."""
    x = given._wide()
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
    return reflected.where(other, positive).cast(given._float().dtype)
