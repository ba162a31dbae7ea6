"""Dense decompositions in NumPy: the functions behind HOST nodes.

    call(HostArg("qr", ((3, 2), (2, 2)), ("float32",) * 2, options=(False,)), [a])  ->  [q, r]

Each takes arrays, floats or complex numbers of one width, with any axes before the last two, and
gives a tuple of results. NumPy hands them to LAPACK, in float64 for float32 too. Where a matrix has
no such decomposition, LinAlgError names the operation and the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import LinAlgError
from . import factors
from .args import HostArg

__all__ = ["FUNCTIONS", "call", "results"]

Array = np.ndarray
Results = tuple[Array, ...]


class _LinAlgError(LinAlgError, np.linalg.LinAlgError):
    """What both those who know treadle's errors and those who know NumPy's can catch."""


def call(arg: HostArg, operands: Sequence[Array]) -> list[Array]:
    """All results of a host function, of the shapes that `arg` says. Raises LinAlgError."""
    return [
        np.asarray(result, dtype).reshape(shape)
        for result, shape, dtype in zip(results(arg, operands), arg.shapes, arg.dtypes, strict=True)
    ]


@np.errstate(all="ignore")
def results(arg: HostArg, operands: Sequence[Array]) -> Results:
    """As `call`, with the elements in the dtypes and shapes that NumPy gives them."""
    try:
        return FUNCTIONS[arg.name](*operands, *arg.options)
    except np.linalg.LinAlgError as error:
        shapes = " and ".join(str(operand.shape) for operand in operands)
        raise _LinAlgError(
            f"[{arg.name}] of shape {shapes}: {error}; {_ADVICE[arg.name]}"
        ) from None


def _qr(a: Array, complete: bool) -> Results:
    return tuple(np.linalg.qr(a, "complete" if complete else "reduced"))


def _svd(a: Array, full_matrices: bool) -> Results:
    return tuple(np.linalg.svd(a, full_matrices))


def _inv(a: Array, strict: bool) -> Results:
    try:
        return (np.linalg.inv(a),)
    except np.linalg.LinAlgError:
        if strict:
            raise
    if a.ndim == 2:
        return (np.full_like(a, np.inf),)
    return (np.stack([_inv(matrix, strict)[0] for matrix in a]),)


def _pinv(a: Array, rtol: float, atol: float) -> Results:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    inverse = np.divide(1, s, where=_counted(s, rtol, atol), out=np.zeros_like(s))
    return (_adjoint((u * inverse[..., None, :]) @ vh),)


def _lstsq(a: Array, b: Array, rtol: float) -> Results:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    counted = _counted(s, rtol, 0.0)
    inverse = np.divide(1, s, where=counted, out=np.zeros_like(s))
    x = _adjoint(vh) @ (inverse[..., None] * (_adjoint(u) @ b))
    residuals = np.square(np.abs(a @ x - b)).sum(-2)
    is_overdetermined = a.shape[-2] > a.shape[-1]
    return x, residuals if is_overdetermined else residuals[..., :0], counted.sum(-1), s


def _matrix_rank(a: Array, rtol: float | Array, atol: float | Array, hermitian: bool) -> Results:
    """Tolerances are numbers, or arrays of one for each matrix."""
    s = np.abs(np.linalg.eigvalsh(a)) if hermitian else np.linalg.svd(a, compute_uv=False)
    return (_counted(s, np.asarray(rtol)[..., None], np.asarray(atol)[..., None]).sum(-1),)


def _counted(s: Array, rtol: float | Array, atol: float | Array) -> Array:
    """The singular values, in any order, that do not count as 0."""
    return s > np.maximum(atol, rtol * s.max(-1, initial=0, keepdims=True))


def _adjoint(a: Array) -> Array:
    return np.swapaxes(a, -1, -2).conj()


def _cofactors(a: Array) -> Results:
    """The gradient of the determinant, (det(a) inv(a)).H, for singular matrices as well.

    From the singular values: U diag(products of all others) V.H, times det(U) det(V.H) conjugated.
    """
    u, s, vh = np.linalg.svd(a.astype(np.result_type(a, np.float64)))
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1.0, s[..., None, :]).prod(-1)
    signs = (np.linalg.det(u) * np.linalg.det(vh)).conj()
    return ((u * (others * signs[..., None])[..., None, :]) @ vh,)


FUNCTIONS: dict[str, Callable[..., Results]] = {
    "cholesky": lambda a: (np.linalg.cholesky(a),),
    "qr": _qr,
    "svd": _svd,
    "svdvals": lambda a: (np.linalg.svd(a, compute_uv=False),),
    "eigh": lambda a: tuple(np.linalg.eigh(a)),
    "eigvalsh": lambda a: (np.linalg.eigvalsh(a),),
    "eig": lambda a: tuple(np.linalg.eig(a)),
    "eigvals": lambda a: (np.linalg.eigvals(a),),
    "solve": lambda a, b: (np.linalg.solve(a, b),),
    "solve_triangular": lambda *args: (factors.solve_triangular(*args),),
    "lstsq": _lstsq,
    "inv": _inv,
    "det": lambda a: (np.linalg.det(a),),
    "slogdet": lambda a: tuple(np.linalg.slogdet(a)),
    "pinv": _pinv,
    "matrix_rank": _matrix_rank,
    "cofactors": _cofactors,
    "lu": factors.lu,
    "permutation": lambda pivots, size: (factors.permutation(pivots, size),),
    "matrix_exp": lambda a: (factors.exponential(a),),
}

_SINGULAR = "pinv() and lstsq() take singular matrices, too"
_FINITE = "are there NaNs or infinities in it?"
_ADVICE = {
    **dict.fromkeys(FUNCTIONS, _FINITE),
    "cholesky": "it must be Hermitian with positive eigenvalues, so add a multiple of eye(n) maybe",
    "solve": _SINGULAR,
    "solve_triangular": _SINGULAR,
    "inv": _SINGULAR,
}
