"""Spectra of short pieces of a signal, and signals from these.

    x.stft(512, window=windows.hann(512, sym=False))     (.., n) -> (.., 257, pieces), complex
    spectrum.istft(512, window=..)                       and back

With the names and arguments of PyTorch, but for results as pairs of reals: they are complex.
"""

from __future__ import annotations

import math
from typing import Self

from ...dtype import complex_of
from ...errors import DTypeError, ShapeError
from ..basis import Basis
from ..sliding_windows import unwindows
from .dft import dft, dft_to_real, real_dft

__all__ = ["Spectrograms"]


class Spectrograms(Basis):
    """Short-time Fourier transforms on top of windows and `rfft`."""

    __slots__ = ()

    def stft(
        self, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
        window: Self | None = None, center: bool = True, pad_mode: str = "reflect",
        normalized: bool = False, onesided: bool | None = None,
    ) -> Self:  # fmt: skip
        """Fourier transforms of pieces of `n_fft` elements: (.., n) to (.., frequencies, pieces).

        Pieces begin `hop_length` apart (None: a fourth of `n_fft`) and are multiplied by `window`
        of `win_length` elements, in their middle (None: ones). `center` puts the middle of the
        first piece on the first element, padded as `pad_mode` says. `normalized` divides by
        sqrt(n_fft). `onesided`: only frequencies from 0 on, of real signals unless told otherwise.
        Floats or complex numbers give complex ones. Raises ShapeError, DTypeError.
        """
        hop, shape = (
            _steps("stft", n_fft, hop_length),
            self._around_window("stft", n_fft, win_length, window),
        )
        if not self.dtype.is_inexact or self.ndim not in (1, 2):
            raise DTypeError(
                f"[stft] takes signals (n,) or (batch, n) of floats or complex numbers, not "
                f"{self.dtype.name} of shape {self.shape}"
            )
        half = self.dtype.is_float if onesided is None else onesided
        if half and self.dtype.is_complex:
            raise DTypeError("[stft] a complex signal has no onesided spectrum")
        x = self.pad((n_fft // 2, n_fft // 2), mode=pad_mode) if center else self
        if x.shape[-1] < n_fft:
            raise ShapeError(f"[stft] a signal of {x.shape[-1]} elements has no piece of {n_fft}")
        pieces = x.unfold(-1, n_fft, hop)
        pieces = pieces if shape is None else pieces.mul(shape)
        wide = pieces._float()
        spectra = real_dft(wide) if half else dft(wide.cast(complex_of(wide.dtype)), inverse=False)
        spectra = spectra.mul(1 / math.sqrt(n_fft)) if normalized else spectra
        return spectra.transpose(-1, -2)

    def istft(
        self, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
        window: Self | None = None, center: bool = True, normalized: bool = False,
        onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
    ) -> Self:  # fmt: skip
        """The signal whose `stft` with these arguments this tensor is: (.., frequencies, pieces).

        Pieces are multiplied by the window again, added up, and divided by the sum of its squares;
        where that is 0 the signal is. `length` cuts or pads it with zeros. `onesided` None: unless
        there are `n_fft` frequencies. (.., length) floats of complex numbers; `return_complex`: a
        complex signal, of all frequencies. Raises ShapeError, DTypeError.
        """
        hop, shape = (
            _steps("istft", n_fft, hop_length),
            self._around_window("istft", n_fft, win_length, window),
        )
        half = self.ndim > 1 and self.shape[-2] != n_fft if onesided is None else onesided
        if half and return_complex:
            raise DTypeError("[istft] a complex signal has no onesided spectrum")
        wanted = n_fft // 2 + 1 if half else n_fft
        if not self.dtype.is_complex or self.ndim not in (2, 3) or self.shape[-2] != wanted:
            raise ShapeError(
                f"[istft] takes complex spectra (.., {wanted}, pieces), not {self.dtype.name} of "
                f"shape {self.shape}"
            )
        turned = self.transpose(-1, -2)
        turned = turned.mul(math.sqrt(n_fft)) if normalized else turned
        turned = turned.mul(1 / n_fft)
        pieces = dft_to_real(turned, n_fft) if half else dft(turned, inverse=True)
        pieces = pieces if return_complex else pieces.real if pieces.dtype.is_complex else pieces
        weights = self._ones(n_fft)
        weights = weights if shape is None else shape
        signal = unwindows(pieces.mul(weights), (n_fft,), hop, 1, 0)
        squares = weights.square().expand((self.shape[-1], n_fft))
        squares = unwindows(squares, (n_fft,), hop, 1, 0)
        there = squares.abs().gt(1e-11)
        signal = there.where(signal.div(there.where(squares, 1)), 0)
        begin = n_fft // 2 if center else 0
        end = signal.shape[-1] - begin if length is None else begin + length
        short = max(end - signal.shape[-1], 0)
        signal = signal._padded([*((0, 0),) * (signal.ndim - 1), (0, short)]) if short else signal
        return signal._slice(signal.ndim - 1, begin, max(end, begin))

    def _ones(self, size: int) -> Self:
        return type(self).full((size,), 1.0, self.device, self.dtype.real)

    def _around_window(
        self, name: str, n_fft: int, length: int | None, window: Self | None
    ) -> Self | None:
        """The window with zeros around it, `n_fft` long; None if it is of ones all over."""
        size = n_fft if length is None else length
        if not 0 < size <= n_fft or (window is not None and window.shape != (size,)):
            raise ShapeError(
                f"[{name}] a window of {size} elements, at most n_fft={n_fft}, is wanted"
                + ("" if window is None else f", not one of shape {window.shape}")
            )
        if window is None:
            if size == n_fft:
                return None
            window = self._ones(size)
        left = (n_fft - size) // 2
        return window._padded([(left, n_fft - size - left)])


def _steps(name: str, n_fft: int, hop: int | None) -> int:
    steps = n_fft // 4 if hop is None else hop
    if n_fft < 1 or steps < 1:
        raise ShapeError(f"[{name}] n_fft and hop_length are at least 1, not {n_fft} and {steps}")
    return steps
