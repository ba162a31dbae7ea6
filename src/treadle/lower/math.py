"""Transcendental ops become polynomials over basic arithmetic: no branches, tables or FMA.

    lower_math(EXP(x))  ->  2**n * (1 + r + r*r*P(r)),  n = round(x / ln 2),  r = x - n*ln 2

Largest errors: 2 ulp in float32 (over all finite inputs), 4 ulp in float64; inf, NaN, -0.0 and
subnormals are as IEEE 754 recommends, POW as in C. Coefficients are in `lower/polynomials`. The
narrower floats have no case here: the emulation pass computes them in float32.
Renderers may contract MUL and ADD but must not reassociate.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dtype import dtypes
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from .error_functions import erf, erfc, erfinv
from .exponential import exp, exp2, log, log2, log10
from .hyperbolic import acosh, asinh, atanh, log1p, tanh
from .power import power
from .trigonometry import cos, sin, tan

__all__ = ["MATH", "lower_math"]

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

_WIDE = (dtypes.float32, dtypes.float64)


def lower_math(root: Node) -> Node:
    """`root` without the ops of MATH (exp, sin, ...) on float32 and float64."""

    def step(node: Node) -> Node | None:
        if node.op not in MATH or node.dtype.scalar not in _WIDE:
            return None
        return MATH[node.op](*node.src)

    return rewrite_with(root, step)
