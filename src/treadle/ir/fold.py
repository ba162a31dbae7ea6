"""Constant folding: an elementwise op on Python scalars has the value that kernels compute.

    fold_scalar(Op.MOD, float32, (float32, float32), (0.0, -1.0)) -> -0.0

The meaning is that of `ir/elementwise`, on arrays of one element; only index arithmetic, which is
unbounded, is Python's own. What kernels compute by a formula of `lower/math` does not fold: the
formula does, once lowering has written it out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..dtype import DType
from .op import COMPARE, TRANSCENDENTAL, Op

if TYPE_CHECKING:
    import numpy as np

__all__ = ["can_fold", "fold_bits", "fold_scalar", "round_to"]


# Of complex numbers: see transforms/complex_to_real.
_BY_PARTS = frozenset((Op.MUL, Op.RECIP, Op.FDIV))


def can_fold(op: Op, dtype: DType) -> bool:
    """Whether constants under `op` become one: not where a formula for kernels makes its value."""
    return op not in TRANSCENDENTAL and not (dtype.is_complex and op in _BY_PARTS)


# Sizes and places: exact, without a width.
_INDEX: dict[Op, Callable[..., int]] = {
    Op.NEG: lambda a: -a,
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.IDIV: lambda a, b: a // b if b else 0,
    Op.MOD: lambda a, b: a % b if b else 0,
    Op.MAX: max,
    Op.MIN: min,
    Op.AND: lambda a, b: a & b,
    Op.OR: lambda a, b: a | b,
    Op.XOR: lambda a, b: a ^ b,
    Op.SHL: lambda a, b: a << b,
    Op.SHR: lambda a, b: a >> b,
    Op.CMPLT: lambda a, b: a < b,
    Op.CMPEQ: lambda a, b: a == b,
    Op.CMPNE: lambda a, b: a != b,
    Op.WHERE: lambda c, a, b: a if c else b,
    Op.FMA: lambda a, b, c: a * b + c,
}


def fold_scalar(
    op: Op, dtype: DType, types: tuple[DType, ...], args: tuple[complex, ...]
) -> complex:
    """The value of `op` on the constants `args` of `types`, as a Python scalar of `dtype`."""
    folded = _fold_whole(op, dtype, types, args)
    if folded is not None:
        return folded
    from .elementwise import apply_alu, constant_array

    arrays = [constant_array(t, a) for t, a in zip(types, args, strict=True)]
    return _scalar(dtype, apply_alu(op, dtype, types, arrays)[()])


def _fold_whole(
    op: Op, dtype: DType, types: tuple[DType, ...], args: tuple[complex, ...]
) -> complex | None:
    """Indices, integers and bools where Python's numbers, wrapped, are right; else None."""
    if types[-1].is_inexact or dtype.is_inexact:
        return None
    if op is Op.CAST:
        return dtype.as_const(args[0])
    of_bools = types[-1].is_bool and op in (Op.AND, Op.OR, Op.XOR)
    if types[-1].kind == "index" or of_bools or op in COMPARE or op is Op.WHERE:
        return dtype.as_const(_INDEX[op](*args))
    return None


def _scalar(dtype: DType, value: np.ndarray | np.generic) -> complex:
    return dtype.as_const(value.item() if dtype.is_complex else value)


def fold_bits(dtype: DType, kind: DType, value: complex) -> complex | None:
    """BITCAST of the constant `value` from `kind` to `dtype`; None for what has no such bits."""
    if dtype.kind not in _RAW or kind.kind not in _RAW:
        return None
    from .elementwise import apply_alu, constant_array

    if constant_array(kind, 0).dtype.itemsize != constant_array(dtype, 0).dtype.itemsize:
        return None
    bits = apply_alu(Op.BITCAST, dtype, (kind,), [constant_array(kind, value)])
    return _scalar(dtype, bits[()])


_RAW = ("int", "uint", "float")


def round_to(dtype: DType, value: complex) -> complex:
    """`value` rounded to the nearest number of a float dtype, of a complex one part by part."""
    if isinstance(value, complex):
        return complex(round_to(dtype.real, value.real), round_to(dtype.real, value.imag))
    if dtype.name == "float64":
        return value
    if dtype.name == "float32":
        try:
            return struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    import numpy as np

    from .elementwise import cast_array

    return float(cast_array(np.array(value, np.float64), dtype))
