"""Ops with a subtle meaning become ops that every target computes alike.

    IDIV(a, b), signed  ->  q - (r and b differ in sign),  q, r = a, b divided towards zero

After this pass a renderer must guarantee only this:

* IDIV and MOD (integer, index): TRUNCATING division, C's `/` and `%`, on divisors that are neither
  0 nor, where the quotient could overflow, -1. Float MOD is left for emulated float64 only.
* SHL, SHR: amounts below the width; SHR of signed is arithmetic.
* CAST: float to int32, int64 or index truncates, saturates and takes NaN to 0; float or integer to
  bool does not occur; integer to integer wraps; the rest as in C.
* MAX, MIN of floats: NaN if either is. FMA: rounded once. CEIL, FLOOR, TRUNC, ROUND, SQRT: exact.
* Of bools: AND, OR, XOR, CMPEQ, CMPNE, WHERE alone (for HREDUCE and SUBGROUP
  ADD is or, MUL is and).

The pass is not idempotent: what it leaves of IDIV and MOD has another meaning than before. Narrow
floats must have been emulated already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..dtype import DType, dtypes
from ..ir.interval import bounds
from ..ir.node import Node, rebuild
from ..ir.op import Op
from ..ir.views import behind_broadcast
from .modulo import float_modulo, float_modulo_of_bits
from .power import power

__all__ = ["decompose"]


def decompose(root: Node, emulates_float64: bool = False, strict_floats: bool = True) -> Node:
    """A kernel graph in the safe ops that the module's docstring lists.

    Where float64 is emulated, its MOD is one function there, and shorter than 41 divisions. Without
    `strict_floats`, that of float32 is one of integers.
    """
    new: dict[Node, Node] = {}
    for node in root.toposort():
        src = tuple(new[s] for s in node.src)
        result = None
        if node.op is not Op.MOD or not node.dtype.is_float:
            lower = _LOWER.get(node.op)
            result = lower(node.dtype, *src) if lower is not None else None
        elif node.dtype.scalar is not dtypes.float64:
            result = (float_modulo if strict_floats else float_modulo_of_bits)(*src)
        elif not emulates_float64:
            result = float_modulo(*src)
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


def _divide(dtype: DType, a: Node, b: Node) -> Node:
    return _division(Op.IDIV, a, b)


def _modulo(dtype: DType, a: Node, b: Node) -> Node:
    return _division(Op.MOD, a, b)


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


def _power(dtype: DType, a: Node, b: Node) -> Node:
    return power(a, b)


def _reciprocal(dtype: DType, a: Node) -> Node:
    return a.like(1.0) / a


def _quotient(dtype: DType, a: Node, b: Node) -> Node | None:
    """a / 0 as a * infinity, the same number: compilers of WGSL take no divisor for zero."""
    value, divisor = _constant(a), _constant(b)
    if divisor != 0:
        return None
    factor = math.copysign(math.inf, divisor)
    return a * b.like(factor) if value is None else a.like(value * factor)


_LOWER: dict[Op, Callable[..., Node | None]] = {
    Op.IDIV: _divide,
    Op.MOD: _modulo,
    Op.SHL: _shift_left,
    Op.SHR: _shift_right,
    Op.CAST: _cast,
    Op.POW: _power,
    Op.RECIP: _reciprocal,
    Op.FDIV: _quotient,
    Op.ADD: _of_bools(Op.OR),
    Op.SUB: _of_bools(Op.XOR),
    Op.MUL: _of_bools(Op.AND),
    Op.MAX: _of_bools(Op.OR),
    Op.MIN: _of_bools(Op.AND),
    Op.CMPLT: _less,
}
