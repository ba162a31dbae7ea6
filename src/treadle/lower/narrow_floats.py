"""Conversions between float32 and the narrow floats, as integer arithmetic on Nodes.

    widen(dtypes.bfloat16, bits)  -> float32: BITCAST(bits << 16)
    narrow(dtypes.fp8e4m3, value) -> uint8: rounded to nearest even; too large becomes NaN

fp8e4m3 is the variant without infinities: its one NaN is 0x7f, its largest number 448. NaNs lose
their payload. Works on scalars and vectors, without branches; no float32 subnormal is ever made, so
targets that flush them convert rightly too.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.node import Node

__all__ = ["FORMATS", "narrow", "round_to_odd", "widen"]

_INFINITY = 0x7F800000  # the bits of float32's
_NAN = 0x7FC00000


@dataclass(frozen=True)
class Format:
    """A narrow float of `exponent` and `fraction` bits and the exponent's `bias`.

    `over` codes the first value beyond the largest finite one (infinity or NaN), `nan` codes NaN.
    """

    exponent: int
    fraction: int
    bias: int
    over: int
    nan: int
    storage: DType

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.fraction)

    @property
    def drop(self) -> int:
        """How many fraction bits float32 has beyond this format."""
        return 23 - self.fraction

    @property
    def rebias(self) -> int:
        return 127 - self.bias


FORMATS: dict[DType, Format] = {
    dtypes.bfloat16: Format(8, 7, 127, 0x7F80, 0x7FC0, dtypes.uint16),
    dtypes.float16: Format(5, 10, 15, 0x7C00, 0x7E00, dtypes.uint16),
    dtypes.fp8e5m2: Format(5, 2, 15, 0x7C, 0x7E, dtypes.uint8),
    dtypes.fp8e4m3: Format(4, 3, 7, 0x7F, 0x7F, dtypes.uint8),
}


def _int32(count: int) -> DType:
    return dtypes.int32.vec(count)


def widen(dtype: DType, bits: Node) -> Node:
    """The float32 that equals the number of type `dtype` stored in `bits` (uint8 or uint16)."""
    form, count = FORMATS[dtype], bits.dtype.count
    wide = bits.cast(_int32(count))
    single = dtypes.float32.vec(count)
    if form.rebias == 0:
        return (wide << form.drop).bitcast(single)
    size = wide & (form.sign - 1)
    sign = (wide & form.sign) << (31 - form.exponent - form.fraction)
    normal = (size << form.drop) + (form.rebias << 23)
    subnormal = size.cast(single) * 2.0 ** (1 - form.bias - form.fraction)
    value = (size < (1 << form.fraction)).where(subnormal.bitcast(_int32(count)), normal)
    value = (size < form.over).where(value, size.like(_INFINITY))
    value = size.eq(form.nan).where(size.like(_NAN), value)
    if form.over != form.nan:
        value = (size > form.over).where(size.like(_NAN), value)
    return (value | sign).bitcast(single)


def narrow(dtype: DType, value: Node) -> Node:
    """The float32 `value` rounded to nearest even in `dtype`, as its bits (uint8 or uint16)."""
    form, count = FORMATS[dtype], value.dtype.count
    bits = value.bitcast(_int32(count))
    size = bits & 0x7FFFFFFF
    half_less_one = (1 << (form.drop - 1)) - 1
    rounded = size + ((size >> form.drop) & 1) + half_less_one
    result = (rounded >> form.drop) - (form.rebias << form.fraction)
    if form.rebias:
        result = (result > form.over).where(result.like(form.over), result)
        least_normal = (form.rebias + 1) << 23
        result = (size < least_normal).where(_subnormal(form, size), result)
    result = (size > _INFINITY).where(result.like(form.nan), result)
    sign = (bits >> (31 - form.exponent - form.fraction)) & form.sign
    return (result | sign).cast(form.storage.vec(count))


def _subnormal(form: Format, size: Node) -> Node:
    """Adding a number whose last place is the format's smallest step rounds to that step."""
    anchor = (form.rebias + form.drop + 1) << 23
    single = dtypes.float32.vec(size.dtype.count)
    total = size.bitcast(single) + size.like(anchor).bitcast(single)
    return total.bitcast(size.dtype) - anchor


def round_to_odd(value: Node) -> Node:
    """A float64 as float32, rounded to odd: rounding that once more to nearest is right."""
    count = value.dtype.count
    single = value.cast(dtypes.float32.vec(count))
    back = single.cast(value.dtype)
    bits = single.bitcast(_int32(count))
    outward = ((value < back) & (back > 0.0)) | ((back < value) & (back < 0.0))
    bits = bits - outward.where(bits.like(1), bits.like(0))
    inexact = (back < value) | (value < back)
    return (bits | inexact.where(bits.like(1), bits.like(0))).bitcast(single.dtype)
