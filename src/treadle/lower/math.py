"""Transcendental ops become polynomials over basic arithmetic: no branches, tables or FMA.

    lower_math(EXP(x))  ->  2**n * (1 + r + r*r*P(r)),  n = round(x / ln 2),  r = x - n*ln 2

Largest errors: 2 ulp in float32 (over all finite inputs), 4 ulp in float64; inf, NaN, -0.0 and
subnormals are as IEEE 754 recommends, POW as in C. Coefficients are in `lower/polynomials`. The
narrower floats have no case here: the emulation pass computes them in float32.
Renderers may contract MUL and ADD but must not reassociate.

    round_explicitly(root)       (x + magic) - magic  ->  ROUND(x)

This looks for what the formulas made, where a target needs the operation itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ..dtype import dtypes
from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.views import behind_broadcast
from .error_functions import erf, erfc, erfinv
from .exponential import exp, exp2, log, log2, log10
from .hyperbolic import acosh, asinh, atanh, log1p, tanh
from .power import power
from .trigonometry import cos, sin, tan

__all__ = ["MATH", "lower_math", "round_explicitly"]

MATH: dict[Op, Callable[..., Node]] = {
    Op.EXP: exp,
    Op.EXP2: exp2,
    Op.LOG: log,
    Op.LOG2: log2,
    Op.LOG10: log10,
    Op.LOG1P: log1p,
    Op.SIN: sin,
    Op.COS: cos,
    Op.TAN: tan,
    Op.TANH: tanh,
    Op.ASINH: asinh,
    Op.ACOSH: acosh,
    Op.ATANH: atanh,
    Op.ERF: erf,
    Op.ERFC: erfc,
    Op.ERFINV: erfinv,
    Op.POW: power,
}
"""Each op as a function of float32 or float64 nodes."""

# 1.5 * 2**23 + n: adding such a number to a float32 rounds it.
_SMALLEST, _LARGEST = 1.5 * 2.0**23, 1.75 * 2.0**23
_WIDE = (dtypes.float32, dtypes.float64)


def lower_math(root: Node) -> Node:
    """`root` without the ops of MATH (exp, sin, ...) on float32 and float64."""

    def step(node: Node) -> Node | None:
        if node.op not in MATH or node.dtype.scalar not in _WIDE:
            return None
        return MATH[node.op](*node.src)

    return rewrite_with(root, step)


def round_explicitly(root: Node) -> Node:
    """`root` with float32 rounding by addition turned into ROUND.

    The formulas add a number so large that no fraction is left. A compiler that takes floats for
    real numbers, as those behind WGSL may, would take that out.
    """
    return rewrite_with(root, _rounded)


def _rounded(node: Node) -> Node | None:
    if node.op not in (Op.SUB, Op.BITCAST):
        return None
    total, *subtracted = node.src
    if total.op is not Op.ADD or total.dtype.scalar is not dtypes.float32:
        return None
    value, added = total.src
    magic = _magic(added)
    if magic is None:
        return None
    take("explicit_rounding")
    whole = value.alu(Op.ROUND)
    if subtracted:
        return whole if all(_magic(n) == magic for n in subtracted) else None
    if node.dtype.scalar is not dtypes.int32:
        return None
    (bits,) = struct.unpack("<i", struct.pack("<f", magic))
    return whole.cast(node.dtype) + bits


def _magic(node: Node) -> float | None:
    node = behind_broadcast(node)
    is_one = node.op is Op.CONST and _SMALLEST <= node.arg < _LARGEST
    return node.arg if is_one else None
