"""Quotients of integers for Adreno, which divides floats only.

    quotient, rest = divide(values, "%3", "%4", signed=False)

Divisors are not 0, and nothing overflows: lowering has seen to that. A quotient towards zero is
estimated by a reciprocal that is a little too small, twice; what is left is corrected by one.
"""

from __future__ import annotations

from .ir3_values import Values, of_float, word

__all__ = ["divide", "divide_by_constant"]

# The quotient of 32 bits comes in two estimates, which are never too large. A reciprocal is within
# 2**-22, each conversion within 2**-24 and the products as well: less than this in all.
_BELOW = 1.0 - 2.0**-20
_FLOAT_BELOW = 1 << 22


def divide(f: Values, a: str, b: str, signed: bool) -> tuple[str, str]:
    """The quotient towards zero, and the remainder, with the sign of `a`."""
    if not signed:
        return _unsigned(f, a, b)
    sign_a, sign_b = f.emit("ashr.b", a, word(31)), f.emit("ashr.b", b, word(31))
    quotient, rest = _unsigned(f, _negated(f, a, sign_a), _negated(f, b, sign_b))
    sign = f.emit("xor.b", sign_a, sign_b)
    return _negated(f, quotient, sign), _negated(f, rest, sign_a)


def _negated(f: Values, value: str, sign: str) -> str:
    """`value`, or its negative where `sign` is -1 and not 0."""
    return f.emit("sub.u", f.emit("xor.b", value, sign), sign)


def _unsigned(f: Values, a: str, b: str) -> tuple[str, str]:
    reciprocal = f.emit("rcp", f.emit("cov.u32f32.even", b))
    reciprocal = f.emit("mul.f", reciprocal, of_float(_BELOW))
    quotient, rest = "0x0", a
    for _ in range(2):
        estimate = f.emit("mul.f", f.emit("cov.u32f32.even", rest), reciprocal)
        more = f.emit("cov.f32u32", estimate)
        rest = f.emit("sub.u", rest, f.multiply(more, b))
        quotient = more if quotient == "0x0" else f.emit("add.u", quotient, more)
    once_more = f.emit("cmps.u.ge", rest, b)
    less = f.select(once_more, b, "0x0")
    return f.emit("add.u", quotient, once_more), f.emit("sub.u", rest, less)


def divide_by_constant(f: Values, a: str, divisor: int, most: int) -> tuple[str, str] | None:
    """The same of 0 <= a <= most by a constant, where that is short; else None."""
    if divisor & (divisor - 1) == 0:
        quotient = f.emit("shr.b", a, word(divisor.bit_length() - 1))
        return quotient, f.emit("and.b", a, word(divisor - 1))
    if most < divisor:
        return "0x0", a
    magic = _magic(divisor, most)
    if magic is not None:
        factor, shift = magic
        quotient = f.emit("shr.b", f.emit("mul.u24", a, word(factor)), word(shift))
    elif most < _FLOAT_BELOW:
        # Between whole numbers by half a step, which the product's rounding does not reach.
        middle = f.emit("add.f", f.emit("cov.u32f32", a), of_float(0.5))
        quotient = f.emit("cov.f32u32", f.emit("mul.f", middle, of_float(1 / divisor)))
    else:
        return None
    if divisor < 1 << 22 and most // divisor < 1 << 22:
        return quotient, f.emit("mad.s24", quotient, word(-divisor), a)
    return quotient, f.emit("sub.u", a, f.multiply(quotient, word(divisor)))


def _magic(divisor: int, most: int) -> tuple[int, int] | None:
    """factor, shift: a * factor >> shift is a // divisor for all up to `most`, in 32 bits."""
    for shift in range(16, 31):
        factor = -(-(1 << shift) // divisor)
        over = factor * divisor - (1 << shift)
        if factor < 1 << 24 and most * factor < 1 << 32 and over * most < 1 << shift:
            return factor, shift
    return None
