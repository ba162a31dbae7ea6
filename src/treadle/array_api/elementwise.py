"""Elementwise functions: a table of which method of `Tensor` each one is."""

from __future__ import annotations

from ..explained import explain_all
from ..tensor import Tensor
from ..tensor.operands import Operand
from .signatures import Binary, Unary, binary, check_tensor, unary

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
add: Binary = binary(Tensor.add)
multiply: Binary = binary(Tensor.mul, "multiply")
subtract: Binary = binary(Tensor.sub, "subtract")
divide: Binary = binary(Tensor.div, "divide")
floor_divide: Binary = binary(Tensor.floor_divide)
remainder: Binary = binary(Tensor.mod, "remainder")
pow: Binary = binary(Tensor.pow)
maximum: Binary = binary(Tensor.maximum)
minimum: Binary = binary(Tensor.minimum)
abs: Unary = unary(Tensor.abs)
sign: Unary = unary(Tensor.sgn, "sign")
square: Unary = unary(Tensor.square)
negative: Unary = unary(Tensor.neg, "negative")
positive: Unary = unary(Tensor.__pos__, "positive")
reciprocal: Unary = unary(Tensor.reciprocal)
sqrt: Unary = unary(Tensor.sqrt)

# bits and truth values
bitwise_and: Binary = binary(Tensor.bitwise_and)
bitwise_or: Binary = binary(Tensor.bitwise_or)
bitwise_xor: Binary = binary(Tensor.bitwise_xor)
bitwise_invert: Unary = unary(Tensor.bitwise_not, "bitwise_invert")
bitwise_left_shift: Binary = binary(Tensor.lshift, "bitwise_left_shift")
bitwise_right_shift: Binary = binary(Tensor.rshift, "bitwise_right_shift")
logical_and: Binary = binary(Tensor.logical_and)
logical_or: Binary = binary(Tensor.logical_or)
logical_xor: Binary = binary(Tensor.logical_xor)
logical_not: Unary = unary(Tensor.logical_not)

# comparison and classification
equal: Binary = binary(Tensor.eq, "equal")
not_equal: Binary = binary(Tensor.ne, "not_equal")
less: Binary = binary(Tensor.lt, "less")
less_equal: Binary = binary(Tensor.le, "less_equal")
greater: Binary = binary(Tensor.gt, "greater")
greater_equal: Binary = binary(Tensor.ge, "greater_equal")
isfinite: Unary = unary(Tensor.isfinite)
isinf: Unary = unary(Tensor.isinf)
isnan: Unary = unary(Tensor.isnan)
signbit: Unary = unary(Tensor.signbit)
copysign: Binary = binary(Tensor.copysign)
nextafter: Binary = binary(Tensor.nextafter)

# exponentials, logarithms, angles
exp: Unary = unary(Tensor.exp)
expm1: Unary = unary(Tensor.expm1)
log: Unary = unary(Tensor.log)
log1p: Unary = unary(Tensor.log1p)
log2: Unary = unary(Tensor.log2)
log10: Unary = unary(Tensor.log10)
logaddexp: Binary = binary(Tensor.logaddexp)
hypot: Binary = binary(Tensor.hypot)
atan2: Binary = binary(Tensor.atan2)
sin: Unary = unary(Tensor.sin)
cos: Unary = unary(Tensor.cos)
tan: Unary = unary(Tensor.tan)
asin: Unary = unary(Tensor.asin)
acos: Unary = unary(Tensor.acos)
atan: Unary = unary(Tensor.atan)
sinh: Unary = unary(Tensor.sinh)
cosh: Unary = unary(Tensor.cosh)
tanh: Unary = unary(Tensor.tanh)
asinh: Unary = unary(Tensor.asinh)
acosh: Unary = unary(Tensor.acosh)
atanh: Unary = unary(Tensor.atanh)

# rounding
ceil: Unary = unary(Tensor.ceil)
floor: Unary = unary(Tensor.floor)
round: Unary = unary(Tensor.round)
trunc: Unary = unary(Tensor.trunc)

conj: Unary = unary(Tensor.conj)


def real(x: Tensor, /) -> Tensor:
    """The real parts of elements, as floats in this shape; real numbers themselves."""
    return check_tensor("real", x).real


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts of elements, as floats in this shape.

    Of real numbers 0, in their dtype.
    """
    return x.imag if check_tensor("imag", x).dtype.is_complex else x.zeros_like()


def clip(x: Tensor, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Elements not below `min` and not above `max`, in the dtype of `x`; NaN where any of them is.

    Bounds are scalars, or tensors that broadcast with `x`; None is no bound. Raises ShapeError, and
    DTypeError for complex numbers.
    """
    result = check_tensor("clip", x)
    if min is not None:
        result = result.maximum(_bound(x, min))
    if max is not None:
        result = result.minimum(_bound(x, max))
    return result.clone() if result is x else result


def _bound(x: Tensor, value: Operand) -> Operand:
    if isinstance(value, Tensor):
        return value.cast(x.dtype)
    if isinstance(value, int) and x.dtype.is_int:
        return min(max(value, x.dtype.min), x.dtype.max)
    return value


explain_all(globals())
