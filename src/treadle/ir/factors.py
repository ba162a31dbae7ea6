"""Factors and functions of matrices that NumPy has not: triangles, LU with pivots, the exponential.

    lu([[0, 2], [4, 2]])   ->  L below U in one matrix [[4, 2], [0, 2]], the rows exchanged in turn
                               [2, 2], counted from 1 as in LAPACK, and the order of rows [1, 0]

On arrays of floats or complex numbers with any axes before the last two, in 64 bits a part. No loop
is over single elements: columns and triangles go by blocks, so that products do most of the work.
"""

from __future__ import annotations

from functools import cache
from math import comb, factorial, prod

import numpy as np

__all__ = ["exponential", "lu", "permutation", "solve_triangular"]

Array = np.ndarray

_PANEL = 32  # columns that are eliminated one by one before their product with all others
_TRIANGLE = 64  # rows that LAPACK solves at once

# Padé's approximant of degree 13 is exact to float64 for norms up to this: N. J. Higham, The
# scaling and squaring method for the matrix exponential revisited (2005), table 2.3
_NORM = 5.371920351148152
_PADE = [float(comb(13, j) * factorial(26 - j) // factorial(13)) for j in range(14)]


def solve_triangular(a: Array, b: Array, upper: bool, adjoint: bool, unit: bool) -> Array:
    """The x of t @ x = b, or t.H @ x = b with `adjoint`, where t is a triangle of (.., n, n).

    `unit`: its diagonal counts as 1. Raises NumPy's LinAlgError for a 0 on the diagonal.
    """
    wide = np.result_type(a, np.float64)
    found, n = b.astype(wide), a.shape[-1]
    starts = range(0, n, _TRIANGLE)
    is_forward = upper is adjoint  # whether the first row is known first
    for start in starts if is_forward else reversed(starts):
        stop = min(start + _TRIANGLE, n)
        square = np.where(_triangle(stop - start, upper, unit), a[..., start:stop, start:stop], 0)
        square = square.astype(wide, copy=False)
        if unit:
            square += np.eye(stop - start)
        rest = slice(stop, n) if is_forward else slice(0, start)
        below = a[..., start:stop, rest] if adjoint else a[..., rest, start:stop]
        if adjoint:
            square, below = np.swapaxes(square, -1, -2).conj(), np.swapaxes(below, -1, -2).conj()
        part = found[..., start:stop, :]
        # from the last row on: LAPACK's pivots are the diagonal then, and no rows are exchanged
        turn = slice(None, None, -1 if is_forward else 1)
        solved = np.linalg.solve(square[..., turn, turn], part[..., turn, :])
        part[...] = solved[..., turn, :]
        if rest.start < rest.stop:
            found[..., rest, :] -= below @ part
    return found


@cache
def _triangle(size: int, upper: bool, unit: bool) -> Array:
    """Which elements of a square are in its triangle; without the diagonal if that counts as 1."""
    lower = np.tri(size, k=-1 if unit else 0, dtype=bool)
    return lower.T if upper else lower


def lu(a: Array) -> tuple[Array, Array, Array]:
    """Gaussian elimination with partial pivoting of (.., m, n); a column of zeros is passed by."""
    shape, (m, n) = a.shape, a.shape[-2:]
    a = a.astype(np.result_type(a, np.float64)).reshape(prod(shape[:-2]), m, n)
    pivots = np.zeros((len(a), min(m, n)), np.int64)
    each = np.arange(len(a))
    for start in range(0, min(m, n), _PANEL):
        stop = min(start + _PANEL, m, n)
        for k in range(start, stop):
            best = np.abs(a[:, k:, k]).argmax(-1) + k
            pivots[:, k] = best + 1
            _exchange(a, each, k, best)
            pivot = a[:, k, k]
            a[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)[:, None]
            a[:, k + 1 :, k + 1 : stop] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 : stop]
        if stop < n:
            panel = a[:, start:stop]
            panel[..., stop:] = solve_triangular(
                panel[..., start:stop], panel[..., stop:], upper=False, adjoint=False, unit=True
            )
            a[:, stop:, stop:] -= a[:, stop:, start:stop] @ panel[..., stop:]
    pivots = pivots.reshape(*shape[:-2], min(m, n))
    return a.reshape(shape), pivots, permutation(pivots, m)


def permutation(pivots: Array, size: int) -> Array:
    """Which row of the matrix is row i after rows were exchanged in turn."""
    batch, count = pivots.shape[:-1], pivots.shape[-1]
    places = np.clip(pivots.reshape(prod(batch), count) - 1, 0, size - 1)
    order = np.tile(np.arange(size), (len(places), 1))
    each = np.arange(len(places))
    for k in range(count):
        _exchange(order, each, k, places[:, k])
    return order.reshape(*batch, size)


def _exchange(a: Array, each: Array, k: int, other: Array) -> None:
    """Rows k and other[i] of a[i] change places, for all i of `each`."""
    found = a[each, other]
    a[each, other] = a[:, k]
    a[:, k] = found


def exponential(a: Array) -> Array:
    """Scaled by a power of 2, Padé's approximant, squared as often."""
    if not a.size:
        return a
    a = a.astype(np.result_type(a, np.float64))
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
