"""Dense decompositions, inverses and determinants, batched over the axes before the last two.

    q, r = x.qr()                    x = a.solve(b)              w, v = x.eigh()
    u, s, vh = x.svd()               x.inv(), x.det()            w, v = x.eig()

They take floats and complex numbers of 32 or 64 bits a part, where "transposed" stands for the
conjugate transpose. Each is a HOST node: nothing is computed before its values are wanted, then
NumPy's LAPACK computes it on the host, whatever the device is. Gradients are in
transforms/grad_linalg.py. Where a matrix has no such decomposition or inverse, LinAlgError is
raised when it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, Self, TypeAlias, TypeVar, cast

from ...dtype import finfo
from ...errors import ShapeError
from ...ir.node import Node
from ...transforms import matrices
from ..basis import Basis
from ..checks import check_sides
from ..operands import Operand, check_device, is_scalar
from ..shapes import expand
from .matrix_operands import matrix_of, right_side, sides_of, solved, solved_triangular

__all__ = ["Decompositions", "LeastSquares"]

T = TypeVar("T")  # of tensors


class LeastSquares(NamedTuple, Generic[T]):
    """What `lstsq` finds; residuals are empty where the system is not overdetermined."""

    solution: T
    residuals: T
    rank: T
    singular_values: T


Tolerance: TypeAlias = "float | Basis | None"


class Decompositions(Basis):
    """What LAPACK computes."""

    __slots__ = ()

    # -- factors --------------------------------------------------------------------------------

    def qr(self, mode: str = "reduced") -> tuple[Self, Self]:
        """Q of orthonormal columns and R, upper triangular, with Q @ R = self, of (.., m, n).

        With k = min(m, n), "reduced" gives Q of (.., m, k) and R of (.., k, n); "complete" gives
        (.., m, m) and (.., m, n), which has no gradient if m > n. In this dtype: float32, float64
        or complex. Raises ShapeError or DTypeError.
        """
        if mode not in ("reduced", "complete"):
            raise ShapeError(f"[qr] mode {mode!r} is not known; there are 'reduced' and 'complete'")
        q, r = matrices.qr(matrix_of(self, "qr"), mode == "complete")
        return self._result(q), self._result(r)

    def svd(self, full_matrices: bool = True) -> tuple[Self, Self, Self]:
        """U, the singular values from the largest on, and V transposed: U @ diag(S) @ Vh = self.

        Of (.., m, n), with k = min(m, n): U is (.., m, m), S is (.., k) and real, and Vh is (.., n,
        n), or (.., m, k) and (.., k, n) without `full_matrices`. Gradients of U and Vh exist where
        the singular values differ, for their first k vectors; of complex numbers, for what does not
        depend on the phases of these. float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        u, s, vh = matrices.svd(matrix_of(self, "svd"), bool(full_matrices))
        return self._result(u), self._result(s), self._result(vh)

    def svdvals(self) -> Self:
        """The singular values of (.., m, n) alone, real, from the largest on: (.., min(m, n)).

        float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        return self._result(matrices.svdvals(matrix_of(self, "svdvals")))

    def eigh(self, UPLO: str = "L") -> tuple[Self, Self]:
        """The eigenvalues of Hermitian (.., n, n), from the smallest on, (.., n), and their
        vectors.

        Only the lower triangle is read, or the upper one for `UPLO` "U". Eigenvalues are real;
        eigenvectors are the columns of (.., n, n), with gradients as those of `svd`. float32,
        float64 or complex. Raises ShapeError or DTypeError.
        """
        w, v = matrices.eigh(self._symmetric("eigh", UPLO))
        return self._result(w), self._result(v)

    def eigvalsh(self, UPLO: str = "L") -> Self:
        """The eigenvalues of Hermitian (.., n, n) alone, (.., n), real, from the smallest on; see
        `eigh`.

        Raises ShapeError, and DTypeError for anything but float32, float64 and complex.
        """
        return self._result(matrices.eigvalsh(self._symmetric("eigvalsh", UPLO)))

    def eig(self) -> tuple[Self, Self]:
        """The eigenvalues of any (.., n, n), in no particular order, (.., n), and their vectors;
        complex.

        Eigenvectors are the columns of (.., n, n), of length 1. Gradients exist where eigenvalues
        differ, of vectors for what does not depend on their phases. float32, float64 or complex.
        Raises ShapeError or DTypeError.
        """
        w, v = matrices.eig(matrix_of(self, "eig", square=True))
        return self._result(w), self._result(v)

    def eigvals(self) -> Self:
        """The eigenvalues of any (.., n, n) alone, (.., n), complex and in no particular order.

        Raises ShapeError, and DTypeError for anything but float32, float64 and complex.
        """
        return self._result(matrices.eigvals(matrix_of(self, "eigvals", square=True)))

    def cholesky(self, upper: bool = False) -> Self:
        """L, lower triangular, with L @ L.mH = self; `upper`: L.mH. Reads the lower triangle.

        Of (.., n, n), in its shape and dtype: float32, float64 or complex. Raises ShapeError or
        DTypeError, and LinAlgError, when computed, where a matrix is not positive definite.
        """
        lower = matrices.cholesky(matrix_of(self, "cholesky", square=True))
        return self._result(matrices.adjoint(lower) if upper else lower)

    # -- systems of equations -------------------------------------------------------------------

    def solve(self, b: Operand, left: bool = True) -> Self:
        """The x of self @ x = b, or of x @ self = b if not `left`; self is square, (.., n, n).

        `b` is (.., n, k), or vectors: (n,), or self's shape without its last axis; x has its shape.
        Batch axes broadcast. float32, float64 or complex. Raises ShapeError or DTypeError, and
        LinAlgError, when computed, of a singular matrix.
        """
        return solved(self, "solve", b, left, matrices.solve)

    def solve_triangular(
        self, b: Operand, upper: bool, left: bool = True, unitriangular: bool = False
    ) -> Self:
        """As `solve`, of the upper or lower triangle of self, (.., n, n); the other one is not
        read.

        x has the shape of `b`, (.., n, k). `unitriangular`: its diagonal counts as 1. float32,
        float64 or complex. Raises ShapeError or DTypeError.
        """
        return solved_triangular(self, b, upper, left, unitriangular)

    def triangular_solve(
        self, A: Self, upper: bool = True, transpose: bool = False, unitriangular: bool = False
    ) -> tuple[Self, Self]:
        """(x, A) with A @ x = self for triangular A, as in PyTorch; see `solve_triangular`.

        This tensor is (.., n, k), and so is x; A is (.., n, n). `transpose`: of A transposed.
        float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        a = A.mT if transpose else A
        return a.solve_triangular(self, upper is not transpose, True, unitriangular), A

    def lstsq(self, b: Operand, rcond: float | None = None) -> LeastSquares[Self]:
        """The x of least norm for which self @ x is nearest to b: (.., m, n), (.., m, k) or (m,).

        Gives x, (.., n, k) or (n,), the sums of squared residuals where m > n, real, the rank,
        int32 (..), and the singular values, real (.., min(m, n)). Those up to `rcond` times the
        largest count as 0; see `pinv`. float32, float64 or complex. Raises ShapeError or
        DTypeError.
        """
        b = right_side(self, "lstsq", b)
        check_sides("lstsq", self.shape, b.shape, "elements" if b.ndim == 1 else "rows")
        columns = b.unsqueeze(-1) if b.ndim == 1 else b
        a, right = sides_of("lstsq", self, columns)
        rtol = float(self._tolerance(rcond, 0.0))
        found = [self._result(part, b) for part in matrices.lstsq(a, right, rtol)]
        if b.ndim == 1:
            found[0] = found[0].squeeze(-1)
        return LeastSquares(*found)

    # -- inverses, determinants, rank -----------------------------------------------------------

    def inv(self) -> Self:
        """The inverse of (.., n, n), in its dtype: float32, float64 or complex.

        `solve` is quicker and more exact where it is multiplied. Raises ShapeError or DTypeError,
        and LinAlgError, when computed, of a singular matrix.
        """
        return self._result(matrices.inv(matrix_of(self, "inv", square=True)))

    def inverse(self) -> Self:
        """The inverse of (.., n, n), in its dtype: `inv`, under PyTorch's name.

        float32, float64 or complex. Raises ShapeError or DTypeError, and LinAlgError, when
        computed, of a singular matrix.
        """
        return self.inv()

    def pinv(self, rtol: float | None = None, atol: float = 0.0, hermitian: bool = False) -> Self:
        """The pseudo-inverse (Moore and Penrose), (.., n, m) of (.., m, n), in its dtype.

        Singular values up to `atol`, or `rtol` times the largest, count as 0; `rtol` None: 0 with
        an `atol`, else max(m, n) times the distance from 1 to the next number. `hermitian` promises
        that matrices are Hermitian, which changes nothing. float32, float64 or complex. Raises
        ShapeError or DTypeError.
        """
        node = matrix_of(self, "pinv", square=hermitian)
        return self._result(matrices.pinv(node, float(self._tolerance(rtol, atol)), float(atol)))

    def det(self) -> Self:
        """The determinant of (.., n, n), (..), float32, float64 or complex. Its gradient exists for
        singular matrices, too.

        Raises ShapeError, DTypeError.
        """
        return self._result(matrices.det(matrix_of(self, "det", square=True)))

    def slogdet(self) -> tuple[Self, Self]:
        """The sign of the determinant of (.., n, n), and the logarithm of its magnitude: both (..).

        The sign of a complex one is a complex number of length 1, the logarithm is real. float32,
        float64 or complex. Raises ShapeError or DTypeError.
        """
        sign, logarithm = matrices.slogdet(matrix_of(self, "slogdet", square=True))
        return self._result(sign), self._result(logarithm)

    def logdet(self) -> Self:
        """The logarithm of the determinant of (.., n, n), (..); NaN where a real one is negative.

        float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        sign, logarithm = self.slogdet()
        if sign.dtype.is_complex:
            return logarithm.complex(sign.angle())
        return (sign < 0).where(math.nan, logarithm)

    def matrix_rank(
        self, rtol: Tolerance = None, atol: Tolerance = None, hermitian: bool = False
    ) -> Self:
        """How many singular values of (.., m, n) exceed `atol`, and `rtol` times the largest: int32
        (..).

        See `pinv`. Tolerances may be tensors, of one for each matrix. float32, float64 or complex.
        Raises ShapeError, DTypeError.
        """
        node = matrix_of(self, "matrix_rank", square=hermitian)
        absolute = 0.0 if atol is None else self._operand("matrix_rank", atol)
        relative = self._operand(
            "matrix_rank", self._tolerance(rtol, cast("float | Self", absolute))
        )
        tolerances: Sequence[float | Node]
        if is_scalar(relative) and is_scalar(absolute):
            tolerances = [float(cast("float", one)) for one in (relative, absolute)]
        else:
            each = [self._tensor_operand("matrix_rank", one) for one in (relative, absolute)]
            check_device("matrix_rank", self, *each)
            tolerances = [expand(one.cast(self.dtype.real).node, self.shape[:-2]) for one in each]
        return self._result(matrices.matrix_rank(node, tolerances, hermitian))

    # -- operands -------------------------------------------------------------------------------

    def _tolerance(self, rtol: Tolerance, atol: float | Basis) -> float | Basis:
        """`rtol`; where it is not given, 0 if `atol` is more than that, as in PyTorch."""
        if rtol is not None:
            return rtol
        usual = max(self.shape[-2:]) * finfo(self.dtype).eps
        if isinstance(atol, (int, float)):
            return 0.0 if atol > 0 else usual
        return (atol > 0).where(0.0, usual)

    def _symmetric(self, name: str, triangle: str) -> Node:
        """The operand whose lower triangle is this tensor's `triangle`."""
        if triangle not in ("L", "U"):
            raise ShapeError(f'[{name}] UPLO is the triangle to read, "L" or "U", not {triangle!r}')
        node = matrix_of(self, name, square=True)
        return node if triangle == "L" else matrices.adjoint(node)
