"""Fourier transforms: the `fft` extension.

fft(x, n=8)    irfftn(x, axes=(0, 1))    fftfreq(8, d=0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from ..explained import explain_all
from ..tensor import Tensor
from ..tensor.types import DTypeLike
from .signatures import check_tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip

Norm = Literal["backward", "ortho", "forward"]
Transform: TypeAlias = Callable[..., Tensor]


def _along_one(method: Transform) -> Transform:
    """A transform along one axis, by the standard's signature."""
    name = method.__name__

    def operator(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
    ) -> Tensor:
        return method(check_tensor(name, x), n, axis, norm)

    operator.__name__, operator.__doc__ = name, method.__doc__
    return operator


def _along_several(method: Transform) -> Transform:
    """A transform along several axes, by the standard's signature."""
    name = method.__name__

    def operator(
        x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: Norm = "backward",
    ) -> Tensor:  # fmt: skip
        return method(check_tensor(name, x), s, axes, norm)

    operator.__name__, operator.__doc__ = name, method.__doc__
    return operator


fft: Transform = _along_one(Tensor.fft)
ifft: Transform = _along_one(Tensor.ifft)
rfft: Transform = _along_one(Tensor.rfft)
irfft: Transform = _along_one(Tensor.irfft)
hfft: Transform = _along_one(Tensor.hfft)
ihfft: Transform = _along_one(Tensor.ihfft)
fftn: Transform = _along_several(Tensor.fftn)
ifftn: Transform = _along_several(Tensor.ifftn)
rfftn: Transform = _along_several(Tensor.rfftn)
irfftn: Transform = _along_several(Tensor.irfftn)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequency of each element of an `fft` of `n` numbers that are `d` apart: (n,).

    float32 unless a dtype is given. Raises ShapeError, and DTypeError for one of no floats.
    """
    return Tensor.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequency of each element of an `rfft` of `n` numbers that are `d` apart: (n // 2 + 1,).

    float32 unless a dtype is given. Raises ShapeError, and DTypeError for one of no floats.
    """
    return Tensor.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency 0 moved to the middle of some axes, or all; shape and dtype stay.

    Raises IndexOutOfRange.
    """
    return check_tensor("fftshift", x).fftshift(axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`, of some axes, or all; shape and dtype stay.

    Raises IndexOutOfRange.
    """
    return check_tensor("ifftshift", x).ifftshift(axes)


explain_all(globals())
