"""EXP, EXP2, LOG, LOG2 and LOG10 as Nodes: scaling by the exponent's bits, and a short polynomial.

exp(x) -> 2**n * (1 + r + r*r*P(r)),  n = round(x / ln 2),  r = x - n*ln 2
log(x) -> e*ln 2 + 2*atanh(s),        x = 2**e * m,         s = (m - 1) / (m + 1)

The logarithm of a sum in two parts is log(1 + f + d) = log(1 + f) + d / (1 + f), d being tiny.
"""

from __future__ import annotations

import math

from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import operand
from . import polynomials as table
from .floats import clamp, horner, layout, mask, of_bits, signed_bits, split

__all__ = [
    "FAR", "LN2", "LOG2E_TAIL", "exp", "exp2", "exp_moderate", "exp_near_zero",
    "exponent_and_rest", "log", "log2", "log10", "log_of_sum", "scaled", "scaled_by_products",
]  # fmt: skip

# ln 2 in two parts: the first has so few bits that its product with any exponent is exact
LN2 = {
    32: (0.693359375, -2.12194440e-4),
    64: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
LOG2E_TAIL = 2.0355273740931033e-17  # log2(e) less its float64
LOG10E_TAIL, LOG10_2_TAIL = 1.098319650216765e-17, -2.8037281277851704e-18  # and of base 10
ROOT_HALF = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)
FAR = 2.0**28  # from here on a logarithm does not see what rounding takes from its argument
EXP_RANGE = {32: (-104.0, 89.0), 64: (-746.0, 710.0)}
EXP2_RANGE = {32: (-151.0, 129.0), 64: (-1077.0, 1025.0)}


def exp_near_zero(r: Node) -> Node:
    """e**r for |r| <= ln(2) / 2."""
    return 1.0 + (r + r * r * horner(r, table.EXP[layout(r).bits]))


def scaled(value: Node, tagged: Node) -> Node:
    """`value` * 2**n, rounded once, where `tagged` = magic + 2*bias + n."""
    form = layout(value)
    return Node(Op.SCALE, value.dtype, (value, tagged - (form.magic + 2 * form.bias)))


def scaled_by_products(value: Node, exponent: Node) -> Node:
    """The same of SCALE's sources, where no instruction has it.

    2**n may be no normal number, so it is the product of two that are, the first of them exact.
    `tagged` has both exponents in its low bits; the shift to their place drops everything above
    them. Where floats are loose, the exponent is no difference but a ROUND.
    """
    form = layout(value)
    if exponent.op is Op.SUB:
        n = signed_bits(operand(exponent))
    else:
        n = exponent.cast(form.signed.vec(value.dtype.count)) + 2 * form.bias
    half = n >> 1
    return value * of_bits(half << form.fraction) * of_bits((n - half) << form.fraction)


def _reduced(x: Node, offset: int) -> tuple[Node, Node]:
    form = layout(x)
    magic = form.magic + offset
    tagged = x * math.log2(math.e) + magic
    n = tagged - magic
    high, low = LN2[form.bits]
    return x - n * high - n * low, tagged


def exp(x: Node) -> Node:
    x = clamp(x, *EXP_RANGE[layout(x).bits])
    r, tagged = _reduced(x, 2 * layout(x).bias)
    return scaled(exp_near_zero(r), tagged)


def exp_moderate(x: Node) -> Node:
    """e**x where neither x nor the result comes near the ends of the range."""
    r, tagged = _reduced(x, layout(x).bias)
    return exp_near_zero(r) * of_bits(signed_bits(tagged) << layout(x).fraction)


def exp2(x: Node) -> Node:
    x = clamp(x, *EXP2_RANGE[layout(x).bits])
    magic = layout(x).magic + 2 * layout(x).bias
    tagged = x + magic
    return scaled(exp_near_zero((x - (tagged - magic)) * math.log(2)), tagged)


def exponent_and_rest(x: Node) -> tuple[Node, Node]:
    """(e, m) with x = 2**e * m and sqrt(1/2) <= m < sqrt(2), for x > 0, subnormal or not."""
    form = layout(x)
    tiny = x < form.min_normal
    shift = form.fraction + 2
    bits = signed_bits(tiny.where(x * 2.0**shift, x))
    e = (bits - ROOT_HALF[form.bits]) >> form.fraction
    m = of_bits(bits - (e << form.fraction))
    return e.cast(x.dtype) - tiny.where(x.like(float(shift)), x.like(0.0)), m


def _log_near_one(f: Node) -> tuple[Node, Node]:
    """(h, t): log(1 + f) = f - (h - t), h = f*f/2: it is 2*atanh(s)."""
    s = f / (f + 2.0)
    z = s * s
    h = f * f * 0.5
    return h, s * (h + z * horner(z, table.LOG[layout(f).bits]))


def _log_parts(x: Node) -> tuple[Node, Node, Node, Node]:
    """(e, f, h, t): log(x) = e*ln 2 + (f - (h - t))."""
    e, m = exponent_and_rest(x)
    f = m - 1.0
    return e, f, *_log_near_one(f)


def _log_domain(x: Node, result: Node) -> Node:
    result = (x < math.inf).where(result, x)
    result = (x < 0.0).where(x.like(math.nan), result)
    return x.eq(0.0).where(x.like(-math.inf), result)


def log(x: Node) -> Node:
    e, f, h, t = _log_parts(x)
    high, low = LN2[layout(x).bits]
    return _log_domain(x, e * high - ((h - (t + e * low)) - f))


def log10(x: Node) -> Node:
    e, f, h, t = _log_parts(x)
    high, low = split(x, math.log10(math.e), LOG10E_TAIL)
    two_high, two_low = split(x, math.log10(2), LOG10_2_TAIL)
    top = mask(f - h)
    rest = ((f - top) - h) + t
    product, whole = top * high, e * two_high
    total = whole + product
    error = product - (total - whole)
    tail = (rest + top) * low + rest * high + e * two_low
    return _log_domain(x, total + (error + tail))


def log_of_sum(x: Node, rest: Node, doubled: Node | None = None) -> Node:
    """log((x + rest) * 2**doubled) of a normal x > 0, where `rest` is a few ulp of x.

    From FAR on `rest` is left out, and may be anything.
    """
    form, bits = layout(x), signed_bits(x)
    e = (bits - ROOT_HALF[form.bits]) >> form.fraction
    place = e << form.fraction
    f = of_bits(bits - place) - 1.0
    h, t = _log_near_one(f)
    d = (x < FAR).where(rest * of_bits((form.bias << form.fraction) - place), x.like(0.0))
    t = t + d * (f * (f * 0.75 - 1.0) + 1.0)  # 1 / (1 + f), near enough for what is tiny
    n = e.cast(x.dtype) if doubled is None else e.cast(x.dtype) + doubled
    high, low = LN2[form.bits]
    return n * high - ((h - (t + n * low)) - f)


def log2(x: Node) -> Node:
    e, f, h, t = _log_parts(x)
    high, low = split(x, math.log2(math.e), LOG2E_TAIL)
    top = mask(f - h)
    rest = ((f - top) - h) + t
    product = top * high
    total = e + product
    error = product - (total - e)
    return _log_domain(x, total + (error + ((rest + top) * low + rest * high)))
