"""Bytes of RGB in 16-bit fixed point: the upper halves of products of unsigned 16-bit numbers.

    R = (mulhi(Y, 9539) + mulhi(V, 14686) - 7922) >> 5, cut to 0..255     BT.709, limited range

Y, U and V are samples of any depth in the upper bits of 16. Vectors hold twice as many of such
numbers as of floats, and processors have one instruction for `mulhi`. A result is within 0.6 of
what the reals give, where rounding that to the nearest is within 0.5.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from ..dtype import dtypes
from ..tensor import Tensor
from .weights import Weights

__all__ = ["FixedPoint"]

_MOST_FRACTION, _LEAST_FRACTION = 7, 5  # bits behind the point
_LIMIT = 1 << 15
_SLACK = 4  # units of the last bit: what three products and their weights are cut by


class FixedPoint(NamedTuple):
    """Weights of `luma`, `u` and `v` as 16-bit factors, with `fraction` bits behind the point."""

    fraction: int
    luma: int
    u: tuple[int, int, int]
    v: tuple[int, int, int]
    offset: tuple[int, int, int]

    @classmethod
    def of(cls, weights: Weights, sample_bits: int) -> Self | None:
        """Weights for samples of 8 or 16 bits; None where a sum would leave 16 bits."""
        top = (1 << sample_bits) - 1
        for fraction in range(_MOST_FRACTION, _LEAST_FRACTION - 1, -1):
            scale = 1 << fraction
            ends = [
                offset + sum(top * limit(0.0, weight) for weight in (weights.luma, u, v))
                for u, v, offset in zip(weights.u, weights.v, weights.offset, strict=True)
                for limit in (min, max)
            ]
            if max(map(abs, ends)) * scale + _SLACK < _LIMIT:
                return cls._scaled(weights, fraction, scale << sample_bits)
        return None

    @classmethod
    def _scaled(cls, weights: Weights, fraction: int, scale: int) -> Self:
        middle, made = scale / 2, []  # chroma of greys is in the middle
        for by_u, by_v, offset in zip(weights.u, weights.v, weights.offset, strict=True):
            grey = offset * (1 << fraction) + middle * (by_u + by_v)
            u, v = round(by_u * scale), round(by_v * scale)
            # Luma's product loses half a unit on average. What those of chroma lose on greys is
            # known: the three channels of a grey are the same.
            made.append((u, v, round(grey + 0.5) - _at_middle(u) - _at_middle(v)))
        red, green, blue = made
        u, v, offset = zip(red, green, blue, strict=True)
        return cls(fraction, round(weights.luma * scale), u, v, offset)

    def lumas(self, *samples: Tensor) -> list[Tensor]:
        """What brightness adds to each channel."""
        return [_upper_half(sample, self.luma) for sample in samples]

    def tints(self, u: Tensor, v: Tensor) -> list[Tensor]:
        """What colour adds to R, G and B."""
        made = []
        for by_u, by_v, offset in zip(self.u, self.v, self.offset, strict=True):
            tint: Tensor | int = offset
            for sample, factor in ((u, by_u), (v, by_v)):
                if factor > 0:
                    tint = _upper_half(sample, factor) + tint
                elif factor < 0:
                    tint = tint - _upper_half(sample, -factor)
            made.append(tint)
        return made

    def bytes_of(self, value: Tensor) -> Tensor:
        """A sum of both, rounded and cut to what a byte holds."""
        return (value >> self.fraction).maximum(0).minimum(255).cast(dtypes.uint8)


def _at_middle(factor: int) -> int:
    """What a product adds for the sample in the middle, 1 << 15."""
    return factor >> 1 if factor > 0 else -(-factor >> 1)


def _upper_half(sample: Tensor, factor: int) -> Tensor:
    return ((sample.cast(dtypes.uint32) * factor) >> 16).cast(dtypes.int16)
