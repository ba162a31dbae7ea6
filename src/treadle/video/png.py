"""PNG files of frames, by FFmpeg's encoder."""

from __future__ import annotations

import importlib
from fractions import Fraction
from typing import Any

import numpy as np

from .errors import DecoderUnavailable

__all__ = ["PNGEncoder"]


class PNGEncoder:
    """Makes PNG files of (height, width, 3) arrays of uint8.

    Raises DecoderUnavailable where PyAV is missing.
    """

    def __init__(self) -> None:
        try:
            self._av = importlib.import_module("av")
        except ImportError as error:
            raise DecoderUnavailable(
                f"PNG files are written by PyAV, which cannot be imported ({error}); "
                "run: pip install 'treadle[video]'"
            ) from None
        self._context: Any = None

    def encode(self, pixels: np.ndarray[Any, Any]) -> bytes:
        """The bytes of a file."""
        height, width, _ = pixels.shape
        context = self._context
        if context is None or (context.width, context.height) != (width, height):
            context = self._context = self._av.CodecContext.create("png", "w")
            context.width, context.height, context.pix_fmt = width, height, "rgb24"
            context.time_base, context.thread_count = Fraction(1, 25), 1
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
        return b"".join(bytes(packet) for packet in context.encode(frame))
