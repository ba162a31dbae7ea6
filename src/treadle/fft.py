"""Fourier transforms as functions, by the names and arguments of the Array API's `fft` extension.

Those of two axes and the Hermitian ones of several have PyTorch's names.

    from treadle import fft
    fft.irfft(fft.rfft(x), n=x.shape[-1])    # x again, for real x
    fft.fftfreq(8, d=0.1)

Each is the `Tensor` method of the same name.
"""

from __future__ import annotations

from .tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

fft, ifft, rfft, irfft = Tensor.fft, Tensor.ifft, Tensor.rfft, Tensor.irfft
hfft, ihfft = Tensor.hfft, Tensor.ihfft
hfftn, ihfftn, hfft2, ihfft2 = Tensor.hfftn, Tensor.ihfftn, Tensor.hfft2, Tensor.ihfft2
fftn, ifftn, rfftn, irfftn = Tensor.fftn, Tensor.ifftn, Tensor.rfftn, Tensor.irfftn
fft2, ifft2, rfft2, irfft2 = Tensor.fft2, Tensor.ifft2, Tensor.rfft2, Tensor.irfft2
fftfreq, rfftfreq = Tensor.fftfreq, Tensor.rfftfreq
fftshift, ifftshift = Tensor.fftshift, Tensor.ifftshift
