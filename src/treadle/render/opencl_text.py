"""Types and constants as OpenCL C spells them."""

from __future__ import annotations

import math

from ..dtype import DType

__all__ = ["SCALARS", "literal"]

SCALARS = {
    "bool": "uchar", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort",
    "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong", "float16": "half",
    "float32": "float", "float64": "double",
}  # fmt: skip


def literal(dtype: DType, value: float) -> str:
    """A constant of `dtype`."""
    if dtype.is_bool:
        return "1" if value else "0"
    if dtype.is_int:
        return _integer(dtype, int(value))
    kind = SCALARS[dtype.name]
    if math.isnan(value):
        return f"(({kind})NAN)"
    if math.isinf(value):
        return f"(({kind}){'-' if value < 0 else ''}INFINITY)"
    if dtype.bits == 16:
        return f"((half){float(value).hex()}f)"
    return f"{float(value).hex()}{'f' if dtype.bits == 32 else ''}"


def _integer(dtype: DType, value: int) -> str:
    if value == -(1 << 63):
        return "(-0x7fffffffffffffffL - 1)"
    if value == -(1 << 31) and dtype.bits == 32:
        return "(-0x7fffffff - 1)"
    suffix = {"int64": "L", "uint64": "UL", "uint32": "U"}.get(dtype.name, "")
    code = f"{value}{suffix}"
    if dtype.bits < 32:
        return f"(({SCALARS[dtype.name]}){code})"
    return f"({code})" if value < 0 else code
