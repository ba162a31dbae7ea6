"""Distances between rows, and rows of bounded length.

a.cdist(b)                   -> (.., P, R), of rows (.., P, M) and (.., R, M)
a.pairwise_distance(b)       -> row by row
x.renorm(2, 0, 1.0)          -> the rows of x, none longer than 1
"""

from __future__ import annotations

from typing import Self

from ...errors import ArgumentError, DTypeError, ShapeError
from ..basis import Basis
from ..operands import Operand
from ..shapes import broadcast_shapes, resolve_axis
from ..vector_norms import pairwise_distance, vector_norm

__all__ = ["Distances"]


class Distances(Basis):
    """p-norms of differences; see `vector_norm`. Equal elements get the gradient 0."""

    __slots__ = ()

    def dist(self, other: Operand, p: float = 2) -> Self:
        """The p-norm of all elements of the difference, a scalar float; shapes broadcast.

        Floats or complex numbers. Raises ShapeError, DTypeError for anything else.
        """
        return vector_norm(self.sub(other), p)

    def pairwise_distance(
        self, other: Operand, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
    ) -> Self:
        """The p-norm along the last axis of the difference plus `eps`; shapes broadcast.

        (.., n) gives (..), or (.., 1) for `keepdim`. Dtypes promote, integers give floats; complex
        numbers give real ones. Raises ShapeError, and DTypeError for bools.
        """
        return pairwise_distance(self, other, p, eps, keepdim)

    def cdist(self, other: Self, p: float = 2.0) -> Self:
        """The p-distance of each row (.., P, M) to each row (.., R, M): (.., P, R), floats.

        Axes in front broadcast. Differences are computed as such, not by products of rows: close
        rows stay exact. Raises ShapeError, DTypeError for what are no floats, ArgumentError for a
        negative `p`.
        """
        if not (self.dtype.is_float and other.dtype.is_float):
            raise DTypeError(f"[cdist] takes floats, not {self.dtype.name} and {other.dtype.name}")
        if min(self.ndim, other.ndim) < 2 or self.shape[-1] != other.shape[-1]:
            raise ShapeError(
                f"[cdist] takes rows of one length, (.., P, M) and (.., R, M), not shapes "
                f"{self.shape} and {other.shape}"
            )
        if p < 0:
            raise ArgumentError(f"[cdist] p is at least 0, not {p}")
        broadcast_shapes("cdist", self.shape, other.shape, apart=2)
        return vector_norm(self.unsqueeze(-2).sub(other.unsqueeze(-3)), p, -1)

    def pdist(self, p: float = 2.0) -> Self:
        """The p-distance of each two rows of (N, M), those of row 0 first: (N (N - 1) / 2,).

        Floats, in their dtype, real ones of complex numbers. Raises ShapeError, DTypeError,
        ArgumentError for a negative `p`.
        """
        if self.ndim != 2:
            raise ShapeError(f"[pdist] takes rows, (N, M), not shape {self.shape}")
        if p < 0:
            raise ArgumentError(f"[pdist] p is at least 0, not {p}")
        import numpy as np

        count = self.shape[0]
        pairs = np.triu_indices(count, 1)
        places = (type(self)(rows.astype(np.int32), device=self.device) for rows in pairs)
        first, second = (self._pick(0, rows) for rows in places)
        return vector_norm(first.sub(second), p, -1)

    def renorm(self, p: float, dim: int, maxnorm: float) -> Self:
        """Each slice of an axis scaled down to the p-norm `maxnorm` if it has a larger one.

        Shape and dtype stay: floats or complex. Raises ShapeError, IndexOutOfRange, DTypeError,
        ArgumentError for numbers that are no norm.
        """
        if self.ndim < 2:
            raise ShapeError(f"[renorm] takes two axes or more, not shape {self.shape}")
        if p <= 0 or maxnorm < 0:
            raise ArgumentError(f"[renorm] needs p > 0 and maxnorm >= 0, not {p} and {maxnorm}")
        axis = resolve_axis("renorm", dim, self.ndim)
        others = tuple(i for i in range(self.ndim) if i != axis)
        size = vector_norm(self, p, others, True)
        long = size.gt(maxnorm)
        # divided by a little more, as PyTorch does, so that no result is longer
        factor = long.where(long.where(size, 1.0).add(1e-7).reciprocal().mul(maxnorm), 1.0)
        return self.mul(factor)
