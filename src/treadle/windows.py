"""Window functions, which fade a signal out at both ends.

    from treadle import windows
    windows.hann(512, sym=False)          (512,), a period of the window that repeats
    windows.kaiser(101, beta=8.6)         symmetric, for a filter

Each gives `m` numbers from 0 to 1. `sym` true makes them symmetric, false one period of a window
of `m + 1`, as Fourier transforms want it. A window of 1 is [1]. The formulas are those of F. J.
Harris, On the use of windows for harmonic analysis with the discrete Fourier transform (1978). All
raise ShapeError for a negative `m`, DTypeError for a dtype that holds no floats, DeviceError for a
device that is not there and ArgumentError for an argument of another kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .dtype import dtypes, to_dtype
from .errors import ArgumentError, DTypeError, ShapeError
from .explained import explain_all
from .tensor import Tensor
from .tensor.types import DTypeLike

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def general_cosine(
    m: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """a[0] - a[1] cos(t) + a[2] cos(2 t) - ..., t from 0 to 2 pi: (m,) floats.

    Raises ShapeError, DTypeError, and ArgumentError without `a`.
    """
    if not a:
        raise ArgumentError("[general_cosine] a is a list of at least one number")
    places, last = _places("general_cosine", m, sym, dtype, device)
    total = places.zeros_like()
    for i, factor in enumerate(a):
        wave = places.mul(2 * math.pi * i / last).cos()
        total = total.add(wave.mul((-1) ** i * factor))
    return _finished(total, dtype, m)


def blackman(
    m: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """0.42 - 0.5 cos(t) + 0.08 cos(2 t): (m,) floats. Raises ShapeError, DTypeError."""
    return general_cosine(m, a=(0.42, 0.5, 0.08), sym=sym, dtype=dtype, device=device)


def nuttall(
    m: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Nuttall's minimum of four terms (1981), side lobes below -98 dB: (m,) floats.

    Raises ShapeError, DTypeError.
    """
    terms = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return general_cosine(m, a=terms, sym=sym, dtype=dtype, device=device)


def general_hamming(
    m: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """alpha - (1 - alpha) cos(t): (m,) floats. Raises ShapeError, DTypeError."""
    return general_cosine(m, a=(alpha, 1.0 - alpha), sym=sym, dtype=dtype, device=device)


def hamming(
    m: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """0.54 - 0.46 cos(t): (m,) floats. Raises ShapeError, DTypeError."""
    return general_hamming(m, sym=sym, dtype=dtype, device=device)


def hann(
    m: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """(1 - cos(t)) / 2: (m,) floats. Raises ShapeError, DTypeError."""
    return general_hamming(m, alpha=0.5, sym=sym, dtype=dtype, device=device)


def bartlett(
    m: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """A triangle from 0 to 1 to 0: (m,) floats. Raises ShapeError, DTypeError."""
    places, last = _places("bartlett", m, sym, dtype, device)
    return _finished(places.mul(2 / last).sub(1.0).abs().neg().add(1.0), dtype, m)


def cosine(
    m: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Half a wave of the sine, which is not 0 at the ends: (m,) floats.

    Raises ShapeError, DTypeError.
    """
    places, last = _places("cosine", m, sym, dtype, device)
    return _finished(places.add(0.5).mul(math.pi / (last + 1)).sin(), dtype, m)


def exponential(
    m: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: DTypeLike | None = None, device: str | None = None,
) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau): (m,) floats; `center` None is the middle.

    Raises ShapeError, DTypeError, and ArgumentError for a `tau` that is not above 0, or a `center`
    of a symmetric window.
    """
    if tau <= 0 or (sym and center is not None):
        raise ArgumentError(
            f"[exponential] tau is above 0 and a symmetric window has its center in the middle, "
            f"not tau={tau}, center={center}"
        )
    places, last = _places("exponential", m, sym, dtype, device)
    middle = last / 2 if center is None else center
    return _finished(places.sub(middle).abs().mul(-1 / tau).exp(), dtype, m)


def gaussian(
    m: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """exp(-(n - middle)² / 2 std²): (m,) floats.

    Raises ShapeError, DTypeError, and ArgumentError for a `std` up to 0.
    """
    if std <= 0:
        raise ArgumentError(f"[gaussian] std is above 0, not {std}")
    places, last = _places("gaussian", m, sym, dtype, device)
    return _finished(places.sub(last / 2).mul(1 / std).square().mul(-0.5).exp(), dtype, m)


def kaiser(
    m: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """i0(beta sqrt(1 - t²)) / i0(beta), t from -1 to 1: (m,) floats.

    Raises ShapeError, DTypeError, and ArgumentError for a negative `beta`.
    """
    if beta < 0:
        raise ArgumentError(f"[kaiser] beta is at least 0, not {beta}")
    places, last = _places("kaiser", m, sym, dtype, device)
    t = places.mul(2 / last).sub(1.0)
    inner = t.square().neg().add(1.0).maximum(0.0).sqrt().mul(beta)
    # both i0 without their exponentials, which overflow
    ratio = inner.i0e().div(places.full_like(beta).i0e()).mul(inner.sub(beta).exp())
    return _finished(ratio, dtype, m)


def _places(
    name: str, m: int, sym: bool, dtype: DTypeLike | None, device: str | None
) -> tuple[Tensor, int]:
    """0 to m - 1 as floats of at least 32 bits, and the place of the last number of the window."""
    if not isinstance(m, int) or m < 0:
        raise ShapeError(f"[{name}] a window has a whole number of elements, not {m!r}")
    kind = dtypes.default_float if dtype is None else to_dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"[{name}] a window holds floats, not {kind.name}")
    wide = kind if kind.bits >= 32 else dtypes.float32
    places = Tensor.arange(m, dtype=wide, device=device)
    return places, max(m - 1 if sym else m, 1)


def _finished(window: Tensor, dtype: DTypeLike | None, m: int) -> Tensor:
    """In the dtype asked for; a window of one element is 1."""
    window = window.ones_like() if m == 1 else window
    return window.cast(dtypes.default_float if dtype is None else dtype)


explain_all(globals())
