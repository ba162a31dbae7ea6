"""Ops with a subtle meaning become ops that every target computes alike.

    IDIV(a, b), signed  ->  q - (r and b differ in sign),  q, r = a, b divided towards zero

After this pass a renderer must guarantee only this:

* IDIV and MOD (integer, index): TRUNCATING division, C's `/` and `%`, on divisors that are neither
  0 nor, where the quotient could overflow, -1. Float MOD is left for emulated float64 only.
* SHL, SHR: amounts below the width; SHR of signed is arithmetic.
* CAST: float to int32, int64 or index truncates, saturates and takes NaN to 0; float or integer to
  bool does not occur; integer to integer wraps; the rest as in C.
* SCALE of whole vectors alone, where the target has it.
* MAX, MIN of floats: NaN if either is. FMA: rounded once. CEIL, FLOOR, TRUNC, ROUND, SQRT: exact.
* Of bools: AND, OR, XOR, CMPEQ, CMPNE, WHERE alone (for HREDUCE and SUBGROUP
  ADD is or, MUL is and).

The pass is not idempotent: what it leaves of IDIV and MOD has another meaning than before. Narrow
floats must have been emulated already, and POW be a formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..dtype import DType, dtypes
from ..ir.choices import take
from ..ir.interval import bounds
from ..ir.node import Node, rebuild
from ..ir.op import Op
from ..ir.views import behind_broadcast
from .exponential import scaled_by_products
from .floats import FLOAT32, absolute, layout, of_bits, sign_bit, unsigned_bits, with_sign

__all__ = ["decompose"]

_STEP = 32 - FLOAT32.fraction - 1  # bits that a significand can be shifted within a word


def decompose(
    root: Node,
    emulates_float64: bool = False,
    strict_floats: bool = True,
    scaled_bytes: int | None = None,
) -> Node:
    """A kernel graph in the safe ops that the module's docstring lists.

    Where float64 is emulated, its MOD is one function there, and shorter than 41 divisions. Without
    `strict_floats`, that of float32 is one of integers. Vectors of `scaled_bytes` have SCALE.
    """
    new: dict[Node, Node] = {}
    for node in root.toposort():
        src = tuple(new[s] for s in node.src)
        result = None
        if node.op is Op.MOD and node.dtype.is_float:
            is_wide = node.dtype.scalar is dtypes.float64
            if not (is_wide and emulates_float64):
                by_bits = not (is_wide or strict_floats)
                result = (_float_modulo_of_bits if by_bits else _float_modulo)(*src)
        elif node.op is Op.SCALE:
            if node.dtype.count > 1 and node.dtype.itemsize == scaled_bytes:
                take("scale_by_power")
            else:
                result = scaled_by_products(*src)
        elif node.op in _LOWER:
            result = _LOWER[node.op](node.dtype, *src)
        if result is None:
            result = node if src == node.src else rebuild(node, src)
        new[node] = result
    return new[root]


def _constant(node: Node) -> Any:
    return behind_broadcast(node).value


def _truncated(op: Op, a: Node, b: Node) -> Node:
    return Node(op, a.dtype, (a, b))


def _is_positive(b: Node) -> bool:
    value = _constant(b)
    return value > 0 if value is not None else bounds(b)[0] > 0


def _division(op: Op, a: Node, b: Node) -> Node:
    if _is_positive(b) and (a.dtype.is_unsigned or bounds(a)[0] >= 0):
        return _truncated(op, a, b)
    value = _constant(b)
    if value == 0:
        return a.like(0)
    if a.dtype.is_unsigned:
        by_zero = b.eq(0)
        return by_zero.where(a.like(0), _truncated(op, a, by_zero.where(b.like(1), b)))
    if value is not None and value > 0 and value & (value - 1) == 0 and a.dtype.is_int:
        return a >> (value.bit_length() - 1) if op is Op.IDIV else a & (value - 1)
    return _signed(op, a, b)


def _signed(op: Op, a: Node, b: Node) -> Node:
    """Floor division by what may be 0 or -1: both are replaced by 1, and answered apart."""
    unsafe = None if _is_positive(b) else b.eq(0) | b.eq(-1)
    divisor = b if unsafe is None else unsafe.where(b.like(1), b)
    quotient = _truncated(Op.IDIV, a, divisor)
    rest = a - quotient * divisor
    beyond = rest.ne(0) & (rest < 0).ne(divisor < 0)
    if op is Op.MOD:
        return beyond.where(rest + divisor, rest)
    floor = beyond.where(quotient - 1, quotient)
    return floor if unsafe is None else unsafe.where(b.eq(0).where(a.like(0), -a), floor)


def _within(b: Node, width: int) -> bool:
    """Whether a shift amount is known to be below `width`."""
    value = _constant(b)
    if value is None and b.op is Op.AND:
        _, mask = b.src
        value = _constant(mask)
    return value is not None and 0 <= value < width


def _inside(b: Node, width: int) -> Node:
    unsigned = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
    return b.bitcast(unsigned[b.dtype.bits].vec(b.dtype.count)) < width


def _shift_left(dtype: DType, a: Node, b: Node) -> Node:
    if _within(b, dtype.bits):
        return a << b
    return _inside(b, dtype.bits).where(a << (b & (dtype.bits - 1)), a.like(0))


def _shift_right(dtype: DType, a: Node, b: Node) -> Node:
    if _within(b, dtype.bits):
        return a >> b
    if dtype.is_unsigned:
        return _inside(b, dtype.bits).where(a >> (b & (dtype.bits - 1)), a.like(0))
    return a >> _inside(b, dtype.bits).where(b, b.like(dtype.bits - 1))


def _cast(dtype: DType, x: Node) -> Node | None:
    if dtype.is_bool and not x.dtype.is_bool:
        return x.ne(0)
    if not x.dtype.is_float or not dtype.is_int or dtype.scalar in (dtypes.int32, dtypes.int64):
        return None
    if dtype.scalar is dtypes.uint64:
        return _to_uint64(x)
    through = dtypes.int64 if dtype.scalar is dtypes.uint32 else dtypes.int32
    return x.cast(through.vec(dtype.count)).cast(dtype)


def _to_uint64(x: Node) -> Node:
    """The upper half of the range is converted less 2**63, where a signed type has it."""
    signed, unsigned = dtypes.int64.vec(x.dtype.count), dtypes.uint64.vec(x.dtype.count)
    upper = (x - 2.0**63).cast(signed).cast(unsigned) + 2**63
    return (x < 2.0**63).where(x.cast(signed).cast(unsigned), x.ne(x).where(upper.like(0), upper))


def _of_bools(op: Op) -> Callable[..., Node | None]:
    return lambda dtype, a, b: a.alu(op, b) if dtype.is_bool else None


def _less(dtype: DType, a: Node, b: Node) -> Node | None:
    return ~a & b if a.dtype.is_bool else None


def _quotient(dtype: DType, a: Node, b: Node) -> Node | None:
    """a / 0 as a * infinity, the same number: compilers of WGSL take no divisor for zero."""
    value, divisor = _constant(a), _constant(b)
    if divisor != 0:
        return None
    factor = math.copysign(math.inf, divisor)
    return a * b.like(factor) if value is None else a.like(value * factor)


_LOWER: dict[Op, Callable[..., Node | None]] = {
    Op.IDIV: lambda dtype, a, b: _division(Op.IDIV, a, b),
    Op.MOD: lambda dtype, a, b: _division(Op.MOD, a, b),
    Op.SHL: _shift_left,
    Op.SHR: _shift_right,
    Op.CAST: _cast,
    Op.RECIP: lambda dtype, a: a.like(1.0) / a,
    Op.FDIV: _quotient,
    Op.ADD: _of_bools(Op.OR),
    Op.SUB: _of_bools(Op.XOR),
    Op.MUL: _of_bools(Op.AND),
    Op.MAX: _of_bools(Op.OR),
    Op.MIN: _of_bools(Op.AND),
    Op.CMPLT: _less,
}


# -- the rest of a division of floats -------------------------------------------------------------
#
# It has the divisor's sign, and is exact before that is mended. Both ways are long division: the
# quotient's next bits, many at a time, from the highest on.


def _float_modulo(a: Node, b: Node) -> Node:
    """a - b * floor(a / b) by FMAs, where those are rounded once.

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


def _float_modulo_of_bits(a: Node, b: Node) -> Node:
    """a - b * floor(a / b) of float32, where a compiler may take floats for real numbers.

    No step rounds, for none is of floats.
    """
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
