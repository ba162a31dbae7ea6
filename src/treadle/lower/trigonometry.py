"""SIN, COS and TAN as Nodes, for every finite argument, by exact reduction in integers.

    sin(x):  |x| * 2/pi = 4*k + quadrant + f,   -1/2 <= f <= 1/2,   then a polynomial in f * pi/2

Payne and Hanek: |x| is an integer M times a power of two, so of the binary digits of 2/pi only a
window of three words matters: the digits above it add multiples of 4, those below are too small.
One way for all magnitudes costs about as many operations as a short reduction beside a long one.
"""

from __future__ import annotations

import math

from ..ir.node import Node
from . import polynomials as table
from .floats import absolute, horner, layout, mask, sign_bit, split, unsigned_bits, with_sign

__all__ = ["cos", "sin", "tan"]

# 1280 binary digits of 2/pi, after the binary point, as an integer
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
DIGITS = 1280
HALF_PI_TAIL = 6.123233995736766e-17  # pi/2 less its float64


def _words(x: Node, count: int) -> list[int]:
    """Digits of 2/pi / 4 / 2**(fraction + 1), the first word after the binary point first."""
    form = layout(x)
    lead = 2 + form.fraction + 1
    total = count * form.bits
    low = (1 << form.bits) - 1
    digits = (TWO_OVER_PI << total) >> (DIGITS + lead)
    return [(digits >> (total - (i + 1) * form.bits)) & low for i in range(count)]


def _window(x: Node, shift: Node) -> list[Node]:
    """Three words of the digits, `shift` bits further on: a barrel shifter of selections."""
    width = layout(x).bits
    steps = [2, 1] if width == 32 else [8, 4, 2, 1]  # words: up to 127 or 1023 bits
    words = [shift.like(w) for w in _words(x, 4 + sum(steps))]
    for step in steps:
        moved = (shift & (step * width)).ne(0)
        words = [moved.where(words[i + step], words[i]) for i in range(len(words) - step)]
    by = shift & (width - 1)
    back = (by ^ (width - 1)) & (width - 1)
    return [(words[i] << by) | ((words[i + 1] >> 1) >> back) for i in range(3)]


def _high_product(a: Node, b: Node) -> Node:
    """The upper word of a * b."""
    half = a.dtype.bits // 2
    low = (1 << half) - 1
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    cross = a0 * b1
    middle = ((a0 * b0) >> half) + (cross & low) + a1 * b0
    return a1 * b1 + (cross >> half) + (middle >> half)


def _fixed_point(size: Node) -> tuple[Node, Node]:
    """(high, low) words of `size` * 2/pi modulo 4, as a fraction of 4."""
    form = layout(size)
    bits = unsigned_bits(size)
    exponent = bits >> form.fraction
    significand = (bits & ((1 << form.fraction) - 1)) | (1 << form.fraction)
    # the window's place has one value more than fits the shifter: the last one doubles instead
    last = 2 * form.bias
    top = exponent.eq(last)
    shift = exponent - (form.bias - 1)
    shift = top.where(shift - 1, shift)
    significand = top.where(significand << 1, significand)
    w0, w1, w2 = _window(size, shift)
    part = significand * w1
    low = part + _high_product(significand, w2)
    carry = (low < part).where(low.like(1), low.like(0))
    return significand * w0 + _high_product(significand, w1) + carry, low


def _to_float(bits: Node, size: Node) -> Node:
    return bits.bitcast(layout(size).signed.vec(size.dtype.count)).cast(size.dtype)


def _reduce(size: Node) -> tuple[Node, Node, Node]:
    """(quadrant, r, tail) with `size` = quadrant * pi/2 + r + tail modulo 2*pi, |r| <= pi/4.

    The tail is what r was rounded by.
    """
    form = layout(size)
    width, spare = form.bits, 8 if form.bits == 32 else 12
    high, low = _fixed_point(size)
    quadrant = ((high >> (width - 3)) + 1) >> 1
    high = high - (quadrant << (width - 2))
    negative = (high >> (width - 1)).ne(0)
    flip = negative.where(high.like(-1), high.like(0))
    high, low = high ^ flip, low ^ flip  # one's complement: off by less than the last digit
    large = _to_float(high & -(1 << spare), size)
    small = _to_float(high & ((1 << spare) - 1), size)
    small = small + _to_float(low >> 1, size) * 2.0 ** (1 - width)
    total = large + small
    error = small - (total - large)
    unit = 2.0 ** (2 - width)
    pi_high, pi_low = split(size, math.pi / 2, HALF_PI_TAIL)
    top = mask(total)
    rest = top * (pi_low * unit) + ((total - top) + error) * (math.pi / 2 * unit)
    head = top * (pi_high * unit)  # exact, so that it may be computed anew in an FMA
    r = head + rest
    tail = (head - r) + rest
    near, sign = size < math.pi / 4, flip & (1 << (width - 1))
    r = near.where(size, with_sign(r, sign))
    tail = near.where(tail.like(0.0), with_sign(tail, sign))
    return near.where(quadrant.like(0), quadrant), r, tail


def _in_quadrant(x: Node, quarter_turns: int) -> Node:
    """sin(|x| + quarter_turns * pi/2), before the sign of x."""
    form, size = layout(x), absolute(x)
    quadrant, r, _ = _reduce(size)
    quadrant = quadrant + quarter_turns
    z = r * r
    sine = r + r * (z * horner(z, table.SIN[form.bits]))
    cosine = 1.0 - (z * 0.5 - z * z * horner(z, table.COS[form.bits]))
    value = (quadrant & 1).ne(0).where(cosine, sine)
    value = with_sign(value, (quadrant & 2) << (form.bits - 2))
    return (size < math.inf).where(value, x.like(math.nan))


def sin(x: Node) -> Node:
    return with_sign(_in_quadrant(x, 0), sign_bit(x))


def cos(x: Node) -> Node:
    return _in_quadrant(x, 1)


def tan(x: Node) -> Node:
    """The tangent of r, and in every second quadrant -1 divided by it."""
    size = absolute(x)
    quadrant, r, tail = _reduce(size)
    z = r * r
    # the slope of the tangent, 1 + tan(r)^2, is 1 + z + z*z to a tenth: enough for the tail
    rest = r * (z * horner(z, table.TAN[layout(x).bits])) + (tail + tail * (z + z * z))
    near = r + rest
    value = (quadrant & 1).ne(0).where(-1.0 / near, near)
    value = (size < math.inf).where(value, x.like(math.nan))
    return with_sign(value, sign_bit(x))
