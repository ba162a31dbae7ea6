"""Dtypes: conversion, promotion, limits, and shapes that broadcast.

result_type(x, float32, 1)    isdtype(x.dtype, ("integral", "bool"))    finfo(float32).eps
"""

from __future__ import annotations

import functools

from .. import dtype as types
from ..dtype import DType, least_upper_dtype, to_dtype
from ..errors import DTypeError
from ..explained import explain_all
from ..tensor import Tensor
from ..tensor.operands import is_scalar, weak_dtype
from ..tensor.shapes import broadcast_shapes
from ..tensor.types import DTypeLike
from .creation import asarray
from .signatures import check_tensor

__all__ = [
    "astype", "broadcast_arrays", "broadcast_to", "can_cast", "finfo", "iinfo", "isdtype",
    "result_type",
]  # fmt: skip


def astype(
    x: Tensor, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None
) -> Tensor:
    """The elements as `dtype`; `x` itself only if nothing is to be done and `copy` is False.

    Raises DTypeError for complex numbers as real ones.
    """
    return asarray(check_tensor("astype", x), dtype=dtype, device=device, copy=copy or None)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Expanded to `shape`; the dtype stays. Raises ShapeError."""
    return check_tensor("broadcast_to", x).broadcast_to(shape)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """All expanded to the shape that they have together, each in its dtype. Raises ShapeError."""
    tensors = [check_tensor("broadcast_arrays", x) for x in arrays]
    shape = broadcast_shapes("broadcast_arrays", *(x.shape for x in tensors))
    return [x.broadcast_to(shape) for x in tensors]


def result_type(*arrays_and_dtypes: object) -> DType:
    """The dtype that tensors, dtypes and Python scalars compute in; scalars give way.

    Raises DTypeError for no tensor and no dtype among them.
    """
    scalars = [item for item in arrays_and_dtypes if is_scalar(item)]
    others = [_dtype_of(item) for item in arrays_and_dtypes if not is_scalar(item)]
    if not others:
        raise DTypeError("[result_type] takes at least one tensor or dtype")
    return functools.reduce(
        lambda dtype, scalar: weak_dtype(scalar, dtype), scalars, least_upper_dtype(*others)
    )


def can_cast(from_: object, to: object, /) -> bool:
    """Whether promotion turns the one dtype (or that of a tensor) into the other, of its kind."""
    source, target = _dtype_of(from_), to_dtype(to)
    return _family(source) == _family(target) and least_upper_dtype(source, target) is target


def isdtype(dtype: DTypeLike, kind: object) -> bool:
    """Whether `dtype` is of a kind (by the standard's name), is a dtype, or any of a tuple of both.

    Raises DTypeError for a kind that there is not.
    """
    found = to_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, one) for one in kind)
    if not isinstance(kind, str):
        return found is to_dtype(kind)
    if kind not in _KINDS:
        raise DTypeError(f"[isdtype] kind {kind!r} is none of {', '.join(map(repr, _KINDS))}")
    return found.kind in _KINDS[kind]


def finfo(type: object, /) -> types.finfo:
    """Limits of a float type, or of a tensor's: bits, eps, max, min, smallest_normal, dtype."""
    return types.finfo(_dtype_of(type))


def iinfo(type: object, /) -> types.iinfo:
    """Limits of an integer type, or of a tensor's: bits, max, min, dtype."""
    return types.iinfo(_dtype_of(type))


# The standard's names for kinds of dtypes, as the kinds that a DType has.
_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


def _family(dtype: DType) -> str:
    return "int" if dtype.is_int else dtype.kind


def _dtype_of(item: object) -> DType:
    return item.dtype if isinstance(item, Tensor) else to_dtype(item)


explain_all(globals())
