"""Factors and functions of matrices that NumPy has not: LU with pivots, the exponential.

    lu([[0, 2], [4, 2]])   ->  L below U in one matrix [[4, 2], [0, 2]], the rows exchanged in turn
                               [2, 2], counted from 1 as in LAPACK, and the order of rows [1, 0]

On arrays of floats with any axes before the last two, in float64. No loop is over single elements:
elimination is a rank-1 update for each column, of all matrices at once.
"""

from __future__ import annotations

from math import comb, factorial

import numpy as np

__all__ = ["exponential", "lu", "permutation"]

Array = np.ndarray

# Padé's approximant of degree 13 is exact to float64 for norms up to this: N. J. Higham, The
# scaling and squaring method for the matrix exponential revisited (2005), table 2.3
_NORM = 5.371920351148152
_PADE = [float(comb(13, j) * factorial(26 - j) // factorial(13)) for j in range(14)]


def lu(a: Array) -> tuple[Array, Array, Array]:
    """Gaussian elimination with partial pivoting of (.., m, n); a column of zeros is passed by."""
    a = a.astype(np.float64)
    m, n = a.shape[-2:]
    pivots = np.zeros((*a.shape[:-2], min(m, n)), np.int64)
    for k in range(min(m, n)):
        column = np.abs(a[..., k:, k])
        best = column.argmax(-1) + k
        pivots[..., k] = best + 1
        at = best[..., None, None]
        found = np.take_along_axis(a, at, -2)
        np.put_along_axis(a, np.broadcast_to(at, found.shape), a[..., k : k + 1, :].copy(), -2)
        a[..., k : k + 1, :] = found
        pivot = a[..., k : k + 1, k]
        a[..., k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        a[..., k + 1 :, k + 1 :] -= a[..., k + 1 :, k, None] * a[..., k, None, k + 1 :]
    return a, pivots, permutation(pivots, m)


def permutation(pivots: Array, size: int) -> Array:
    """Which row of the matrix is row i after rows were exchanged in turn."""
    pivots = pivots.astype(np.int64) - 1
    batch = pivots.shape[:-1]
    order = np.broadcast_to(np.arange(size), (*batch, size)).copy()
    for k in range(pivots.shape[-1]):
        at = np.clip(pivots[..., k : k + 1], 0, size - 1)
        found = np.take_along_axis(order, at, -1)
        np.put_along_axis(order, at, order[..., k : k + 1].copy(), -1)
        order[..., k : k + 1] = found
    return order


def exponential(a: Array) -> Array:
    """Scaled by a power of 2, Padé's approximant, squared as often."""
    if not a.size:
        return a
    a = a.astype(np.float64)
    norm = np.abs(a).sum(-2).max(-1)
    doublings = np.ceil(np.log2(np.where(np.isfinite(norm) & (norm > _NORM), norm / _NORM, 1.0)))
    scaled = a / np.exp2(doublings)[..., None, None]
    eye, square = np.eye(a.shape[-1]), scaled @ scaled
    powers = [eye, square, square @ square]
    powers.append(powers[2] @ square)
    odd, even = (
        powers[3] @ sum(_PADE[2 * i + 6 + first] * powers[i] for i in (1, 2, 3))
        + sum(_PADE[2 * i + first] * powers[i] for i in range(4))
        for first in (1, 0)
    )
    odd = scaled @ odd
    finite = np.isfinite(norm)[..., None, None]
    result = np.linalg.solve(np.where(finite, even - odd, eye), even + odd)
    for k in range(int(doublings.max())):
        result = np.where((doublings > k)[..., None, None], result @ result, result)
    return np.where(finite, result, np.nan)
