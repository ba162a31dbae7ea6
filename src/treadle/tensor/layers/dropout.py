"""Layers that draw random numbers while training.

x.dropout(0.5), x.feature_dropout(), x.alpha_dropout(0.5), x.rrelu()
"""

from __future__ import annotations

import math
from typing import Self, TypeVar

from ...dtype import DType, dtypes
from ...engine.devices import Device
from ...errors import ArgumentError, ShapeError
from ...ir.shape import Shape
from ..basis import Basis
from ..random_bits import uniform

__all__ = ["Dropout", "dropped"]

T = TypeVar("T", bound=Basis)

# what SELU tends to for large negative numbers: -scale * alpha of Klambauer et al. (2017)
_SELU_LEAST = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


class Dropout(Basis):
    """Noise."""

    __slots__ = ()

    def dropout(self, p: float = 0.5) -> Self:
        """While training, each element 0 with probability `p`, the others scaled by 1 / (1 - p).

        Shape and dtype stay, integers give floats then; when not training the values stay, too.
        Raises ArgumentError for a `p` outside 0 to 1.
        """
        return dropped("dropout", self, self.shape, p)

    def rrelu(self, lower: float = 1 / 8, upper: float = 1 / 3) -> Self:
        """x, or below 0 a multiple of x: random from `lower` to `upper` while training, else the
        middle.

        The shape stays, integers give floats. Raises ArgumentError, and DTypeError for complex
        numbers.
        """
        if lower > upper:
            raise ArgumentError(
                f"[rrelu] slopes go from lower to upper, not from {lower} to {upper}"
            )
        if not type(self).training:
            return self.gt(0).where(self, self.mul((lower + upper) / 2))
        unit = _uniform(self, self.shape, dtypes.default_float)
        slope = unit.mul(float(upper - lower)).add(float(lower))
        return self.gt(0).where(self, self.mul(slope.cast(self.dtype)))

    def feature_dropout(self, p: float = 0.5) -> Self:
        """`dropout` of whole channels: what stands behind axes 0 and 1 is kept or 0 together.

        PyTorch's dropout1d, dropout2d and dropout3d. Shape and dtype stay, integers give floats.
        Raises ShapeError, and ArgumentError for a `p` outside 0 to 1.
        """
        return dropped("feature_dropout", self, self._features("feature_dropout"), p)

    def alpha_dropout(self, p: float = 0.5) -> Self:
        """While training, elements at SELU's lower limit with probability `p`, then scaled; the
        shape stays.

        Mean and variance stay as they are for inputs of mean 0 and variance 1. Floats keep their
        dtype, integers give floats; when not training it is the tensor itself. Raises
        ArgumentError.
        """
        return self._alpha_dropout("alpha_dropout", self.shape, p)

    def feature_alpha_dropout(self, p: float = 0.5) -> Self:
        """`alpha_dropout` of whole channels, in this shape; see `feature_dropout`. Integers give
        floats.

        Raises ShapeError, and ArgumentError for a `p` outside 0 to 1.
        """
        shape = self._features("feature_alpha_dropout")
        return self._alpha_dropout("feature_alpha_dropout", shape, p)

    def _features(self, name: str) -> Shape:
        if self.ndim < 2:
            raise ShapeError(f"[{name}] takes (N, C, ...), not shape {self.shape}")
        return (*self.shape[:2], *(1,) * (self.ndim - 2))

    def _alpha_dropout(self, name: str, shape: Shape, p: float) -> Self:
        if not 0 <= p <= 1:
            raise ArgumentError(f"[{name}] p is a probability, not {p}")
        if not type(self).training or p == 0:
            return self._again()
        if p == 1:
            return self.mul(0)
        kept = _uniform(self, shape, dtypes.float32).ge(p)
        scale = 1 / math.sqrt((1 - p) * (1 + p * _SELU_LEAST**2))
        return kept.where(self, _SELU_LEAST).mul(scale).sub(scale * p * _SELU_LEAST)


def dropped(name: str, x: T, shape: Shape, p: float) -> T:
    """`dropout` with one random number for each element of `shape`, which broadcasts."""
    if not 0 <= p <= 1:
        raise ArgumentError(f"[{name}] p is a probability, not {p}")
    if not type(x).training or p == 0:
        return x._again()
    if p == 1:
        return x.mul(0)
    kept = _uniform(x, shape, dtypes.float32).ge(p)
    return kept.where(x, 0).div(1.0 - p)


def _uniform(x: T, shape: Shape, dtype: DType) -> T:
    """Numbers in [0, 1) in `shape`, beside `x`."""
    name = Device.canonicalize(x.device)
    return type(x)._new(uniform(shape, name, dtype, in_memory=True), name)
