"""Powers of real numbers, elementwise.

power(x, 2), power_of(2, x)    integers stay integers, and wrap
"""

from __future__ import annotations

import math
from typing import TypeVar

from ...dtype import promoted
from ...errors import DTypeError
from ...ir.op import Op
from ..operands import is_scalar
from . import reals
from .formulas import Formulas

__all__ = ["power"]

T = TypeVar("T", bound=Formulas)


def power(base: T, exponent: T | complex, reverse: bool) -> T:
    """`base ** exponent`, or the `reverse`.

    Raises DTypeError for a negative integer power of integers.
    """
    if not is_scalar(exponent):
        return _of_tensors(exponent, base) if reverse else _of_tensors(base, exponent)
    if reverse:
        return _of_number(exponent, base)
    if isinstance(exponent, int) and not base.dtype.is_float:
        return _integer_power(base, exponent)
    x = base._float()
    special = {2: x.square, 0.5: lambda: _root(x), 1: lambda: x, -1: x.reciprocal}
    special[3] = lambda: x.square().mul(x)
    return special[exponent]() if exponent in special else x._binary(Op.POW, "pow", exponent)


def _root(x: T) -> T:
    """x ** 0.5, which is a square root but for -0.0 (0.0) and -inf (inf)."""
    root = reals.sqrt(x.eq(-math.inf).where(math.inf, x))
    return root.eq(0).bitwise_and(x.signbit()).where(root.neg(), root)


def _of_number(base: complex, x: T) -> T:
    """`base ** x` for a Python scalar."""
    if isinstance(base, int) and not x.dtype.is_float:
        whole = x.int() if x.dtype.is_bool else x
        return _of_tensors(whole.mul(0).add(base), x)
    return x._float()._binary(Op.POW, "pow", base, reverse=True)


def _of_tensors(base: T, exponent: T) -> T:
    kind = promoted(base.dtype, exponent.dtype)
    if kind.is_float:
        return base._binary(Op.POW, "pow", exponent)
    return _multiplied(base.cast(kind), exponent)


def _integer_power(base: T, exponent: int) -> T:
    if exponent < 0:
        raise DTypeError(
            f"[pow] an integer tensor to the negative power {exponent} is no integer; use "
            f".float() ** {exponent}"
        )
    square = base.int() if base.dtype.is_bool else base
    total = square.mul(0).add(1)
    while exponent:
        if exponent & 1:
            total = total.mul(square)
        exponent >>= 1
        square = square.square()
    return total


def _multiplied(base: T, exponent: T) -> T:
    """Square and multiply, one step for each bit of the exponent; 0 for negative powers,
    other than those of 1 and -1.
    """
    base = base.int() if base.dtype.is_bool else base
    exponent = exponent.int() if exponent.dtype.is_bool else exponent
    negative, size = exponent.lt(0), reals.magnitude(exponent)
    total, square = base.mul(0).add(1), base
    for bit in range(exponent.dtype.bits - (not exponent.dtype.is_unsigned)):
        chosen = size.rshift(bit).bitwise_and(1).ne(0)
        total = chosen.where(total.mul(square), total)
        square = square.square()
    unit = reals.magnitude(base).eq(1)
    return negative.bitwise_and(unit.logical_not()).where(0, total)
