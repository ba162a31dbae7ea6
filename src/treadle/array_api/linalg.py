"""Linear algebra: the `linalg` extension, and the four of its names that stand outside of it, too.

Decompositions take float32 and float64. `LinAlgError` comes when a result is computed.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..explained import explain_all
from ..tensor import Tensor
from .signatures import Binary, Unary, binary, check_tensor, unary

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

matmul: Binary = binary(Tensor.matmul)
outer: Binary = binary(Tensor.outer)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return check_tensor("matrix_transpose", x).mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sums of products over pairs of axes, or over the last of `x1` and the first of `x2`."""
    return check_tensor("tensordot", x1).tensordot(x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products, of `x1` conjugated, along one axis; the other axes broadcast."""
    return check_tensor("vecdot", x1).vecdot(x2, axis)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product along one axis, of size 3; the other axes broadcast."""
    return check_tensor("cross", x1).cross(x2, axis)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The product of `n` times `x`; of its inverse if `n` is negative."""
    return check_tensor("matrix_power", x).matrix_power(n)


# -- factors --------------------------------------------------------------------------------------


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """L, lower triangular, with L @ L.mT = x; `upper`: L.mT."""
    return check_tensor("cholesky", x).cholesky(upper)


def eigh(x: Tensor, /) -> Eigh:
    """Eigenvalues of symmetric matrices, ascending, and eigenvectors, as columns."""
    return Eigh(*check_tensor("eigh", x).eigh())


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """Q of orthonormal columns and R, upper triangular, with Q @ R = x."""
    return QR(*check_tensor("qr", x).qr(mode))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """U, the singular values, descending, and V transposed: U @ diag(S) @ Vh = x."""
    return SVD(*check_tensor("svd", x).svd(full_matrices))


eigvalsh: Unary = unary(Tensor.eigvalsh)
svdvals: Unary = unary(Tensor.svdvals)


# -- systems of equations, inverses, determinants --------------------------------------------------

det: Unary = unary(Tensor.det)
inv: Unary = unary(Tensor.inv)


def slogdet(x: Tensor, /) -> Slogdet:
    """The sign of the determinant, and the logarithm of its magnitude."""
    return Slogdet(*check_tensor("slogdet", x).slogdet())


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The x with x1 @ x = x2, which is a vector if it has one axis, and matrices otherwise."""
    x1, x2 = check_tensor("solve", x1), check_tensor("solve", x2)
    if x2.ndim == x1.ndim - 1 > 1:  # where `Tensor.solve` sees a vector for each matrix
        x2 = x2.unsqueeze(0)
    return x1.solve(x2)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverse; singular values up to `rtol`, a number, times the largest count as 0."""
    return check_tensor("pinv", x).pinv(rtol)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values exceed `rtol`, a number, times the largest."""
    return check_tensor("matrix_rank", x).matrix_rank(rtol)


# -- diagonals and norms --------------------------------------------------------------------------


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """A diagonal of the last two axes, as a new last axis."""
    return check_tensor("diagonal", x).diagonal(offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal of the last two axes."""
    return diagonal(x, offset=offset).sum(-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False,
    ord: float = 2,
) -> Tensor:  # fmt: skip
    """(sum of |x| ** ord) ** (1 / ord) over axes, over all if `axis` is None."""
    return check_tensor("vector_norm", x).vector_norm(ord, axis, keepdims)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of the matrices in the last two axes: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    return check_tensor("matrix_norm", x).matrix_norm(ord, keepdim=keepdims)


explain_all(globals())
