"""Norms of vectors and matrices, and powers of matrices, composed of what stands below.

x.norm()                     the square root of the sum of all squares
x.vector_norm(1, dim=-1)     sums of magnitudes along one axis
x.matrix_norm("nuc")         sums of singular values, of the last two axes
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol, Self, TypeVar, cast

from ...errors import ShapeError
from ...transforms import matrices
from ..basis import Basis
from ..constants import identity
from ..shapes import expand, resolve_axis
from ..types import Axes, DTypeLike
from ..vector_norms import inexact, vector_norm
from .matrix_operands import matrix_of

__all__ = ["Norms"]

T = TypeVar("T", bound=Basis)


class Norms(Basis):
    """Norms and powers."""

    __slots__ = ()

    def norm(
        self,
        p: float | str | None = "fro",
        dim: Axes = None,
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """`vector_norm` of a number `p`, where "fro" is 2; `matrix_norm` of two axes for "nuc".

        Over `dim`, one axis, several or all (None), which vanish, or stay with size 1 for
        `keepdim`. Floats, in their dtype, real ones of complex numbers; `dtype` converts first.
        Raises ShapeError, IndexOutOfRange, DTypeError.
        """
        if p == "nuc":
            axes = (-2, -1) if dim is None else dim
            return self.matrix_norm("nuc", axes, keepdim, dtype)
        order = 2 if p is None or p == "fro" else cast("float", p)
        return self.vector_norm(order, dim, keepdim, dtype)

    def vector_norm(
        self,
        ord: float = 2,
        dim: Axes = None,
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """(sum of |x| ** ord) ** (1 / ord) over axes, over all if `dim` is None.

        The axes vanish, or stay with size 1 for `keepdim`. inf and -inf are the largest and the
        smallest magnitude, 0 counts what is not 0. Elements that are 0 get the gradient 0. Floats,
        or complex numbers, which give real ones; `dtype` converts first. Raises DTypeError for
        anything else, IndexOutOfRange, ShapeError for an `ord` that is no number.
        """
        return vector_norm(self, ord, dim, keepdim, dtype)

    def matrix_norm(
        self,
        ord: float | str = "fro",
        dim: Axes = (-2, -1),
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """A norm of the matrices in two axes, which vanish, or stay with size 1 for `keepdim`.

        "fro": of all elements; "nuc": the sum of the singular values; 2, -2: the largest and the
        smallest of them; 1, -1: the largest and the smallest sum of magnitudes of a column; inf,
        -inf: of a row. Floats, in their dtype, real ones of complex numbers; `dtype` converts
        first. Raises ShapeError, IndexOutOfRange or DTypeError.
        """
        x = inexact("matrix_norm", self, dtype)
        row, column = _two_axes("matrix_norm", dim, self.ndim)
        if ord == "fro":
            return x.vector_norm(2, (row, column), keepdim)
        if ord not in _MATRIX_NORMS:
            known = "'fro', 'nuc', 1, -1, 2, -2, inf and -inf"
            raise ShapeError(f"[matrix_norm] ord {ord!r} is not known; there are {known}")
        others = [axis for axis in range(self.ndim) if axis not in (row, column)]
        found = _MATRIX_NORMS[ord](x.permute((*others, row, column)))
        if not keepdim:
            return found
        return found.reshape([1 if a in (row, column) else n for a, n in enumerate(self.shape)])

    def cond(self, p: float | None = None) -> Self:
        """The condition number of matrices (.., n, n): their norm times that of the inverse, (..).

        `p` is an `ord` of `matrix_norm`; None and 2 take the largest singular value over the
        smallest, -2 the reciprocal, also of matrices that are not square. Singular ones have the
        number infinity. float32 or float64, of complex numbers too. Raises ShapeError or
        DTypeError.
        """
        if not min(self.shape[-2:], default=1):
            return self._result(matrices.svdvals(matrix_of(self, "cond"))).sum(-1)
        if p not in (None, 2, -2):
            inverse = self._result(matrices.inv(matrix_of(self, "cond", square=True), strict=False))
            return self.matrix_norm(p) * inverse.matrix_norm(p)
        values = self._result(matrices.svdvals(matrix_of(self, "cond")))
        ends = values[..., 0], values[..., -1]
        return ends[1] / ends[0] if p == -2 else ends[0] / ends[1]

    def matrix_power(self, n: int) -> Self:
        """The product of `n` times self, (.., m, m), in its dtype; of the inverse if `n` is
        negative.

        Raises ShapeError, and DTypeError as `inv` does.
        """
        if isinstance(n, bool) or not isinstance(n, int):
            raise ShapeError(f"[matrix_power] the power is an integer, not {n!r}")
        if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
            raise ShapeError(f"[matrix_power] takes square matrices, not shape {self.shape}")
        if n == 0:
            eye = identity(self.shape[-1], self.shape[-1], self.dtype)
            return type(self)._of(expand(eye, self.shape), self.device)
        square, rest, result = self if n > 0 else _inverse(self), abs(n), None
        while True:
            if rest & 1:
                result = square if result is None else result @ square
            rest >>= 1
            if not rest:
                assert result is not None
                return result
            square = square @ square


def _two_axes(name: str, dim: Axes, rank: int) -> tuple[int, int]:
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise ShapeError(f"[{name}] dim names two axes, not {dim!r}")
    row, column = (resolve_axis(name, axis, rank) for axis in dim)
    if rank < 2 or row == column:
        raise ShapeError(f"[{name}] dim {tuple(dim)} names no two axes of {rank}")
    return row, column


def _inverse(x: T) -> T:
    return x._result(matrices.inv(matrix_of(x, "inv", square=True)))


def _singular_values(x: T) -> T:
    return x._result(matrices.svdvals(matrix_of(x, "svdvals")))


class _MatrixNorm(Protocol):
    def __call__(self, x: T, /) -> T: ...


_MATRIX_NORMS: Mapping[float | str, _MatrixNorm] = {
    "nuc": lambda x: _singular_values(x).sum(-1),
    1: lambda x: x.abs().sum(-2).max(-1),
    -1: lambda x: x.abs().sum(-2).min(-1),
    2: lambda x: _singular_values(x).max(-1),
    -2: lambda x: _singular_values(x).min(-1),
    math.inf: lambda x: x.abs().sum(-1).max(-1),
    -math.inf: lambda x: x.abs().sum(-1).min(-1),
}
