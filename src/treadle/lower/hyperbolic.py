"""TANH, and LOG1P, ASINH, ACOSH, ATANH as Nodes: logarithms of sums that are kept in two parts.

log1p(x) -> log(u + c),          u = 1 + x rounded, c = what rounding has taken
asinh(x) -> log(u + c),          u + c = 1 + x + (sqrt(x*x + 1) - 1), for x >= 0
acosh(x) -> sqrt(2t) (1 + tP(t)) for t = x - 1 < 1, else log(u + c), u + c = x + sqrt(x*x - 1)
atanh(x) -> x + x**3 P(x*x)      for x < 1/2, else e*ln(2)/2 + atanh(s): 1 - x is brought near
                                 1 + x by 2**e, and s is their difference over their sum

Odd functions are computed of |x|, and get the sign of x.
"""

from __future__ import annotations

import math

from ..ir.node import Node, alu
from ..ir.op import Op
from . import polynomials as table
from .exponential import FAR, LN2, exp_moderate, log_of_sum
from .floats import (
    absolute,
    clamp,
    horner,
    layout,
    of_bits,
    sign_bit,
    signed_bits,
    unsigned_bits,
    with_sign,
)

__all__ = ["acosh", "asinh", "atanh", "log1p", "tanh"]

TANH_SMALL = 0.625
ACOSH_SMALL = 1.0
ATANH_SMALL = 0.5


def tanh(x: Node) -> Node:
    form, size = layout(x), absolute(x)
    z = size * size
    small = size + size * (z * horner(z, table.TANH[form.bits]))
    twice = clamp(size * 2.0, 0.0, 60.0)
    large = 1.0 - 2.0 / (exp_moderate(twice) + 1.0)
    return with_sign((size < TANH_SMALL).where(small, large), sign_bit(x))


def _one_and(x: Node) -> tuple[Node, Node]:
    """1 + x, for x > -1, as its rounded sum and what that lacks (from 2**24 on, nearly).

    A compiler that takes floats for real numbers cannot see through the absolute value.
    """
    total = absolute(x + 1.0)
    return total, x - (total - 1.0)


def log1p(x: Node) -> Node:
    result = log_of_sum(*_one_and(x))
    result = (x < math.inf).where(result, x)
    result = (x < -1.0).where(x.like(math.nan), result)
    result = x.eq(-1.0).where(x.like(-math.inf), result)
    return of_bits(unsigned_bits(result) | sign_bit(x))  # it has the sign of x, as -0.0 has


def asinh(x: Node) -> Node:
    size = absolute(x)
    square = size * size
    beyond = square / (alu(Op.SQRT, square + 1.0) + 1.0)  # sqrt(square + 1) - 1
    beside = size + beyond
    total, rest = _one_and(beside)
    rest = rest + (beyond - (beside - size))
    result = _log_or_twice(size, total, rest)
    return with_sign((size < math.inf).where(result, size), sign_bit(x))


def acosh(x: Node) -> Node:
    t = x - 1.0
    near = t < ACOSH_SMALL
    root = alu(Op.SQRT, near.where(t + t, t * (t + 2.0)))
    small = root + root * (t * horner(t, table.ACOSH[layout(x).bits]))
    total = x + root
    result = near.where(small, _log_or_twice(x, total, root - (total - x)))
    return (x < math.inf).where(result, x)


def _log_or_twice(x: Node, total: Node, rest: Node) -> Node:
    """log(total + rest), or log(2 x) where x is so large that its square may overflow."""
    far = x.like(FAR) < x
    doubled = far.where(x.like(1.0), x.like(0.0))
    return log_of_sum(far.where(x, total), rest, doubled)


def atanh(x: Node) -> Node:
    form, size = layout(x), absolute(x)
    near = size < ATANH_SMALL
    above, below = size + 1.0, 1.0 - size
    rest = size - (above - 1.0)
    # the binary logarithm of the quotient, to the nearest whole number or the one beside it
    apart = signed_bits(above) - signed_bits(below)
    e = (apart + (1 << (form.fraction - 1))) >> form.fraction
    raised = below * of_bits((e + form.bias) << form.fraction)
    s = near.where(size, ((above - raised) + rest) / (above + raised))
    turns = near.where(x.like(0.0), e.cast(x.dtype))
    high, low = LN2[form.bits]
    z = s * s
    tail = s * (z * horner(z, table.ATANH[form.bits])) + turns * (low / 2)
    result = turns * (high / 2) + (s + tail)
    edge = size.eq(1.0).where(x.like(math.inf), x.like(math.nan))
    return with_sign((size < 1.0).where(result, edge), sign_bit(x))
