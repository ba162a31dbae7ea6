"""Rows of linear algebra on top of decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Tensor, dtypes

from .rows import listed, method

__all__ = ["FACTORS"]


def lu_solve(b: Tensor, factors: Tensor, pivots: Tensor) -> Tensor:
    return factors.lu_solve(pivots, b)


def linalg_lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True,
                    adjoint: bool = False) -> Tensor:  # fmt: skip
    """Of the adjoint, both sides are transposed."""
    if adjoint:
        return factors.lu_solve(pivots, b.mT, not left).mT
    return factors.lu_solve(pivots, b, left)


def lu(x: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """What LAPACK would say of each matrix: nothing went wrong."""
    infos = [Tensor.zeros(x.shape[:-2], dtype=dtypes.int32)] if get_infos else []
    return (*x.lu_factor(), *infos)


FACTORS: dict[str, Callable[..., Any]] = {
    "inner": method("inner"),
    "qr": lambda x, some=True: x.qr("reduced" if some else "complete"),
    "matrix_exp": method("matrix_exp"),
    "cholesky_solve": method("cholesky_solve"),
    "cholesky_inverse": method("cholesky_inverse"),
    "triangular_solve": method("triangular_solve"),
    "linalg.multi_dot": listed("multi_dot"),
    "linalg.vander": lambda x, N=None: x.vander(N, increasing=True),
    "linalg.tensorinv": lambda x, ind=2: x.tensorinv(ind),
    "linalg.tensorsolve": lambda x, b, dims=None: x.tensorsolve(b, dims),
    "linalg.lu": lambda x, *, pivot=True: x.lu(),
    "linalg.lu_factor": lambda x, *, pivot=True: x.lu_factor(),
    "linalg.lu_solve": linalg_lu_solve,
    "lu_solve": lu_solve,
    "lu_unpack": lambda factors, pivots, unpack_data=True, unpack_pivots=True: factors.lu_unpack(
        pivots
    ),
    "lu": lu,
}
