"""Fourier transforms, and spectra of short pieces."""

from __future__ import annotations

from .spectrograms import Spectrograms
from .transforms import Transforms

__all__ = ["Fourier"]


class Fourier(Spectrograms, Transforms):
    """Fourier transforms, and spectra of short pieces."""

    __slots__ = ()
