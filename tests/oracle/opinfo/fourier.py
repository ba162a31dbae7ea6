"""Rows of Fourier transforms: PyTorch's `dim` is treadle's `axis`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Tensor

__all__ = ["FOURIER"]


def line(name: str) -> Callable[..., Any]:
    """Along one axis."""

    def row(x: Tensor, n: Any = None, dim: int = -1, norm: Any = None) -> Tensor:
        return getattr(x, name)(n, dim, norm)

    return row


def several(name: str) -> Callable[..., Any]:
    """Along some axes, those of 2-D transforms by default the last two."""
    default = (-2, -1) if name.endswith("2") else None

    def row(x: Tensor, s: Any = None, dim: Any = default, norm: Any = None) -> Tensor:
        sizes, axes = ((v,) if isinstance(v, int) else v for v in (s, dim))
        return getattr(x, name)(sizes, axes, norm)

    return row


def shift(name: str) -> Callable[..., Any]:
    def row(x: Tensor, dim: Any = None) -> Tensor:
        return getattr(x, name)(dim)

    return row


def stft(x: Tensor, *args: Any, return_complex: Any = None, **options: Any) -> Tensor:
    """PyTorch's complex numbers may be pairs of reals."""
    found = x.stft(*args, **options)
    return found if return_complex or x.dtype.is_complex else found.view_as_real()


FOURIER: dict[str, Callable[..., Any]] = {
    **{f"fft.{name}": line(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{
        f"fft.{name}": several(name)
        for kind in ("fft", "rfft", "hfft")
        for end in ("n", "2")
        for name in (kind + end, "i" + kind + end)
    },
    "stft": stft,
    **{f"fft.{name}": shift(name) for name in ("fftshift", "ifftshift")},
}
