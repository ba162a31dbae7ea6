"""Activation functions of neural networks, beside `relu`, `sigmoid` and `softmax` of the basis.

x.gelu(), x.leaky_relu(0.1), x.glu()  -> PyTorch's values, gradients at the corners included
"""

from __future__ import annotations

import math
from typing import Self

from ...errors import ArgumentError, ShapeError
from ..basis import Basis
from ..operands import is_scalar
from ..shapes import resolve_axis
from ..types import DTypeLike, Scalar

__all__ = ["Activations"]


class Activations(Basis):
    """Functions of each element, mostly, between the layers of a network."""

    __slots__ = ()

    def relu6(self) -> Self:
        """x between 0 and 6, elementwise, in its dtype; bools give int32. Raises DTypeError for
        complex numbers.
        """
        return self.relu()._at_most("relu6", 6)

    def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Self:
        """x between `min_val` and `max_val`, elementwise; dtypes promote, bools give int32.

        Raises ArgumentError where the first is above the second, DTypeError for complex numbers.
        """
        if is_scalar(min_val) and is_scalar(max_val) and min_val > max_val:
            raise ArgumentError(f"[hardtanh] no number is between {min_val} and {max_val}")
        return self._at_least("hardtanh", min_val)._at_most("hardtanh", max_val)

    def hardsigmoid(self, alpha: Scalar = 1 / 6, beta: Scalar = 0.5) -> Self:
        """alpha x + beta between 0 and 1, elementwise; integers give floats. Raises DTypeError for
        complex numbers.
        """
        if is_scalar(alpha) and is_scalar(beta) and alpha:  # exact where it begins to rise
            line = self.add(beta / alpha).mul(alpha)
        else:
            line = self.mul(alpha).add(beta)
        return line._at_least("hardsigmoid", 0)._at_most("hardsigmoid", 1)

    def hardswish(self) -> Self:
        """x relu6(x + 3) / 6, elementwise; integers give floats. Raises DTypeError for complex
        numbers.
        """
        return self.mul(self.add(3).relu6()).mul(1 / 6)

    def leaky_relu(self, neg_slope: float = 0.01) -> Self:
        """x, or `neg_slope` x below 0, elementwise; integers give floats. Raises DTypeError for
        complex numbers.
        """
        return self.gt(0).where(self, self.mul(neg_slope))

    def _exp_below(self) -> Self:
        """exp(x) - 1 where x <= 0, and 0 above, where it could overflow."""
        return self.gt(0).where(0.0, self).expm1()

    def elu(self, alpha: Scalar = 1.0) -> Self:
        """x, or alpha (exp(x) - 1) below 0, elementwise; integers give floats. Raises DTypeError
        for complex numbers.
        """
        x = self._float()
        return x.gt(0).where(x, x._exp_below().mul(alpha))

    def celu(self, alpha: Scalar = 1.0) -> Self:
        """x, or alpha (exp(x / alpha) - 1) below 0, elementwise; integers give floats.

        Raises DTypeError for complex numbers.
        """
        x = self._float()
        return x.gt(0).where(x, x.div(alpha)._exp_below().mul(alpha))

    def selu(self, alpha: Scalar = 1.6732632423543772, gamma: Scalar = 1.0507009873554805) -> Self:
        """gamma times `elu` of alpha, elementwise: arXiv 1706.02515; integers give floats. Raises
        DTypeError for complex numbers.
        """
        return self.elu(alpha).mul(gamma)

    def swish(self) -> Self:
        """x sigmoid(x) of each element; integers give floats."""
        return self.mul(self.sigmoid())

    def silu(self) -> Self:
        """x sigmoid(x) of each element: `swish`, under PyTorch's name; integers give floats."""
        return self.swish()

    def gelu(self, approximate: str = "none") -> Self:
        """x times the normal distribution function of x, by `erf`, or nearly so by "tanh",
        elementwise.

        Integers give floats. Raises ArgumentError, and DTypeError for complex numbers.
        """
        if approximate not in ("none", "tanh"):
            raise ArgumentError(f'[gelu] approximate is "none" or "tanh", not {approximate!r}')
        x = self._wide()
        if approximate == "tanh":
            inner = x.square().mul(x).mul(0.044715).add(x).mul(math.sqrt(2 / math.pi)).tanh()
        else:
            inner = x.mul(math.sqrt(0.5)).erf()
        return x.mul(inner.add(1.0).mul(0.5)).cast(self._float().dtype)

    def quick_gelu(self) -> Self:
        """x sigmoid(1.702 x), elementwise, an approximation of `gelu`; integers give floats."""
        x = self._wide()
        return x.mul(x.mul(1.702).sigmoid()).cast(self._float().dtype)

    def mish(self) -> Self:
        """x tanh(softplus(x)) of each element; integers give floats. Raises DTypeError for complex
        numbers.
        """
        return self.mul(self.softplus().tanh())

    def softsign(self) -> Self:
        """x / (1 + |x|), elementwise; integers give floats."""
        return self.div(self.abs().add(1))

    def softmin(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """The softmax of the negated elements along an axis, in this shape.

        Integers give floats, `dtype` converts first. Raises IndexOutOfRange, and DTypeError for
        complex numbers.
        """
        return self.neg().softmax(axis, dtype)

    def glu(self, dim: int = -1) -> Self:
        """The first half of an axis times the sigmoid of the second; integers give floats.

        Raises ShapeError for an odd size, IndexOutOfRange.
        """
        size = self.shape[resolve_axis("glu", dim, self.ndim)] if self.ndim else 0
        if not size or size % 2:
            raise ShapeError(f"[glu] axis {dim} of shape {self.shape} has no two halves")
        first, second = self.split(size // 2, dim)
        return first.mul(second.sigmoid())

    def prelu(self, weight: Self) -> Self:
        """x, or weight x below 0, elementwise, with one weight or one for each place of axis 1.

        The shape stays, dtypes promote. Raises ShapeError for any other number of weights,
        DTypeError for complex numbers.
        """
        channels = self.shape[1] if self.ndim > 1 else 1
        if weight.ndim > 1 or weight.numel() not in (1, channels):
            raise ShapeError(
                f"[prelu] needs a scalar or a vector of {channels} weights for shape {self.shape}, "
                f"not {weight.shape}"
            )
        many = weight.numel() > 1
        shape = [-1 if i == 1 else 1 for i in range(self.ndim)] if many else []
        return self.gt(0).where(self, self.mul(weight.reshape(shape)))

    def threshold(self, threshold: float, value: float) -> Self:
        """x above `threshold`, `value` elsewhere, elementwise; a float as `value` makes floats of
        integers.

        Raises DTypeError for complex numbers.
        """
        return self.gt(threshold).where(self, value)

    def hardshrink(self, lambd: float = 0.5) -> Self:
        """x outside of ±lambd, 0 inside, elementwise; the dtype stays, bools give int32."""
        return self.abs().le(lambd).where(0, self)

    def softshrink(self, lambd: float = 0.5) -> Self:
        """x moved towards 0 by `lambd`, 0 within that distance, which is at least 0; elementwise,
        integers give floats.

        Raises ArgumentError, and DTypeError for complex numbers.
        """
        if lambd < 0:
            raise ArgumentError(f"[softshrink] lambd is a distance of at least 0, not {lambd}")
        below = self.lt(-lambd).where(self.add(lambd), 0.0)
        return self.gt(lambd).where(self.sub(lambd), below)

    def tanhshrink(self) -> Self:
        """x - tanh(x), elementwise; integers give floats."""
        x = self._wide()
        return x.sub(x.tanh()).cast(self._float().dtype)
