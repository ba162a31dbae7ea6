"""POW as Nodes: x ** y = 2 ** (y * log2 x), with log2 x to twice the element's precision.

Every product whose rounding error would show is a product of two masked values, so it is exact and
no FMA is needed: values travel as (high, low) with high masked.
"""

from __future__ import annotations

import math

from ..ir.node import Node
from ..ir.op import Op
from . import polynomials as table
from .exponential import LOG2E_TAIL, exp_near_zero, exponent_and_rest, scaled
from .floats import absolute, clamp, horner, layout, mask, sign_bit, split, with_sign

__all__ = ["power"]

_LIMIT = {32: 200.0, 64: 1500.0}  # beyond these exponents of 2 everything over- or underflows
_LARGEST = {32: 2.0**40, 64: 2.0**80}  # with this exponent any base but 1 over- or underflows
_TWO_THIRDS_TAIL = 3.700743415417188e-17  # 2/3 less its float64
_LOG2E = math.log2(math.e)


def _quotient(m: Node) -> tuple[Node, Node]:
    """(m - 1) / (m + 1) in two parts."""
    above, below = m - 1.0, m + 1.0
    lost = m - (below - 1.0)
    high = mask(above / below)
    below_high = mask(below)
    rest = (above - high * below_high) - high * ((below - below_high) + lost)
    return high, rest / below


def _log2(x: Node) -> tuple[Node, Node]:
    """log2(x) for x > 0 as high + low, high masked."""
    e, m = exponent_and_rest(x)
    s_high, s_low = _quotient(m)
    s = s_high + s_low
    square, square_low = s_high * s_high, s_low * (s_high + s)
    z = square + square_low
    z_high = mask(z)
    z_low = (square - z_high) + square_low
    third_high, third_low = split(x, 2 / 3, _TWO_THIRDS_TAIL)
    exact = z_high * third_high
    tail = z * z * horner(z, table.LOG_TAIL[layout(x).bits])
    v = exact + 2.0  # atanh(s) / (s / 2), in parts v_high + v_low
    v_rest = (exact - (v - 2.0)) + (z_high * third_low + (z_low * (2 / 3) + tail))
    v_high = mask(v)
    v_low = (v - v_high) + v_rest
    main = s_high * v_high
    main_rest = s_high * v_low + s_low * (v_high + v_low)
    p_high = mask(main + main_rest)
    p_low = (main - p_high) + main_rest
    scale_high, scale_low = split(x, _LOG2E, LOG2E_TAIL)
    top = p_high * scale_high
    total = e + top
    low = (top - (total - e)) + (p_high * scale_low + p_low * _LOG2E)
    high = mask(total)
    return high, (total - high) + low


def _magnitude(x: Node, y: Node) -> Node:
    """x ** y for finite x > 0 and any y but NaN."""
    bits, form = layout(x).bits, layout(x)
    y = clamp(y, -_LARGEST[bits], _LARGEST[bits])
    log_high, log_low = _log2(x)
    y_high = mask(y)
    product = y_high * log_high
    rest = (y - y_high) * log_high + y * log_low
    limit = _LIMIT[bits]
    inside = absolute(product) < limit
    product = inside.where(product, with_sign(x.like(limit), sign_bit(product)))
    rest = inside.where(rest, x.like(0.0))
    magic = form.magic + 2 * form.bias
    tagged = (product + rest) + magic
    r = (product - (tagged - magic)) + rest
    return scaled(exp_near_zero(r * math.log(2)), tagged)


def power(x: Node, y: Node) -> Node:
    """x ** y with the special cases of C's pow."""
    size, one = absolute(x), x.like(1.0)
    result = _magnitude(size, y)
    grows = y > 0.0
    result = size.eq(0.0).where(grows.where(x.like(0.0), x.like(math.inf)), result)
    result = size.eq(math.inf).where(grows.where(x.like(math.inf), x.like(0.0)), result)
    whole = y.alu(Op.TRUNC).eq(y)
    half = y * 0.5
    odd = whole & half.alu(Op.TRUNC).ne(half)
    result = with_sign(result, odd.where(sign_bit(x), sign_bit(one)))
    undefined = (x < 0.0) & ~whole & (size < math.inf)
    result = undefined.where(x.like(math.nan), result)
    result = (x.ne(x) | y.ne(y)).where(x + y, result)
    return (y.eq(0.0) | x.eq(1.0)).where(one, result)
