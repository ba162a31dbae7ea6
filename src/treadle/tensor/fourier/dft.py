"""The discrete Fourier transform of complex lines, in O(n log n) for every length, as matmuls.

    dft(x, inverse=False)   # (.., n) -> (.., n): sum over j of x[j] exp(-2 pi i j k / n)
    real_dft(x)             # the first n // 2 + 1 of them, of real lines, in half the time
    dft_to_real(x, n)       # the inverse of that

A length a * b splits into b transforms of length a and a of length b (J. W. Cooley and J. W. Tukey,
1965): one matmul by the matrix of the short transform, factors in between, and the rest in the same
way. A large prime becomes a circular convolution of a length that splits (L. I. Bluestein, 1970).
Matrices and factors are computed in float64 from angles reduced exactly, and kept for later calls.
"""

from __future__ import annotations

import functools
import math
from typing import TypeVar

import numpy as np

from ...dtype import DType, _to_np_dtype, complex_of
from ..basis import Basis
from ..types import Placement

__all__ = ["dft", "dft_to_real", "real_dft"]

T = TypeVar("T", bound=Basis)

_LARGEST_MATRIX = 64  # of a transform that is one matmul, where the length has such a divisor
_LARGEST_PRIME = 256  # that is one matmul still
_KEPT = 32  # tables

Array = np.ndarray


def dft(x: T, inverse: bool) -> T:
    """The transform of the last axis, without a factor; `inverse` turns the other way."""
    n = x.shape[-1]
    part = _first_factor(n)
    if part == n:
        return x if n == 1 else x @ _table(type(x), "matrix", n, n, inverse, x.dtype, x.device)
    if part == 1:
        return _chirped(x, inverse)
    rest = n // part
    lead = x.shape[:-1]
    columns = x.reshape((*lead, part, rest)).transpose(-1, -2)
    turned = dft(columns, inverse)
    factors = _table(type(x), "factors", rest, part, inverse, x.dtype, x.device)
    rows = turned.mul(factors).transpose(-1, -2)
    return dft(rows, inverse).transpose(-1, -2).reshape((*lead, n))


def real_dft(x: T) -> T:
    """The first n // 2 + 1 elements of the transform of real lines, of which the others follow.

    Of an even length, neighbours are the parts of one complex number. With Z the transform of these
    and R the conjugate of Z[-k], the result is (Z + R) / 2 + exp(-2 pi i k / n) (Z - R) / 2i.
    """
    n, axis = x.shape[-1], x.ndim - 1
    if n % 2 or n <= _LARGEST_MATRIX:
        whole = dft(x.cast(complex_of(x.dtype)).contiguous(), False)
        return whole.contiguous()._slice(axis, 0, n // 2 + 1)
    z = dft(x.reshape((*x.shape[:-1], n // 2, 2)).view_as_complex(), False).contiguous()
    z = z.cat(z._slice(axis, 0, 1), dim=axis)
    r = z.flip(axis).conj()
    turns = _table(type(x), "halves", n // 2 + 1, n, False, z.dtype, x.device)
    return z.add(r).mul(0.5).add(z.sub(r).mul(turns))


def dft_to_real(x: T, n: int) -> T:
    """The inverse transform, without a factor, to n reals of their first n // 2 + 1 frequencies.

    The imaginary parts of the first one and, if n is even, of the last one count for nothing.
    """
    axis = x.ndim - 1
    if n % 2 or n <= _LARGEST_MATRIX:
        rest = x._slice(axis, 1, (n + 1) // 2).flip(axis).conj()
        return dft(x.cat(rest, dim=axis), True).real
    place = x.real.detach()._places(axis)
    ends = place.eq(0).bitwise_or(place.eq(n // 2))
    x = x.real.complex(ends.where(0.0, x.imag))
    r = x.flip(axis).conj()
    turns = _table(type(x), "halves", n // 2 + 1, n, True, x.dtype, x.device)
    z = x.add(r).add(x.sub(r).mul(turns).mul(2.0))._slice(axis, 0, n // 2).contiguous()
    return dft(z, True).view_as_real().reshape((*x.shape[:-1], n))


def _first_factor(n: int) -> int:
    """The length of the first matmul: n where one will do, 1 where n does not split."""
    if n <= _LARGEST_MATRIX:
        return n
    fitting = [a for a in range(2, _LARGEST_MATRIX + 1) if n % a == 0]
    if fitting:
        steps = math.ceil(math.log(n) / math.log(_LARGEST_MATRIX))
        wanted = math.log(n) / steps
        return min(fitting, key=lambda a: abs(math.log(a) - wanted))
    return next((a for a in range(_LARGEST_MATRIX + 1, _LARGEST_PRIME + 1) if n % a == 0), 1)


def _chirped(x: T, inverse: bool) -> T:
    """By j k = (j^2 + k^2 - (j - k)^2) / 2: a convolution with exp(i pi j^2 / n)."""
    n = x.shape[-1]
    size = _fast_length(2 * n - 1)
    chirp = _table(type(x), "chirp", n, size, inverse, x.dtype, x.device)
    kernel = _table(type(x), "kernel", n, size, inverse, x.dtype, x.device)
    padded = x.mul(chirp).pad_to((*x.shape[:-1], size))
    product = dft(padded, False).mul(kernel)
    return dft(product, True).contiguous()._slice(x.ndim - 1, 0, n).mul(chirp)


def _fast_length(least: int) -> int:
    """The smallest 2^a 3^b 5^c of at least `least`."""
    best = 1 << (least - 1).bit_length()
    odd = [3**b * 5**c for b in range(21) for c in range(14) if 3**b * 5**c <= best]
    return min(m << max((-(-least // m) - 1).bit_length(), 0) for m in odd)


# -- tables ---------------------------------------------------------------------------------------


def _roots(turns: Array, n: int, inverse: bool) -> Array:
    """exp(-2 pi i turns / n) of integers, or its conjugate: angles of at most an eighth turn."""
    quarters, rest = np.divmod(8 * (turns % n) + n, 2 * n)  # the rest begins an eighth before
    angle = (rest - n) * (np.pi / (4 * n))
    root = np.array([1, 1j, -1, -1j])[quarters % 4] * (np.cos(angle) + 1j * np.sin(angle))
    return root if inverse else root.conj()


def _matrix(n: int, _: int, inverse: bool) -> Array:
    places = np.arange(n)
    return _roots(np.outer(places, places), n, inverse)


def _factors(rest: int, part: int, inverse: bool) -> Array:
    return _roots(np.outer(np.arange(rest), np.arange(part)), rest * part, inverse)


def _chirp(n: int, _: int, inverse: bool) -> Array:
    places = np.arange(n, dtype=object if n >= 1 << 31 else np.int64)
    return _roots((places * places % (2 * n)).astype(np.int64), 2 * n, inverse)


def _kernel(n: int, size: int, inverse: bool) -> Array:
    """The transform of the chirp that is convolved with, over `size` for the way back."""
    chirp = _chirp(n, size, not inverse)
    line = np.zeros(size, np.complex128)
    line[:n] = chirp
    line[size - n + 1 :] = chirp[:0:-1]
    return np.fft.fft(line) / size


def _halves(count: int, n: int, inverse: bool) -> Array:
    return _roots(np.arange(count), n, inverse) * (0.5j if inverse else -0.5j)


_MAKERS = {
    "matrix": _matrix, "factors": _factors, "chirp": _chirp, "kernel": _kernel, "halves": _halves,
}  # fmt: skip


@functools.lru_cache(_KEPT)
def _table(
    kind: type[T], name: str, n: int, size: int, inverse: bool, dtype: DType, device: Placement
) -> T:
    """A table as a tensor."""
    return kind(_MAKERS[name](n, size, inverse).astype(_to_np_dtype(dtype)), device=device)
