"""The bit layout of float32 and float64, and the small pieces that `lower/math` is written in.

    layout(x)            -> FLOAT32 or FLOAT64
    mask(x)              -> x with the lower half of its significand cleared
    horner(z, (1, 2, 3)) -> (3*z + 2)*z + 1

Every piece works on scalars and vectors, without branches. Renderers may contract a product and a
sum into one FMA: nothing here depends on a product's rounding, because the products whose error
would matter are products of two masked values, and exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.node import Node

__all__ = [
    "FLOAT32", "FLOAT64", "Layout", "absolute", "clamp", "horner", "layout", "mask", "of_bits",
    "sign_bit", "signed_bits", "split", "unsigned_bits", "with_sign",
]  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """A float type of `bits`, with `fraction` stored bits and exponent offset `bias`."""

    bits: int
    fraction: int
    bias: int
    signed: DType
    unsigned: DType
    low_half: int  # the bits of a significand that `mask` clears

    @property
    def magic(self) -> float:
        """Adding this rounds to an integer and leaves it in the lowest bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def min_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FLOAT32 = Layout(32, 23, 127, dtypes.int32, dtypes.uint32, 12)
FLOAT64 = Layout(64, 52, 1023, dtypes.int64, dtypes.uint64, 27)


def layout(x: Node) -> Layout:
    """The layout of a float32 or float64 node."""
    return FLOAT32 if x.dtype.bits == 32 else FLOAT64


def signed_bits(x: Node) -> Node:
    return x.bitcast(layout(x).signed.vec(x.dtype.count))


def unsigned_bits(x: Node) -> Node:
    return x.bitcast(layout(x).unsigned.vec(x.dtype.count))


def of_bits(bits: Node) -> Node:
    """The float of the same width with these bits."""
    kind = dtypes.float32 if bits.dtype.bits == 32 else dtypes.float64
    return bits.bitcast(kind.vec(bits.dtype.count))


def mask(x: Node) -> Node:
    """`x` cut to half of its significand: the product of two such values is exact."""
    return of_bits(signed_bits(x) & -(1 << layout(x).low_half))


def split(x: Node, value: float, tail: float = 0.0) -> tuple[float, float]:
    """`value` + `tail` as high + low in the type of `x`, with high cut as by `mask`."""
    fraction, exponent = math.frexp(value)
    keep = layout(x).fraction + 1 - layout(x).low_half
    high = math.ldexp(math.floor(math.ldexp(fraction, keep)), exponent - keep)
    return high, (value - high) + tail


def sign_bit(x: Node) -> Node:
    """The sign of `x`, in place, in an unsigned integer."""
    return unsigned_bits(x) & (1 << (layout(x).bits - 1))


def absolute(x: Node) -> Node:
    """|x|, of -0.0 and NaN too."""
    return of_bits(unsigned_bits(x) & ((1 << (layout(x).bits - 1)) - 1))


def with_sign(x: Node, sign: Node) -> Node:
    """`x` negated where `sign` (as `sign_bit` gives it) is set."""
    return of_bits(unsigned_bits(x) ^ sign)


def clamp(x: Node, low: float, high: float) -> Node:
    """`x` within [low, high]; NaN stays NaN."""
    x = (x < low).where(x.like(low), x)
    return (x > high).where(x.like(high), x)


def horner(x: Node, coefficients: Sequence[float]) -> Node:
    """The polynomial with `coefficients` from the constant term upwards."""
    result = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result
