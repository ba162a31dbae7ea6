"""Normalisation: over some axes, with statistics that are given, or over neighbouring channels.

x.layernorm(), x.rms_norm(64), x.local_response_norm(5)
x.batchnorm(weight, bias, mean, invstd)
"""

from __future__ import annotations

from typing import Self

from ...dtype import finfo
from ...errors import ShapeError
from ..basis import Basis
from ..checks import check_vectors
from ..shapes import flatten_args, resolve_axes
from ..types import Axes, Sizes

__all__ = ["Normalisation"]


class Normalisation(Basis):
    """Scaled by what is measured."""

    __slots__ = ()

    def layernorm(self, axis: Axes = -1, eps: float = 1e-05) -> Self:
        """Mean 0 and variance 1 over some axes, the last one by default; the shape stays, integers
        give floats.

        Raises IndexOutOfRange, and DTypeError for complex numbers.
        """
        self._check_real("layernorm")
        resolve_axes("layernorm", axis, self.ndim)
        x = self._wide()  # squares of halves soon overflow
        centred = x.sub(x.mean(axis, keepdim=True))
        scale = centred.square().mean(axis, keepdim=True).add(eps).rsqrt()
        return centred.mul(scale).cast(self._float().dtype)

    def batchnorm(
        self, weight: Self | None, bias: Self | None, mean: Self, invstd: Self, axis: Axes = 1
    ) -> Self:
        """`(self - mean) * weight * invstd + bias`, each a vector along `axis`; dtypes promote.

        The shape stays. Raises ShapeError, IndexOutOfRange, and DTypeError for bools and complex
        numbers.
        """
        self._check_real("batchnorm")
        axes = resolve_axes("batchnorm", axis, self.ndim)
        given = {"mean": mean, "weight": weight, "bias": bias}
        vectors = {name: t.shape for name, t in given.items() if t is not None}
        check_vectors("batchnorm", self.shape, axes, vectors)
        shape = tuple(n if i in axes else 1 for i, n in enumerate(self.shape))
        x = self.sub(mean.reshape(shape))
        if weight is not None:
            x = x.mul(weight.reshape(shape))
        scale = invstd.reshape(shape) if invstd.ndim == len(axes) else invstd
        x = x.mul(scale)
        return x if bias is None else x.add(bias.reshape(shape))

    def rms_norm(
        self, normalized_shape: Sizes, weight: Self | None = None, eps: float | None = None
    ) -> Self:
        """Divided by the root of the mean square over the last axes, of `normalized_shape`.

        Then times `weight`, of that shape. `eps` None is the distance from 1 to the next number of
        the dtype. Shape and dtype stay: floats or complex. Raises ShapeError, DTypeError.
        """
        shape = flatten_args(normalized_shape, ())
        if not shape or self.shape[-len(shape) :] != shape:
            raise ShapeError(f"[rms_norm] shape {self.shape} does not end in {shape}")
        if weight is not None and weight.shape != shape:
            raise ShapeError(f"[rms_norm] weight has shape {weight.shape}, expected {shape}")
        x, least = self._wide(), finfo(self.dtype).eps if eps is None else eps
        mean = x.square().mean(tuple(range(-len(shape), 0)), keepdim=True)
        result = x.mul(mean.add(least).rsqrt()).cast(self.dtype)
        return result if weight is None else result.mul(weight)

    def local_response_norm(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> Self:
        """Divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta.

        Channels are axis 1 of three axes or more; the shape stays, integers give floats. Raises
        ShapeError.
        """
        if self.ndim < 3 or size < 1:
            raise ShapeError(
                f"[local_response_norm] takes (N, C, ...) of three axes or more and a size of at "
                f"least 1, not shape {self.shape} and {size}"
            )
        around = (size // 2, (size - 1) // 2)
        squares = self.square()._padded([around if i == 1 else (0, 0) for i in range(self.ndim)])
        means = squares.unfold(1, size, 1).mean(-1)
        return self.div(means.mul(alpha).add(k).pow(beta))
