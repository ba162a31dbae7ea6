"""The rest of a division of floats, with the divisor's sign, exact before that is mended.

float_modulo(a, b)           by FMAs, where those are rounded once
float_modulo_of_bits(a, b)   by integers, where a compiler may take floats for real numbers

Both are long division: the quotient's next bits, many at a time, from the highest on.
"""

from __future__ import annotations

import math

from ..ir.node import Node
from ..ir.op import Op
from .floats import FLOAT32, absolute, layout, of_bits, sign_bit, unsigned_bits, with_sign

__all__ = ["float_modulo", "float_modulo_of_bits"]


def float_modulo(a: Node, b: Node) -> Node:
    """a - b * floor(a / b).

    Each step takes the quotient's next `fraction` bits; it may take one too many, seen as a
    negative rest. Scaled divisors that overflow are larger than any rest.
    """
    form, divisor = layout(a), absolute(b)
    rest = absolute(a)
    span = 2 * form.bias + form.fraction
    for shift in range(span - span % form.fraction, -1, -form.fraction):
        scaled = _times_power(divisor, shift, form.bias)
        scaled = (scaled < math.inf).where(scaled, scaled.like(0.0))
        quotient = (rest / scaled).alu(Op.TRUNC)
        left = Node(Op.FMA, a.dtype, (-quotient, scaled, rest))
        left = (left < 0.0).where(left + scaled, left)
        rest = scaled.eq(0.0).where(rest, left)
    return _with_divisors_sign(rest, a, b)


def _times_power(x: Node, exponent: int, largest: int) -> Node:
    while exponent > 0:
        step = min(exponent, largest)
        x, exponent = x * 2.0**step, exponent - step
    return x


def _with_divisors_sign(size: Node, a: Node, b: Node) -> Node:
    """The rest of a / b, from that of their magnitudes."""
    rest = with_sign(size, sign_bit(a))
    apart = rest.ne(0.0) & (rest < 0.0).ne(b < 0.0)
    rest = apart.where(rest + b, rest.eq(0.0).where(with_sign(a.like(0.0), sign_bit(b)), rest))
    defined = (absolute(a) < math.inf) & (absolute(b) > 0.0)
    return defined.where(rest, a.like(math.nan))


_STEP = 32 - FLOAT32.fraction - 1  # bits that a significand can be shifted within a word


def float_modulo_of_bits(a: Node, b: Node) -> Node:
    """a - b * floor(a / b) of float32: no step rounds, for none is of floats."""
    (exponent, rest), (lowest, divisor) = _parts(a), _parts(b)
    divisor = divisor.eq(0).where(divisor.like(1), divisor)  # answered apart
    is_less = exponent < lowest
    left = is_less.where(exponent.like(0), exponent - lowest)
    rest = rest % divisor
    for _ in range(-(-2 * FLOAT32.bias // _STEP)):
        step = (left < _STEP).where(left, left.like(_STEP))
        rest, left = (rest << step) % divisor, left - step
    size = is_less.where(absolute(a), _assembled(rest, lowest))
    return _with_divisors_sign(size, a, b)


def _parts(x: Node) -> tuple[Node, Node]:
    """The exponent, from 1 on, and the significand of a magnitude, as words."""
    bits = unsigned_bits(absolute(x))
    exponent, fraction = bits >> FLOAT32.fraction, bits & ((1 << FLOAT32.fraction) - 1)
    is_small = exponent.eq(0)  # without the bit that goes unsaid
    significand = is_small.where(fraction, fraction | (1 << FLOAT32.fraction))
    return is_small.where(exponent.like(1), exponent), significand


def _assembled(significand: Node, exponent: Node) -> Node:
    """The float of a significand below 2**24: at most its own exponent, and no rounding.

    One bit after the other moves to its place, for a product of floats might flush small ones.
    """
    for move in (16, 8, 4, 2, 1):
        fits = (significand < (1 << (FLOAT32.fraction + 1 - move))) & (exponent > move)
        significand = fits.where(significand << move, significand)
        exponent = fits.where(exponent - move, exponent)
    is_small = significand < (1 << FLOAT32.fraction)
    fraction = significand & ((1 << FLOAT32.fraction) - 1)
    return of_bits(is_small.where(fraction, fraction | (exponent << FLOAT32.fraction)))
