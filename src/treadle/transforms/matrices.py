"""Matrices as nodes: products, masks, and the HOST nodes of dense decompositions.

    qr(a, complete=False)         -> [q, r]
    solve_triangular(r, b, True)  -> the x of r @ x = b, of the upper triangle of r

Axes before the last two are batches, and all operands have the same: nothing broadcasts here. What
triangles hide is masked on the device, so that the gradients of masks do the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..dtype import DType, complex_of, dtypes, to_dtype
from ..ir.args import HostArg
from ..ir.builders import expand, iota_along, permute, reshape
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import Shape
from .grad_complex import conj
from .shapes import reduce

__all__ = [
    "adjoint", "beside", "cholesky", "cofactors", "det", "eig", "eigh", "eigvals", "eigvalsh",
    "host", "inv", "lstsq", "lu", "mask_diagonal", "matmul", "matrix_exp", "matrix_rank", "narrow",
    "of_columns", "of_rows", "permutation", "pinv", "qr", "scaled", "siblings", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "total", "transpose", "tril", "triu",
]  # fmt: skip

# -- elementwise and products --------------------------------------------------------------------


def transpose(a: Node) -> Node:
    """The last two axes exchanged."""
    rank = len(a.shape)
    return permute(a, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(a: Node) -> Node:
    """The conjugate transpose."""
    return conj(transpose(a))


def matmul(a: Node, b: Node) -> Node:
    """(.., m, k) @ (.., k, n)."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    wide = (*batch, m, n, k)
    left = expand(reshape(a, (*batch, m, 1, k)), wide)
    right = expand(reshape(transpose(b), (*batch, 1, n, k)), wide)
    return reshape(reduce(left * right, Op.ADD, (len(wide) - 1,)), wide[:-1])


def of_columns(a: Node, matrix: Shape) -> Node:
    """A value for each column, (.., n), as a matrix of equal rows."""
    return expand(reshape(a, (*a.shape[:-1], 1, a.shape[-1])), matrix)


def of_rows(a: Node, matrix: Shape) -> Node:
    """A value for each row, (.., n), as a matrix of equal columns."""
    return expand(reshape(a, (*a.shape, 1)), matrix)


def scaled(a: Node, scalars: Node) -> Node:
    """Each matrix of `a` times its scalar."""
    return a * expand(reshape(scalars, (*scalars.shape, 1, 1)), a.shape)


def total(a: Node) -> Node:
    """The sum of the elements of each matrix."""
    rank = len(a.shape)
    return reshape(reduce(a, Op.ADD, (rank - 2, rank - 1)), a.shape[:-2])


def _places(a: Node) -> tuple[Node, Node]:
    """The row and the column of each element."""
    rank = len(a.shape)
    return iota_along(a.shape, rank - 2), iota_along(a.shape, rank - 1)


def triu(a: Node) -> Node:
    """The upper triangle with the diagonal, 0 elsewhere."""
    row, column = _places(a)
    return (column < row).where(0.0, a)


def tril(a: Node) -> Node:
    """The lower triangle with the diagonal, 0 elsewhere."""
    row, column = _places(a)
    return (row < column).where(0.0, a)


def mask_diagonal(a: Node, value: float | Node) -> Node:
    """`a` with `value`, of one element or of the same shape, on the diagonal."""
    row, column = _places(a)
    return row.eq(column).where(value, a)


def narrow(a: Node, axis: int, begin: int, end: int) -> Node:
    """A part of the rows (`axis` -2) or columns (-1)."""
    at = len(a.shape) + axis
    bounds = tuple((begin, end) if i == at else (0, n) for i, n in enumerate(a.shape))
    return a if bounds[at] == (0, a.shape[at]) else Node(Op.SHRINK, a.dtype, (a,), bounds)


def beside(a: Node, b: Node) -> Node:
    """The columns of `a`, then those of `b`."""
    begin, end = a.shape[-1], b.shape[-1]
    batch = ((0, 0),) * (len(a.shape) - 1)
    left = Node(Op.PAD, a.dtype, (a,), (*batch, (0, end)))
    return left + Node(Op.PAD, b.dtype, (b,), (*batch, (begin, 0)))


# -- decompositions --------------------------------------------------------------------------------


def host(
    name: str, src: tuple[Node, ...], results: Sequence[tuple[Sequence[int], DType]],
    options: tuple[object, ...] = (),
) -> list[Node]:  # fmt: skip
    """The results of a host function, each of a shape and a dtype."""
    shapes = tuple([tuple(shape) for shape, _ in results])
    names = tuple([dtype.name for _, dtype in results])
    return _results_of(src, _host_args(name, shapes, names, options))


def siblings(node: Node) -> list[Node]:
    """All results of the call that a HOST node is one result of."""
    arg = node.arg
    return _results_of(node.src, _host_args(arg.name, arg.shapes, arg.dtypes, arg.options))


def _results_of(src: tuple[Node, ...], args: Sequence[tuple[DType, HostArg]]) -> list[Node]:
    return [Node(Op.HOST, dtype, src, arg) for dtype, arg in args]


@functools.lru_cache(1024)
def _host_args(
    name: str,
    shapes: tuple[tuple[int, ...], ...],
    names: tuple[str, ...],
    options: tuple[object, ...],
) -> Sequence[tuple[DType, HostArg]]:
    """The dtype and the arg of each result."""
    results = enumerate(map(to_dtype, names))
    return [(dtype, HostArg(name, shapes, names, at, options)) for at, dtype in results]


def cholesky(a: Node) -> Node:
    """The lower triangular L of a = L @ L.H, from the lower triangle of `a`."""
    return host("cholesky", (a,), [(a.shape, a.dtype)])[0]


def qr(a: Node, complete: bool) -> list[Node]:
    """Q of orthonormal columns and R, upper triangular, of (.., m, n)."""
    *batch, m, n = a.shape
    k = m if complete else min(m, n)
    results = [((*batch, m, k), a.dtype), ((*batch, k, n), a.dtype)]
    return host("qr", (a,), results, (complete,))


def svd(a: Node, full_matrices: bool) -> list[Node]:
    """U, the singular values from the largest on, and the adjoint of V."""
    *batch, m, n = a.shape
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    left, values, right = (*batch, m, rows), (*batch, k), (*batch, columns, n)
    results = [(left, a.dtype), (values, a.dtype.real), (right, a.dtype)]
    return host("svd", (a,), results, (full_matrices,))


def svdvals(a: Node) -> Node:
    """The singular values alone."""
    *batch, m, n = a.shape
    return host("svdvals", (a,), [((*batch, min(m, n)), a.dtype.real)])[0]


def eigh(a: Node) -> list[Node]:
    """The eigenvalues from the smallest on, and eigenvectors as columns; of the lower triangle."""
    return host("eigh", (a,), [(a.shape[:-1], a.dtype.real), (a.shape, a.dtype)])


def eigvalsh(a: Node) -> Node:
    """The eigenvalues alone."""
    return host("eigvalsh", (a,), [(a.shape[:-1], a.dtype.real)])[0]


def eig(a: Node) -> list[Node]:
    """The eigenvalues of any square matrix, and eigenvectors as columns: complex numbers."""
    kind = complex_of(a.dtype)
    return host("eig", (a,), [(a.shape[:-1], kind), (a.shape, kind)])


def eigvals(a: Node) -> Node:
    """The eigenvalues alone."""
    return host("eigvals", (a,), [(a.shape[:-1], complex_of(a.dtype))])[0]


def det(a: Node) -> Node:
    """The determinant."""
    return host("det", (a,), [(a.shape[:-2], a.dtype)])[0]


def slogdet(a: Node) -> list[Node]:
    """The sign of the determinant, of magnitude 1, and the logarithm of its magnitude."""
    return host("slogdet", (a,), [(a.shape[:-2], a.dtype), (a.shape[:-2], a.dtype.real)])


def cofactors(a: Node) -> Node:
    """The conjugate of the determinant's derivative for each element."""
    return host("cofactors", (a,), [(a.shape, a.dtype)])[0]


def pinv(a: Node, rtol: float, atol: float) -> Node:
    """The pseudo-inverse; singular values up to `atol`, or `rtol` times the largest, count as 0."""
    return host("pinv", (a,), [(transpose(a).shape, a.dtype)], (rtol, atol))[0]


def inv(a: Node, strict: bool = True) -> Node:
    """The inverse; of a singular matrix infinities, if not `strict`."""
    return host("inv", (a,), [(a.shape, a.dtype)], (strict,))[0]


def solve(a: Node, b: Node) -> Node:
    """The x of a @ x = b."""
    return host("solve", (a, b), [(b.shape, b.dtype)])[0]


def solve_triangular(
    a: Node, b: Node, upper: bool, adjoint: bool = False, unit: bool = False
) -> Node:
    """The x of t @ x = b, or t.H @ x = b with `adjoint`, of a triangle t: only that is read.

    `unit`: its diagonal counts as 1.
    """
    return host("solve_triangular", (a, b), [(b.shape, b.dtype)], (upper, adjoint, unit))[0]


def lstsq(a: Node, b: Node, rtol: float) -> list[Node]:
    """The x nearest to a @ x = b, what is left of each column, squared, the rank, and the singular
    values; nothing is left where `a` has no more rows than columns.
    """
    *batch, m, n = a.shape
    left = (*batch, b.shape[-1]) if m > n else (0,)
    shapes = (*batch, n, b.shape[-1]), left, tuple(batch), (*batch, min(m, n))
    kinds = a.dtype, a.dtype.real, dtypes.default_int, a.dtype.real
    return host("lstsq", (a, b), list(zip(shapes, kinds, strict=True)), (rtol,))


def matrix_rank(a: Node, tolerances: Sequence[Node | float], hermitian: bool) -> Node:
    """How many singular values exceed each of two tolerances, relative and absolute.

    Both are numbers, or both nodes with one for each matrix.
    """
    results = [(a.shape[:-2], dtypes.default_int)]
    nodes = [each for each in tolerances if isinstance(each, Node)]
    if nodes:
        return host("matrix_rank", (a, *nodes), results, (hermitian,))[0]
    return host("matrix_rank", (a,), results, (*tolerances, hermitian))[0]


def lu(a: Node) -> list[Node]:
    """L below U in one matrix, the rows exchanged in turn, from 1 on, and the order of rows."""
    *batch, m, n = a.shape
    rows = [((*batch, min(m, n)), dtypes.int32), ((*batch, m), dtypes.int32)]
    return host("lu", (a,), [(a.shape, a.dtype), *rows])


def permutation(pivots: Node, size: int) -> Node:
    """The order of rows that pivots of `lu` make."""
    return host("permutation", (pivots,), [((*pivots.shape[:-1], size), dtypes.int32)], (size,))[0]


def matrix_exp(a: Node) -> Node:
    """The exponential of a matrix."""
    return host("matrix_exp", (a,), [(a.shape, a.dtype)])[0]
