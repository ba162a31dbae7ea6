"""Fourier transforms as functions, by the names and arguments of the Array API's `fft` extension.

Those of two axes and the Hermitian ones of several have PyTorch's names.

    from treadle import fft
    fft.irfft(fft.rfft(x), n=x.shape[-1])    # x again, for real x
    fft.fftfreq(8, d=0.1)

Each is the `Tensor` method of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .tensor import Tensor
from .tensor.types import Axes, DTypeLike

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


class _AlongOne(Protocol):
    def __call__(
        self, x: Tensor, /, n: int | None = None, axis: int = -1, norm: str | None = "backward"
    ) -> Tensor: ...


class _AlongSeveral(Protocol):
    def __call__(
        self, x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Tensor: ...  # fmt: skip


class _AlongTwo(Protocol):
    def __call__(
        self, x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
        norm: str | None = "backward",
    ) -> Tensor: ...  # fmt: skip


class _Frequencies(Protocol):
    def __call__(
        self, n: int, d: float = 1, *, dtype: DTypeLike | None = None, device: str | None = None
    ) -> Tensor: ...


class _Shift(Protocol):
    def __call__(self, x: Tensor, /, axes: Axes = None) -> Tensor: ...


fft: _AlongOne = Tensor.fft
ifft: _AlongOne = Tensor.ifft
rfft: _AlongOne = Tensor.rfft
irfft: _AlongOne = Tensor.irfft
hfft: _AlongOne = Tensor.hfft
ihfft: _AlongOne = Tensor.ihfft
fftn: _AlongSeveral = Tensor.fftn
ifftn: _AlongSeveral = Tensor.ifftn
rfftn: _AlongSeveral = Tensor.rfftn
irfftn: _AlongSeveral = Tensor.irfftn
hfftn: _AlongSeveral = Tensor.hfftn
ihfftn: _AlongSeveral = Tensor.ihfftn
fft2: _AlongTwo = Tensor.fft2
ifft2: _AlongTwo = Tensor.ifft2
rfft2: _AlongTwo = Tensor.rfft2
irfft2: _AlongTwo = Tensor.irfft2
hfft2: _AlongTwo = Tensor.hfft2
ihfft2: _AlongTwo = Tensor.ihfft2
fftfreq: _Frequencies = Tensor.fftfreq
rfftfreq: _Frequencies = Tensor.rfftfreq
fftshift: _Shift = Tensor.fftshift
ifftshift: _Shift = Tensor.ifftshift
