"""Elementwise functions: a table of which method of `Tensor` each one is."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .signatures import binary, check_tensor, unary

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor",
    "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan",
    "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip

# arithmetic
add, multiply = binary(Tensor.add), binary(Tensor.mul, "multiply")
subtract, divide = binary(Tensor.sub, "subtract"), binary(Tensor.div, "divide")
floor_divide = binary(Tensor.idiv, "floor_divide")
remainder, pow = binary(Tensor.mod, "remainder"), binary(Tensor.pow)
maximum, minimum = binary(Tensor.maximum), binary(Tensor.minimum)
abs, sign, square = unary(Tensor.abs), unary(Tensor.sign), unary(Tensor.square)
negative, positive = unary(Tensor.neg, "negative"), unary(Tensor.__pos__, "positive")
reciprocal, sqrt = unary(Tensor.reciprocal), unary(Tensor.sqrt)

# bits and truth values
bitwise_and, bitwise_or = binary(Tensor.bitwise_and), binary(Tensor.bitwise_or)
bitwise_xor, bitwise_invert = (
    binary(Tensor.bitwise_xor),
    unary(Tensor.bitwise_not, "bitwise_invert"),
)
bitwise_left_shift = binary(Tensor.lshift, "bitwise_left_shift")
bitwise_right_shift = binary(Tensor.rshift, "bitwise_right_shift")
logical_and, logical_or = binary(Tensor.logical_and), binary(Tensor.logical_or)
logical_xor, logical_not = binary(Tensor.logical_xor), unary(Tensor.logical_not)

# comparison and classification
equal, not_equal = binary(Tensor.eq, "equal"), binary(Tensor.ne, "not_equal")
less, less_equal = binary(Tensor.lt, "less"), binary(Tensor.le, "less_equal")
greater, greater_equal = binary(Tensor.gt, "greater"), binary(Tensor.ge, "greater_equal")
isfinite, isinf, isnan = unary(Tensor.isfinite), unary(Tensor.isinf), unary(Tensor.isnan)
signbit, copysign, nextafter = (
    unary(Tensor.signbit),
    binary(Tensor.copysign),
    binary(Tensor.nextafter),
)

# exponentials, logarithms, angles
exp, expm1 = unary(Tensor.exp), unary(Tensor.expm1)
log, log1p, log2, log10 = (
    unary(Tensor.log),
    unary(Tensor.log1p),
    unary(Tensor.log2),
    unary(Tensor.log10),
)
logaddexp, hypot, atan2 = binary(Tensor.logaddexp), binary(Tensor.hypot), binary(Tensor.atan2)
sin, cos, tan = unary(Tensor.sin), unary(Tensor.cos), unary(Tensor.tan)
asin, acos, atan = unary(Tensor.asin), unary(Tensor.acos), unary(Tensor.atan)
sinh, cosh, tanh = unary(Tensor.sinh), unary(Tensor.cosh), unary(Tensor.tanh)
asinh, acosh, atanh = unary(Tensor.asinh), unary(Tensor.acosh), unary(Tensor.atanh)

# rounding
ceil, floor, round, trunc = (
    unary(Tensor.ceil),
    unary(Tensor.floor),
    unary(Tensor.round),
    unary(Tensor.trunc),
)

conj = unary(Tensor.conj)


def real(x: Tensor, /) -> Tensor:
    """The real parts; real numbers themselves."""
    return check_tensor("real", x).real


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts; of real numbers, 0."""
    return x.imag if check_tensor("imag", x).dtype.is_complex else x.zeros_like()


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """`x` not below `min` and not above `max`, in the dtype of `x`; NaN where any of them is.

    Bounds are scalars, or tensors that broadcast with `x`; None is no bound.
    """
    result = check_tensor("clip", x)
    if min is not None:
        result = result.maximum(_bound(x, min))
    if max is not None:
        result = result.minimum(_bound(x, max))
    return result.clone() if result is x else result


def _bound(x: Tensor, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.cast(x.dtype)
    if isinstance(value, int) and x.dtype.is_int:
        return min(max(value, x.dtype.min), x.dtype.max)
    return value
