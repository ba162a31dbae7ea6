"""Dense decompositions and systems of equations, from where calls cost to where LAPACK does.

A single Fourier transform is here as well: like them it is judged by NumPy's time.
"""

from __future__ import annotations

import math

from ..libraries.base import Library
from ..work import TENTH_OF_NUMPY, Array, Form, Input, Work

__all__ = ["rows"]

SIZES, QUICK_SIZES = (4, 32, 128, 512), (4,)

# Operations for n by n, in cubes of n; from Golub and Van Loan, "Matrix Computations" (2013).
_OF_ANY = {
    "det": 2 / 3, "slogdet": 2 / 3, "inv": 2.0, "qr": 8 / 3, "svdvals": 8 / 3, "matrix_rank": 8 / 3,
    "pinv": 22.0,
}  # fmt: skip
_OF_DEFINITE = {"cholesky": 1 / 3, "eigvalsh": 4 / 3, "eigh": 9.0}
_COLUMNS = 3  # of right sides


def rows(quick: bool) -> list[Work]:
    """At least a tenth of NumPy's speed."""
    sizes = QUICK_SIZES if quick else SIZES
    points = 64 if quick else 1024
    return [
        *(_of_matrix(name, cubes, n, definite=False) for name, cubes in _OF_ANY.items()
          for n in sizes),
        *(_of_matrix(name, cubes, n, definite=True) for name, cubes in _OF_DEFINITE.items()
          for n in sizes),
        *(_with_right_side("solve", 2 / 3, n, n) for n in sizes),
        *(_with_right_side("lstsq", 16.0, 2 * n, n) for n in sizes),
        _measured(f"fft {points}", 5 * points * math.log2(points), (Input((points,)),), _fft),
    ]  # fmt: skip


def _measured(name: str, amount: float, given: tuple[Input, ...], form: Form) -> Work:
    return Work("linalg", name, "flops", amount, given, form, (TENTH_OF_NUMPY,))


def _of_matrix(name: str, cubes: float, n: int, definite: bool) -> Work:
    def form(lib: Library[Array], a: Array) -> Array:
        return lib.linalg(name, a)

    given = Input((n, n), scale=n**-0.5, definite=definite)
    return _measured(f"{name} {n}x{n}", cubes * n**3, (given,), form)


def _with_right_side(name: str, cubes: float, m: int, n: int) -> Work:
    def form(lib: Library[Array], a: Array, b: Array) -> Array:
        return lib.linalg(name, a, b)

    given = Input((m, n), scale=n**-0.5, definite=m == n), Input((m, _COLUMNS))
    return _measured(f"{name} {m}x{n}", cubes * n**3, given, form)


def _fft(lib: Library[Array], x: Array) -> Array:
    return lib.fft(x)
