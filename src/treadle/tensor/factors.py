"""Products of many matrices, LU factors, the exponential, and equations of many axes.

    p, l, u = x.lu()                    factors, pivots = x.lu_factor()
    Tensor.multi_dot(a, b, c)           x.matrix_exp()
    a.tensorsolve(b), a.tensorinv()     b.cholesky_solve(l)

What is factored is a HOST node, like all decompositions: see `Decompositions`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self, TypeVar, cast

from ..errors import ShapeError
from ..ir.node import Node
from ..transforms import matrices
from .decompositions import in_memory
from .descriptive import Descriptive
from .operands import Operand
from .shapes import resolve_axis
from .types import Axes

__all__ = ["Factors"]

T = TypeVar("T", bound=Descriptive)


class Factors(Descriptive):
    """Linear algebra on top of decompositions."""

    __slots__ = ()

    # -- products -----------------------------------------------------------------------------

    def inner(self, other: Operand) -> Self:
        """Sums of products over the last axes of both: (.., k) and (*, k) give (.., *).

        With a scalar it is the product. Dtypes promote. Raises ShapeError.
        """
        other = self._as_tensor("inner", other)
        if not (self.ndim and other.ndim):
            return self.mul(other)
        return self.tensordot(other, ((-1,), (-1,)))

    def multi_dot(self, *args: Self) -> Self:
        """The product of two matrices or more, in the order that takes the least work.

        (n, m), (m, k), ... to (n, ..). The first may be a vector as a row, the last one as a
        column. Dtypes promote. Raises ShapeError.
        """
        chain = [self, *args]
        if len(chain) < 2:
            raise ShapeError("[multi_dot] takes two tensors or more")
        first, last = chain[0], chain[-1]
        if first.ndim == 1:
            chain[0] = first.unsqueeze(0)
        if last.ndim == 1:
            chain[-1] = last.unsqueeze(1)
        wrong = next((x.shape for x in chain if x.ndim != 2), None)
        if wrong is not None:
            raise ShapeError(f"[multi_dot] takes matrices, vectors only at the ends, not {wrong}")
        result = _product(chain, _best_order([*(x.shape[0] for x in chain), chain[-1].shape[1]]))
        result = result.squeeze(-1) if last.ndim == 1 else result
        return result.squeeze(0) if first.ndim == 1 else result

    def vander(self, n: int | None = None, increasing: bool = False) -> Self:
        """Powers of the elements of (.., m) along a new last axis: (.., m, n); `n` None is m.

        From the highest to 0, or from 0 on. Integers give at least int32 or uint32, bools int32;
        other dtypes stay. Raises ShapeError.
        """
        x = self.atleast_1d()
        count = x.shape[-1] if n is None else n
        if count < 0:
            raise ShapeError(f"[vander] the number of columns is at least 0, not {n}")
        column = x.unsqueeze(-1)
        ones = column.ones_like().expand((*x.shape, min(count, 1)))
        powers = ones.cat(column.expand((*x.shape, max(count - 1, 0))).cumprod(-1), dim=-1)
        return powers if increasing else powers.flip(-1)

    def matrix_exp(self) -> Self:
        """The exponential of (.., n, n), the sum of all self^k / k!, in its shape and dtype.

        float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        return self._result(matrices.matrix_exp(self._matrix("matrix_exp", square=True)))

    # -- factors ------------------------------------------------------------------------------

    def lu_factor(self) -> tuple[Self, Self]:
        """L below U in one matrix (.., m, n), and int32 pivots (.., min(m, n)).

        L has ones on its diagonal, which are not stored. Row i was exchanged with row pivots[i],
        counted from 1 as in LAPACK. A singular matrix is factored, too. float32, float64 or
        complex. Raises ShapeError or DTypeError.
        """
        factors, pivots, _ = matrices.lu(self._matrix("lu_factor"))
        return self._result(factors), self._result(pivots)

    def lu(self) -> tuple[Self, Self, Self]:
        """P, L and U with P @ L @ U = self of (.., m, n); P exchanges rows.

        With k = min(m, n), L is (.., m, k) with ones on its diagonal, U is (.., k, n). All have
        this dtype: float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        factors, _, order = matrices.lu(self._matrix("lu"))
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
        return type(self).eye(rows, columns, dtype=self.dtype, device=self.device)

    def lu_solve(self, pivots: Self, b: Self, left: bool = True) -> Self:
        """The x of a @ x = b, where this tensor and `pivots` are `a.lu_factor()`; see `solve`.

        In the shape of `b`, (.., n, k). `left` false: of x @ a = b. float32, float64 or complex.
        Raises ShapeError or DTypeError.
        """
        order = self._row_order("lu_solve", pivots)
        rows = self._exchanges(order)
        if left:
            inner = self.solve_triangular(rows.mT @ b, upper=False, unitriangular=True)
            return self.solve_triangular(inner, upper=True)
        inner = self.solve_triangular(b, upper=True, left=False)
        return self.solve_triangular(inner, False, left=False, unitriangular=True) @ rows.mT

    def _row_order(self, name: str, pivots: Self) -> Self:
        self._matrix(name)
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

        def solved(low: Node, right: Node) -> Node:
            inner = matrices.solve_triangular(low, right, upper, adjoint=upper)
            return matrices.solve_triangular(low, inner, upper, adjoint=not upper)

        return factor._solved("cholesky_solve", self, True, solved)

    def cholesky_inverse(self, upper: bool = False) -> Self:
        """The inverse of a = L @ L.mT from L, this tensor, or with `upper` from L.mT.

        Of (.., n, n), in its shape and dtype: float32, float64 or complex. Raises ShapeError or
        DTypeError.
        """
        self._matrix("cholesky_inverse", square=True)
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
        return self.reshape((math.prod(front), math.prod(back))).inv().reshape((*back, *front))

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
        return a.reshape((b.numel(), b.numel())).solve(b.flatten()).reshape(shape)


def _best_order(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to cut each stretch of a chain of products, by the multiplications that takes."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            work = {
                k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            }
            cuts[i, j] = min(work, key=lambda k: work[k])
            cost[i, j] = work[cuts[i, j]]
    return cuts


def _product(chain: list[T], cuts: dict[tuple[int, int], int]) -> T:
    def between(i: int, j: int) -> T:
        if i == j:
            return chain[i]
        return between(i, cuts[i, j]).dot(between(cuts[i, j] + 1, j))

    return between(0, len(chain) - 1)
