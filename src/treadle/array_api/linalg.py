"""Linear algebra: the `linalg` extension, and the four of its names that stand outside of it, too.

Decompositions take float32 and float64. `LinAlgError` comes when a result is computed.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..explained import explain_all
from ..tensor import Tensor
from ..tensor.types import DTypeLike
from .signatures import Unary, check_tensor, unary

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


class Eigh(NamedTuple):
    """What `eigh` finds."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    """What `qr` finds."""

    Q: Tensor
    R: Tensor


class Slogdet(NamedTuple):
    """What `slogdet` finds."""

    sign: Tensor
    logabsdet: Tensor


class SVD(NamedTuple):
    """What `svd` finds."""

    U: Tensor
    S: Tensor
    Vh: Tensor


# -- products -------------------------------------------------------------------------------------


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product on the last two axes, (.., m, k) by (.., k, n) to (.., m, n).

    A vector is a row on the left, a column on the right, and vanishes. The other axes broadcast,
    dtypes promote. Raises ShapeError, and DTypeError for what is no tensor.
    """
    return check_tensor("matmul", x1).matmul(check_tensor("matmul", x2))


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """x1[i] * x2[j] of two vectors, (m, n); dtypes promote.

    Raises ShapeError, and DTypeError for what is no tensor.
    """
    return check_tensor("outer", x1).outer(check_tensor("outer", x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged, in this dtype. Raises IndexOutOfRange for less."""
    return check_tensor("matrix_transpose", x).mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sums of products over pairs of axes, or over the last of `x1` and the first of `x2`.

    The other axes stay, those of `x1` first; dtypes promote. Raises ShapeError, IndexOutOfRange.
    """
    return check_tensor("tensordot", x1).tensordot(x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products, of `x1` conjugated, along one axis, which vanishes.

    The other axes broadcast, dtypes promote. Raises ShapeError, IndexOutOfRange.
    """
    return check_tensor("vecdot", x1).vecdot(x2, axis)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product along one axis, of size 3; the other axes broadcast, dtypes promote.

    Raises ShapeError, IndexOutOfRange, DTypeError for bools.
    """
    return check_tensor("cross", x1).cross(x2, axis)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The product of `n` times `x`, (.., m, m), in its dtype; of its inverse if `n` is negative.

    Raises ShapeError, and DTypeError as `inv` does.
    """
    return check_tensor("matrix_power", x).matrix_power(n)


# -- factors --------------------------------------------------------------------------------------


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """L, lower triangular, with L @ L.mT = x; `upper`: L.mT.

    Of (.., n, n), in its shape and dtype: float32, float64 or complex. Raises ShapeError or
    DTypeError, and LinAlgError, when computed, where a matrix is not positive definite.
    """
    return check_tensor("cholesky", x).cholesky(upper)


def eigh(x: Tensor, /) -> Eigh:
    """Eigenvalues of symmetric matrices (.., n, n), ascending, and eigenvectors, as columns.

    (.., n), real, and (.., n, n). float32, float64 or complex. Raises ShapeError or DTypeError.
    """
    return Eigh(*check_tensor("eigh", x).eigh())


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """Q of orthonormal columns and R, upper triangular, with Q @ R = x.

    Of (.., m, n), with k = min(m, n): (.., m, k) and (.., k, n), or if "complete" (.., m, m) and
    (.., m, n). float32, float64 or complex. Raises ShapeError or DTypeError.
    """
    return QR(*check_tensor("qr", x).qr(mode))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """U, the singular values, descending, and V transposed: U @ diag(S) @ Vh = x.

    Of (.., m, n), with k = min(m, n): (.., m, m), (.., k), real, and (.., n, n), or without
    `full_matrices` (.., m, k) and (.., k, n). float32, float64 or complex. Raises ShapeError or
    DTypeError.
    """
    return SVD(*check_tensor("svd", x).svd(full_matrices))


eigvalsh: Unary = unary(Tensor.eigvalsh)
svdvals: Unary = unary(Tensor.svdvals)


# -- systems of equations, inverses, determinants --------------------------------------------------

det: Unary = unary(Tensor.det)
inv: Unary = unary(Tensor.inv)


def slogdet(x: Tensor, /) -> Slogdet:
    """The sign of the determinant of (.., n, n), and the logarithm of its magnitude: both (..).

    The second is real. float32, float64 or complex. Raises ShapeError or DTypeError.
    """
    return Slogdet(*check_tensor("slogdet", x).slogdet())


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The x with x1 @ x = x2, which is a vector (n,) if it has one axis, and matrices otherwise.

    `x1` is (.., n, n), x has the shape of `x2`, but for axes in front, which broadcast. float32,
    float64 or complex. Raises ShapeError or DTypeError, and LinAlgError, when computed, of a
    singular matrix.
    """
    x1, x2 = check_tensor("solve", x1), check_tensor("solve", x2)
    if x2.ndim == x1.ndim - 1 > 1:  # where `Tensor.solve` sees a vector for each matrix
        x2 = x2.unsqueeze(0)
    return x1.solve(x2)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverse (.., n, m) of (.., m, n), in its dtype.

    Singular values up to `rtol`, a number, times the largest count as 0. float32, float64 or
    complex. Raises ShapeError or DTypeError.
    """
    return check_tensor("pinv", x).pinv(rtol)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values of (.., m, n) exceed `rtol`, a number, times the largest: int32
    (..).

    float32, float64 or complex. Raises ShapeError or DTypeError.
    """
    return check_tensor("matrix_rank", x).matrix_rank(rtol)


# -- diagonals and norms --------------------------------------------------------------------------


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """A diagonal of the last two axes, as a new last axis; the dtype stays. Raises ShapeError."""
    return check_tensor("diagonal", x).diagonal(offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal of the last two axes, which vanish.

    Integers give at least int32 or uint32; `dtype` converts first. Raises ShapeError.
    """
    return diagonal(x, offset=offset).sum(-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False,
    ord: float = 2,
) -> Tensor:  # fmt: skip
    """(sum of |x| ** ord) ** (1 / ord) over axes, over all if `axis` is None.

    The axes vanish, or stay with size 1 for `keepdims`. Floats, or complex numbers, which give real
    ones. Raises DTypeError for anything else, IndexOutOfRange, ShapeError.
    """
    return check_tensor("vector_norm", x).vector_norm(ord, axis, keepdims)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of the matrices in the last two axes: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    (.., m, n) gives (..), or (.., 1, 1) for `keepdims`. Floats, or complex numbers, which give real
    ones. Raises DTypeError for anything else, IndexOutOfRange for a vector, ShapeError for another
    `ord`.
    """
    return check_tensor("matrix_norm", x).matrix_norm(ord, keepdim=keepdims)


explain_all(globals())
