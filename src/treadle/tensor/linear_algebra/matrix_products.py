"""Products of matrices by other names, products of many, and sums of a tensor and a product.

x.bmm(y), x.mm(y), x.mv(y)          that take a fixed number of axes
x.addmm(a, b), x.baddbmm(a, b)      x + a @ b, one kernel
Tensor.multi_dot(a, b, c)           in the order that takes the least work
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

from ...dtype import least_upper_dtype
from ...errors import DTypeError, ShapeError
from ..basis import Basis
from ..basis.joining import each_of
from ..operands import Operand, is_scalar
from ..shapes import broadcast_shapes
from ..types import Scalar

__all__ = ["MatrixProducts"]

T = TypeVar("T", bound=Basis)


class MatrixProducts(Basis):
    """What `matmul` of the basis makes with little beside it."""

    __slots__ = ()

    def bmm(self, mat2: Self) -> Self:
        """The products of two batches of matrices, (b, m, k) by (b, k, n) to (b, m, n); nothing
        broadcasts.

        Dtypes promote. Raises ShapeError for other numbers of axes, and where sizes differ.
        """
        _check_axes("bmm", self, mat2, 3, 3)
        if self.shape[0] != mat2.shape[0]:
            raise ShapeError(
                f"[bmm] {self.shape[0]} matrices and {mat2.shape[0]} of them: expected as many; "
                "matmul broadcasts one"
            )
        return self.matmul(mat2)

    def mm(self, mat2: Self) -> Self:
        """The product of two matrices, (m, k) by (k, n) to (m, n); dtypes promote.

        Raises ShapeError for other numbers of axes, and where sizes differ.
        """
        _check_axes("mm", self, mat2, 2, 2)
        return self.matmul(mat2)

    def mv(self, vec: Self) -> Self:
        """A matrix times a vector, (m, k) by (k,) to (m,); dtypes promote.

        Raises ShapeError for other numbers of axes, and where sizes differ.
        """
        _check_axes("mv", self, vec, 2, 1)
        return self.matmul(vec)

    def inner(self, other: Operand) -> Self:
        """Sums of products over the last axes of both: (.., k) and (*, k) give (.., *).

        With a scalar it is the product. Dtypes promote. Raises ShapeError.
        """
        other = self._as_tensor("inner", other)
        if not (self.ndim and other.ndim):
            return self.mul(other)
        return self.tensordot(other, ((-1,), (-1,)))

    def multi_dot(self: T | Sequence[T], *args: T | Sequence[T]) -> T:
        """The product of two matrices or more, in the order that takes the least work; they are
        given one by one or as a list.

        (n, m), (m, k), ... to (n, ..). The first may be a vector as a row, the last one as a
        column. Dtypes promote. Raises ShapeError.
        """
        chain = each_of("multi_dot", self, args)
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

    def addmm(self, mat1: Self, mat2: Self, beta: Scalar = 1, alpha: Scalar = 1) -> Self:
        """beta * self + alpha * (mat1 @ mat2): (n, m) and (m, p) to (n, p).

        This tensor broadcasts to that, dtypes promote. Raises ShapeError, and DTypeError for a
        fraction times integers.
        """
        return self._plus_product("addmm", mat1, mat2, (2, 2), beta, alpha)

    def addmv(self, mat: Self, vec: Self, beta: Scalar = 1, alpha: Scalar = 1) -> Self:
        """beta * self + alpha * (mat @ vec): (n, m) and (m,) to (n,).

        This tensor broadcasts to that, dtypes promote. Raises ShapeError, and DTypeError for a
        fraction times integers.
        """
        return self._plus_product("addmv", mat, vec, (2, 1), beta, alpha)

    def baddbmm(self, batch1: Self, batch2: Self, beta: Scalar = 1, alpha: Scalar = 1) -> Self:
        """beta * self + alpha * (batch1 @ batch2), matrix by matrix: (b, n, m) and (b, m, p) to (b,
        n, p).

        This tensor broadcasts to that, dtypes promote. Raises ShapeError, and DTypeError for a
        fraction times integers.
        """
        return self._plus_product("baddbmm", batch1, batch2, (3, 3), beta, alpha)

    def addbmm(self, batch1: Self, batch2: Self, beta: Scalar = 1, alpha: Scalar = 1) -> Self:
        """beta * self + alpha * the sum of all batch1[i] @ batch2[i]: (b, n, m) and (b, m, p) to
        (n, p).

        This tensor broadcasts, dtypes promote; small integers add up as in `sum`, at least int32.
        Raises ShapeError, and DTypeError for a fraction times integers.
        """
        return self._plus_product("addbmm", batch1, batch2, (3, 3), beta, alpha)

    def addr(self, vec1: Self, vec2: Self, beta: Scalar = 1, alpha: Scalar = 1) -> Self:
        """beta * self + alpha * the outer product of two vectors: (n,) and (m,) to (n, m).

        This tensor broadcasts to that, dtypes promote. Raises ShapeError, and DTypeError for a
        fraction times integers.
        """
        return self._plus_product("addr", vec1, vec2, (1, 1), beta, alpha)

    def _plus_product(
        self, name: str, a: Self, b: Self, ranks: tuple[int, int], beta: Scalar, alpha: Scalar
    ) -> Self:
        """`self` counts for nothing where `beta` is 0, also if it is NaN."""
        if (a.ndim, b.ndim) != ranks or (ranks[0] == 3 and a.shape[0] != b.shape[0]):
            raise ShapeError(
                f"[{name}] takes tensors of {ranks[0]} and {ranks[1]} axes and as many matrices, "
                f"not shapes {a.shape} and {b.shape}"
            )
        for factor in (beta, alpha):
            if not is_scalar(factor):
                raise DTypeError(f"[{name}] beta and alpha are numbers, not {factor!r}")
            if isinstance(factor, float) and not (self.dtype.is_inexact and a.dtype.is_inexact):
                raise DTypeError(f"[{name}] integers are not multiplied by {factor}; cast them")
        product = a.outer(b) if name == "addr" else a.dot(b)
        product = product.sum(0) if name == "addbmm" else product
        if broadcast_shapes(name, self.shape, product.shape) != product.shape:
            raise ShapeError(f"[{name}] {self.shape} does not broadcast to {product.shape}")
        product = product if alpha == 1 else product.mul(alpha)
        if beta == 0:
            return product.cast(least_upper_dtype(self.dtype, product.dtype))
        return product.add(self if beta == 1 else self.mul(beta))


def _check_axes(name: str, first: Basis, other: Basis, rank: int, others: int) -> None:
    if first.ndim != rank or other.ndim != others:
        raise ShapeError(
            f"[{name}] takes {rank} and {others} axes, not shapes {first.shape} and {other.shape}; "
            "matmul takes any"
        )


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
