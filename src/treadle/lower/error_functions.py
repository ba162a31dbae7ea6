"""ERF, ERFC and ERFINV as Nodes: polynomials in the middle, an exponential or a logarithm beyond.

erf(x)    -> x + x*P(x*x),          or 1 - exp(P(x))
erfc(x)   -> (1 - x) - x*P(x*x),    or exp(-x*x) * G / (x + 1),  G = (x + 1) exp(x*x) erfc(x)
erfinv(y) -> y + y*P(w),            or s + P(s - 11/4),  w = -log(1 - y*y),  s = sqrt(w - 3/4)

G is a polynomial in 1 / (x + 1), and changes little. In float64 erfinv is improved by a step of
Halley's method, so that its middle needs no more than float32's polynomial.
"""

from __future__ import annotations

import math

from ..ir.node import Node, alu
from ..ir.op import Op
from . import polynomials as table
from .exponential import LN2, exp_moderate, log, scaled
from .floats import absolute, clamp, horner, layout, mask, sign_bit, with_sign

__all__ = ["erf", "erfc", "erfinv"]

ERF_SMALL = 1.0
ERF_LARGE = {32: 4.0, 64: 6.0}
ERFC_SMALL = 0.75
ERFC_LARGE = {32: 10.5, 64: 27.5}  # here it is 0
ERFINV_CENTRAL = 4.0


def erf(x: Node) -> Node:
    form, size = layout(x), absolute(x)
    small = size + size * horner(size * size, table.ERF[form.bits])
    log_erfc = horner(clamp(size, 0.0, ERF_LARGE[form.bits]), table.ERFC[form.bits])
    large = 1.0 - exp_moderate(log_erfc)
    return with_sign((size < ERF_SMALL).where(small, large), sign_bit(x))


def erfc(x: Node) -> Node:
    form, size = layout(x), absolute(x)
    centre = (1.0 - x) - x * horner(x * x, table.ERF[form.bits])
    tail = _erfc_tail(clamp(size, ERFC_SMALL, ERFC_LARGE[form.bits]))
    tail = (x < 0.0).where(2.0 - tail, tail)
    return (size < ERFC_SMALL).where(centre, tail)


def _erfc_tail(x: Node) -> Node:
    """erfc of what is neither small nor beyond the end: (q + q_low) (1 + r + r_low) 2**n."""
    r, r_low, tagged = _exp_of_square(x)
    divisor = x + 1.0
    inverse = 1.0 / divisor
    place = 0.25 - inverse
    first, *others = table.ERFC_TAIL[layout(x).bits]
    grown = place * horner(place, others)
    q = (first + grown) * inverse
    # what q lacks: a quotient's rest by products of halves, which are exact
    q_head, divisor_head = mask(q), mask(divisor)
    rest = (first - q_head * divisor_head) + grown
    rest = rest - (q - q_head) * divisor_head - q * (x - (divisor_head - 1.0))
    q_low = rest * inverse
    return scaled(q + (q * r + (q_low + (q_low * r + q * r_low))), tagged)


def _exp_of_square(x: Node) -> tuple[Node, Node, Node]:
    """exp(-x*x) as (r, r_low, tagged): it is (1 + r + r_low) 2**n, `tagged` as in `scaled`."""
    form = layout(x)
    tagged = (x * x) * -math.log2(math.e) + (form.magic + 2 * form.bias)
    n = tagged - (form.magic + 2 * form.bias)
    head = mask(x)
    high, low = LN2[form.bits]
    first = (0.0 - head * head) - n * high  # exact, as are both products
    second = (x - head) * (x + head) + n * low
    r = first - second
    rest = (first - r) - second
    return r, rest + r * r * horner(r, table.EXP[form.bits]), tagged


def erfinv(x: Node) -> Node:
    form, size = layout(x), absolute(x)
    w = 0.0 - log((1.0 - size) * (size + 1.0))
    s = alu(Op.SQRT, w - 0.75)
    central = size + size * horner(w, table.ERFINV_CENTRE[32])
    outer = s + horner(s - 2.75, table.ERFINV_TAIL[form.bits])
    result = (w < ERFINV_CENTRAL).where(central, outer)
    if form.bits == 64:
        result = _improved(result, size)
    edge = size.eq(1.0).where(x.like(math.inf), x.like(math.nan))
    return with_sign((size < 1.0).where(result, edge), sign_bit(x))


def _improved(x: Node, wanted: Node) -> Node:
    """A step of Halley's method towards the x with erf(x) = wanted; near 1, by erfc."""
    beyond = (wanted < 0.5).where(erf(x) - wanted, (1.0 - wanted) - erfc(x))
    step = beyond * exp_moderate(x * x) * (math.sqrt(math.pi) / 2)
    return x - step / (x * step + 1.0)
