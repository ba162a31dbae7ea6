"""Operands: two tensors, or a tensor and a Python scalar, become nodes of one dtype and shape.

float32 tensor, 2j     -> complex64 both
float16 tensor, 2.5    -> float16 both: a Python scalar never widens its own kind
float16 tensor, 70001  -> float16, but products and quotients are computed in float32 (is_beyond)
int32 tensor, 2.5      -> default_float both
bool tensor, 1         -> default_int both
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, TypeAlias

from ..dtype import DType, complex_of, dtypes, promoted
from ..errors import DeviceError, DTypeError
from ..ir.node import Node
from ..ir.op import Op
from ..kinds import OPERAND
from .shapes import broadcast_shapes, expand

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import TypeIs  # which only type checkers look up

    from .basis.core import Core

__all__ = [
    "Operand", "check_device", "is_beyond", "is_scalar", "operands", "plain", "rank", "scalar_node",
    "weak_dtype",
]  # fmt: skip

# What may stand beside a tensor: any Python number is a `complex`, a symbolic size is a Node.
Operand: TypeAlias = Annotated["Core | Node | complex | np.ndarray | np.generic", OPERAND]


def is_scalar(value: object) -> TypeIs[complex]:
    """Whether `value` is a Python scalar, whose dtype gives way to a tensor's."""
    return isinstance(value, (bool, int, float, complex))


def plain(value: complex) -> complex:
    """NumPy's float64 and complex128 are Python numbers too, but not exactly such."""
    if isinstance(value, complex):
        return complex(value)
    return float(value) if isinstance(value, float) else value


def rank(dtype: DType) -> int:
    """The kind of a dtype, by which kinds promote: bools, integers, floats, complex numbers."""
    if dtype.is_inexact:
        return 3 if dtype.is_complex else 2
    return 0 if dtype.is_bool else 1


def weak_dtype(value: complex, dtype: DType) -> DType:
    """The dtype that a tensor of `dtype` and the Python scalar `value` compute in."""
    if isinstance(value, complex) and dtype.is_inexact:
        return complex_of(dtype)
    own = dtypes.from_py(plain(value))
    return own if rank(own) > rank(dtype) else dtype


def scalar_node(name: str, value: complex, dtype: DType) -> Node:
    """`value` as a constant. Raises DTypeError for an integer that no bits of `dtype` hold, and for
    a complex number where `dtype` is real.
    """
    if isinstance(value, complex) and not dtype.is_complex:
        raise DTypeError(
            f"[{name}] the complex number {value} does not fit {dtype.name}; give its .real, or "
            "cast the tensor to complex64"
        )
    if dtype.is_int and not dtype.is_bool and isinstance(value, int):
        half = 1 << (dtype.bits - 1)
        if not -half <= value < 2 * half:
            raise DTypeError(
                f"[{name}] the integer {value} does not fit {dtype.name}; cast the tensor to a "
                "wider type first"
            )
    return Node.const(dtype, value)


def is_beyond(value: object, dtype: DType) -> bool:
    """Whether `value` is a number that `dtype`, of less than 32 bits, only has as 0 or infinity."""
    if not (is_scalar(value) and dtype.is_float and dtype.bits < 32):
        return False
    if isinstance(value, complex) or not value or not math.isfinite(value):
        return False
    held = Node.const(dtype, value).arg
    return not held or not math.isfinite(held)


def check_device(name: str, first: Core, *others: Core) -> None:
    """Raises DeviceError, naming both, where tensors live on different devices."""
    for other in others:
        if other.device != first.device:
            raise DeviceError(
                f"[{name}] tensors are on different devices: {_placed(first)} and "
                f"{_placed(other)}; move one with .to({first.device!r})"
            )


def _placed(tensor: Core) -> str:
    return f"{tensor.dtype.name} of shape {tensor.shape} on {tensor.device}"


def operands(name: str, first: Core, other: Core | complex) -> tuple[Node, Node]:
    """Nodes of both, promoted to one dtype and broadcast; a scalar stays a CONST of shape ()."""
    if is_scalar(other):
        dtype = weak_dtype(other, first.dtype)
        return first.node.cast(dtype), scalar_node(name, other, dtype)
    check_device(name, first, other)
    dtype = promoted(first.dtype, other.dtype)
    a, b = first.node.cast(dtype), other.node.cast(dtype)
    if a.shape == b.shape or Op.CONST in (a.op, b.op):
        return a, b
    shape = broadcast_shapes(name, a.shape, b.shape)
    return expand(a, shape), expand(b, shape)
