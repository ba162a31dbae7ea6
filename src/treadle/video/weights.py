"""The numbers of a conversion: matrix, range, bit depth and place of the bits at once."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Weights"]


class Weights(NamedTuple):
    """R, G and B, from 0 to `top`, are luma * Y + u[i] * U + v[i] * V + offset[i]."""

    luma: float
    u: tuple[float, float, float]
    v: tuple[float, float, float]
    offset: tuple[float, float, float]
    top: float
