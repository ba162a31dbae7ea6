"""LU factors, the exponential, and equations of many axes.

    p, l, u = x.lu()                    factors, pivots = x.lu_factor()
    x.vander()                          x.matrix_exp()
    a.tensorsolve(b), a.tensorinv()     b.cholesky_solve(l)

What is factored is a HOST node, like all decompositions: see `Decompositions`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self, cast

from ...errors import ShapeError
from ...ir.node import Node
from ...transforms import matrices
from ..basis import Basis
from ..constants import identity
from ..shapes import resolve_axis
from ..types import Axes
from .matrix_operands import in_memory, matrix_of, solved, solved_triangular

__all__ = ["Factors"]


class Factors(Basis):
    """Linear algebra on top of decompositions."""

    __slots__ = ()

    # -- powers -------------------------------------------------------------------------------

    def vander(self, n: int | None = None, increasing: bool = False) -> Self:
        """Powers of the elements of (.., m) along a new last axis: (.., m, n); `n` None is m.

        From the highest to 0, or from 0 on. Integers give at least int32 or uint32, bools int32;
        other dtypes stay. Raises ShapeError.
        """
        x = self.reshape(self.shape or (1,))
        count = x.shape[-1] if n is None else n
        if count < 0:
            raise ShapeError(f"[vander] the number of columns is at least 0, not {n}")
        column = x.unsqueeze(-1)
        ones = column._filled(1).expand((*x.shape, min(count, 1)))
        powers = ones.cat(column.expand((*x.shape, max(count - 1, 0))).cumprod(-1), dim=-1)
        return powers if increasing else powers.flip(-1)

    def matrix_exp(self) -> Self:
        """The exponential of (.., n, n), the sum of all self^k / k!, in its shape and dtype.

        float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        return self._result(matrices.matrix_exp(matrix_of(self, "matrix_exp", square=True)))

    # -- factors ------------------------------------------------------------------------------

    def lu_factor(self) -> tuple[Self, Self]:
        """L below U in one matrix (.., m, n), and int32 pivots (.., min(m, n)).

        L has ones on its diagonal, which are not stored. Row i was exchanged with row pivots[i],
        counted from 1 as in LAPACK. A singular matrix is factored, too. float32, float64 or
        complex. Raises ShapeError or DTypeError.
        """
        factors, pivots, _ = matrices.lu(matrix_of(self, "lu_factor"))
        return self._result(factors), self._result(pivots)

    def lu(self) -> tuple[Self, Self, Self]:
        """P, L and U with P @ L @ U = self of (.., m, n); P exchanges rows.

        With k = min(m, n), L is (.., m, k) with ones on its diagonal, U is (.., k, n). All have
        this dtype: float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        factors, _, order = matrices.lu(matrix_of(self, "lu"))
        return self._result(factors)._unpacked(self._result(order))

    def lu_unpack(self, pivots: Self) -> tuple[Self, Self, Self]:
        """P, L and U, (.., m, m), (.., m, k) and (.., k, n), from what `lu_factor` gives; see `lu`.

        In this dtype: float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        return self._unpacked(self._row_order("lu_unpack", pivots))

    def _unpacked(self, order: Self) -> tuple[Self, Self, Self]:
        """`order`: which row of the matrix is row i of the factors."""
        m, n = self.shape[-2:]
        k = min(m, n)
        low = self._slice(self.ndim - 1, 0, k).tril(-1).add(self._unit(m, k))
        return self._exchanges(order), low, self._slice(self.ndim - 2, 0, k).triu()

    def _exchanges(self, order: Self) -> Self:
        """The matrix P, whose column i has its 1 in row order[i]."""
        m = self.shape[-2]
        rows = self._unit(m, m)._places(0).expand((*order.shape, m))
        return order.unsqueeze(-2).eq(rows).cast(self.dtype)

    def _unit(self, rows: int, columns: int) -> Self:
        return type(self)._of(identity(rows, columns, self.dtype), self.device)

    def lu_solve(self, pivots: Self, b: Self, left: bool = True) -> Self:
        """The x of a @ x = b, where this tensor and `pivots` are `a.lu_factor()`; see `solve`.

        In the shape of `b`, (.., n, k). `left` false: of x @ a = b. float32, float64 or complex.
        Raises ShapeError or DTypeError.
        """
        order = self._row_order("lu_solve", pivots)
        rows = self._exchanges(order)
        if left:
            inner = solved_triangular(self, rows.mT @ b, upper=False, unit=True)
            return solved_triangular(self, inner, upper=True)
        inner = solved_triangular(self, b, upper=True, left=False)
        return solved_triangular(self, inner, False, left=False, unit=True) @ rows.mT

    def _row_order(self, name: str, pivots: Self) -> Self:
        matrix_of(self, name)
        wanted = (*self.shape[:-2], min(self.shape[-2:]))
        if pivots.shape != wanted or not pivots.dtype.is_int:
            raise ShapeError(
                f"[{name}] factors of shape {self.shape} need integer pivots of {wanted}, not "
                f"{pivots.dtype.name} of shape {pivots.shape}"
            )
        numbers = in_memory(pivots.node, pivots.device)
        return pivots._result(matrices.permutation(numbers, self.shape[-2]))

    # -- systems of equations -----------------------------------------------------------------

    def cholesky_solve(self, factor: Self, upper: bool = False) -> Self:
        """The x of a @ x = self, where `factor` is L of a = L @ L.mT, or with `upper` L.mT.

        This tensor is (.., n, k), and so is x; `factor` is (.., n, n). float32, float64 or complex.
        Raises ShapeError or DTypeError.
        """

        def solver(low: Node, right: Node) -> Node:
            inner = matrices.solve_triangular(low, right, upper, adjoint=upper)
            return matrices.solve_triangular(low, inner, upper, adjoint=not upper)

        return solved(factor, "cholesky_solve", self, True, solver)

    def cholesky_inverse(self, upper: bool = False) -> Self:
        """The inverse of a = L @ L.mT from L, this tensor, or with `upper` from L.mT.

        Of (.., n, n), in its shape and dtype: float32, float64 or complex. Raises ShapeError or
        DTypeError.
        """
        matrix_of(self, "cholesky_inverse", square=True)
        return self._unit(*self.shape[-2:]).cholesky_solve(self, upper)

    def tensorinv(self, ind: int = 2) -> Self:
        """The inverse of the matrix whose rows are the first `ind` axes: its axes are exchanged.

        tensordot(x.tensorinv(ind), b, ind) is x.tensorsolve(b). float32, float64 or complex. Raises
        ShapeError, DTypeError.
        """
        if not 0 < ind <= self.ndim:
            raise ShapeError(f"[tensorinv] ind is from 1 to {self.ndim}, not {ind}")
        front, back = self.shape[:ind], self.shape[ind:]
        if math.prod(front) != math.prod(back):
            raise ShapeError(
                f"[tensorinv] axes {front} and {back} have {math.prod(front)} and "
                f"{math.prod(back)} elements: a matrix that has an inverse is square"
            )
        matrix = self.reshape((math.prod(front), math.prod(back)))
        inverse = matrix._result(matrices.inv(matrix_of(matrix, "inv", square=True)))
        return inverse.reshape((*back, *front))

    def tensorsolve(self, b: Self, dims: Axes = None) -> Self:
        """The x for which the sum over all its axes of self * x is b; self is (*b.shape, *x.shape).

        `dims`: axes of self that are moved to its end first. float32, float64 or complex. Raises
        ShapeError, DTypeError, ArgumentError for what are no axes.
        """
        a = self
        if dims is not None:
            moved = [
                resolve_axis("tensorsolve", axis, self.ndim) for axis in cast("Sequence[int]", dims)
            ]
            a = self.permute([*(i for i in range(self.ndim) if i not in moved), *moved])
        shape = a.shape[b.ndim :]
        if math.prod(shape) != b.numel() or math.prod(a.shape[: b.ndim]) != b.numel():
            raise ShapeError(
                f"[tensorsolve] shape {a.shape} is no square matrix behind the axes of a right "
                f"side of shape {b.shape}"
            )
        matrix = a.reshape((b.numel(), b.numel()))
        return solved(matrix, "solve", b.flatten(), True, matrices.solve).reshape(shape)
