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
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from ..dtype import dtypes, finfo, least_upper_dtype
from ..engine.realized import is_backed
from ..errors import DTypeError, ShapeError
from ..ir.args import ShardArg
from ..ir.node import Node
from ..ir.op import Op
from ..transforms import matrices
from .autograd import Autograd
from .checks import check_sides
from .operands import Operand, check_device, is_scalar
from .shapes import aligned, broadcast_shapes, expand
from .types import Placement

__all__ = ["Decompositions", "LeastSquares", "in_memory"]

T = TypeVar("T")  # of tensors


class LeastSquares(NamedTuple, Generic[T]):
    """What `lstsq` finds; residuals are empty where the system is not overdetermined."""

    solution: T
    residuals: T
    rank: T
    singular_values: T


Tolerance: TypeAlias = "float | Autograd | None"


class Decompositions(Autograd):
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
        q, r = matrices.qr(self._matrix("qr"), mode == "complete")
        return self._result(q), self._result(r)

    def svd(self, full_matrices: bool = True) -> tuple[Self, Self, Self]:
        """U, the singular values from the largest on, and V transposed: U @ diag(S) @ Vh = self.

        Of (.., m, n), with k = min(m, n): U is (.., m, m), S is (.., k) and real, and Vh is (.., n,
        n), or (.., m, k) and (.., k, n) without `full_matrices`. Gradients of U and Vh exist where
        the singular values differ, for their first k vectors; of complex numbers, for what does not
        depend on the phases of these. float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        u, s, vh = matrices.svd(self._matrix("svd"), bool(full_matrices))
        return self._result(u), self._result(s), self._result(vh)

    def svdvals(self) -> Self:
        """The singular values of (.., m, n) alone, real, from the largest on: (.., min(m, n)).

        float32, float64 or complex. Raises ShapeError or DTypeError.
        """
        return self._result(matrices.svdvals(self._matrix("svdvals")))

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
        w, v = matrices.eig(self._matrix("eig", square=True))
        return self._result(w), self._result(v)

    def eigvals(self) -> Self:
        """The eigenvalues of any (.., n, n) alone, (.., n), complex and in no particular order.

        Raises ShapeError, and DTypeError for anything but float32, float64 and complex.
        """
        return self._result(matrices.eigvals(self._matrix("eigvals", square=True)))

    def cholesky(self, upper: bool = False) -> Self:
        """L, lower triangular, with L @ L.mH = self; `upper`: L.mH. Reads the lower triangle.

        Of (.., n, n), in its shape and dtype: float32, float64 or complex. Raises ShapeError or
        DTypeError, and LinAlgError, when computed, where a matrix is not positive definite.
        """
        lower = matrices.cholesky(self._matrix("cholesky", square=True))
        return self._result(matrices.adjoint(lower) if upper else lower)

    # -- systems of equations -------------------------------------------------------------------

    def solve(self, b: Operand, left: bool = True) -> Self:
        """The x of self @ x = b, or of x @ self = b if not `left`; self is square, (.., n, n).

        `b` is (.., n, k), or vectors: (n,), or self's shape without its last axis; x has its shape.
        Batch axes broadcast. float32, float64 or complex. Raises ShapeError or DTypeError, and
        LinAlgError, when computed, of a singular matrix.
        """
        return self._solved("solve", b, left, matrices.solve)

    def solve_triangular(
        self, b: Operand, upper: bool, left: bool = True, unitriangular: bool = False
    ) -> Self:
        """As `solve`, of the upper or lower triangle of self, (.., n, n); the other one is not
        read.

        x has the shape of `b`, (.., n, k). `unitriangular`: its diagonal counts as 1. float32,
        float64 or complex. Raises ShapeError or DTypeError.
        """

        def solved(a: Node, right: Node) -> Node:
            return matrices.solve_triangular(a, right, upper is left, unit=unitriangular)

        return self._solved("solve_triangular", b, left, solved)

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
        b = self._right_side("lstsq", b)
        check_sides("lstsq", self.shape, b.shape, "elements" if b.ndim == 1 else "rows")
        columns = b.unsqueeze(-1) if b.ndim == 1 else b
        a, right = self._sides("lstsq", self, columns)
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
        return self._result(matrices.inv(self._matrix("inv", square=True)))

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
        node = self._matrix("pinv", square=hermitian)
        return self._result(matrices.pinv(node, float(self._tolerance(rtol, atol)), float(atol)))

    def det(self) -> Self:
        """The determinant of (.., n, n), (..), float32, float64 or complex. Its gradient exists for
        singular matrices, too.

        Raises ShapeError, DTypeError.
        """
        return self._result(matrices.det(self._matrix("det", square=True)))

    def slogdet(self) -> tuple[Self, Self]:
        """The sign of the determinant of (.., n, n), and the logarithm of its magnitude: both (..).

        The sign of a complex one is a complex number of length 1, the logarithm is real. float32,
        float64 or complex. Raises ShapeError or DTypeError.
        """
        sign, logarithm = matrices.slogdet(self._matrix("slogdet", square=True))
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
        node = self._matrix("matrix_rank", square=hermitian)
        absolute = 0.0 if atol is None else self._operand("matrix_rank", atol)
        relative = self._operand("matrix_rank", self._tolerance(rtol, absolute))
        tolerances: list[Any] = [relative, absolute]
        if all(map(is_scalar, tolerances)):
            tolerances = [float(one) for one in tolerances]
        else:
            each = [self._tensor_operand("matrix_rank", one) for one in tolerances]
            check_device("matrix_rank", self, *each)
            tolerances = [expand(one.cast(self.dtype.real).node, self.shape[:-2]) for one in each]
        return self._result(matrices.matrix_rank(node, tolerances, hermitian))

    # -- operands -------------------------------------------------------------------------------

    def _tolerance(self, rtol: Tolerance, atol: Any) -> Any:
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
        node = self._matrix(name, square=True)
        return node if triangle == "L" else matrices.adjoint(node)

    def _matrix(self, name: str, square: bool = False) -> Node:
        """This tensor as an operand of LAPACK. Raises ShapeError or DTypeError."""
        self._check_matrix(name, square)
        return in_memory(self.node, self.device)

    def _check_matrix(self, name: str, square: bool = False) -> None:
        if self.dtype.real not in (dtypes.float32, dtypes.float64):
            raise DTypeError(
                f"[{name}] takes float32, float64 and complex numbers, not {self.dtype.name} "
                f"(shape {self.shape}); cast it first, as with .float()"
            )
        if self.ndim < 2 or not all(isinstance(size, int) for size in self.shape):
            raise ShapeError(
                f"[{name}] takes matrices, (.., rows, columns), of sizes that are known, not shape "
                f"{self.shape}"
            )
        if square and self.shape[-1] != self.shape[-2]:
            raise ShapeError(
                f"[{name}] takes square matrices, shape {self.shape} has {self.shape[-2]} rows and "
                f"{self.shape[-1]} columns\n"
                f"{aligned([self.shape], [{self.ndim - 2, self.ndim - 1}])}"
            )

    def _right_side(self, name: str, b: Operand) -> Self:
        b = self._operand(name, b)
        if is_scalar(b):
            raise ShapeError(f"[{name}] the right side is a vector or a matrix, not the number {b}")
        check_device(name, self, b)
        return b

    def _solved(
        self, name: str, b: Operand, left: bool, solver: Callable[[Node, Node], Node]
    ) -> Self:
        """`solver(a, b)` on operands of equal dtype and batch axes; vectors as columns.

        Of the transposed operands, and its result transposed, if not `left`.
        """
        b = self._right_side(name, b)
        is_vector = b.ndim == 1 or (b.ndim == self.ndim - 1 and b.shape == self.shape[:-1])
        right = b.unsqueeze(-1) if is_vector else b
        self._check_matrix(name, square=True)
        turned = not left and not is_vector
        a, right = self if left else self.mT, right.mT if turned else right
        check_sides(
            name, self.shape, b.shape, "elements" if is_vector else "columns" if turned else "rows"
        )
        found = self._result(solver(*self._sides(name, a, right)), b)
        return found.squeeze(-1) if is_vector else found.mT if turned else found

    def _sides(self, name: str, a: Self, b: Self) -> tuple[Node, Node]:
        """Matrix and right side as operands, promoted, with equal axes before the last two."""
        dtype = least_upper_dtype(a.dtype, b.dtype)
        for side in (a, b):
            side._check_matrix(name)
        left, right = a.node.cast(dtype), b.node.cast(dtype)
        if left.shape[:-2] != right.shape[:-2]:
            batch = broadcast_shapes(name, left.shape, right.shape, apart=2)
            left, right = (expand(side, (*batch, *side.shape[-2:])) for side in (left, right))
        return in_memory(left, self.device), right


def in_memory(node: Node, device: Placement) -> Node:
    """`node` where a HOST node of it has a device: a graph of constants has none by itself."""
    if is_backed(node) or any(n.op in (Op.BUFFER, Op.COPY) for n in node.toposort()):
        return node
    if not isinstance(device, tuple):
        return Node(Op.COPY, node.dtype, (node,), device)
    copies = tuple(Node(Op.COPY, node.dtype, (node,), one) for one in device)
    return Node(Op.MULTI, node.dtype, copies, ShardArg(device, None))
