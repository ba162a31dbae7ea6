"""PNG files of frames, by FFmpeg's encoder, which works on several at once."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .errors import DecoderUnavailable, VideoError

if TYPE_CHECKING:
    from types import ModuleType

    from av import VideoCodecContext

__all__ = ["png_files"]

# A sixth of the default's time, for files that are a tenth to a quarter larger.
_OPTIONS = {"compression_level": "1"}


def png_files(images: Iterable[np.ndarray]) -> Iterator[bytes]:
    """The bytes of a file for each (height, width, 3) array of uint8, in order.

    Where `images` ends in a VideoError, the files of those before it come first. Raises
    DecoderUnavailable at once where PyAV is missing.
    """
    try:
        av = importlib.import_module("av")
    except ImportError as error:
        raise DecoderUnavailable(
            f"PNG files are written by PyAV, which cannot be imported ({error}); "
            "run: pip install 'treadle[video]'"
        ) from None
    return _files(av, images)


def _files(av: ModuleType, images: Iterable[np.ndarray]) -> Iterator[bytes]:
    encoder: VideoCodecContext | None = None
    try:
        for image in images:
            height, width, _ = image.shape
            if encoder is None or (encoder.width, encoder.height) != (width, height):
                yield from _rest(encoder)
                encoder = _encoder(av, width, height)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            yield from map(bytes, encoder.encode(frame))
    except VideoError:
        yield from _rest(encoder)
        raise
    yield from _rest(encoder)


def _encoder(av: ModuleType, width: int, height: int) -> VideoCodecContext:
    encoder = av.CodecContext.create("png", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "rgb24"
    encoder.time_base, encoder.options = Fraction(1, 25), _OPTIONS
    encoder.thread_type, encoder.thread_count = "FRAME", 0
    return encoder


def _rest(encoder: VideoCodecContext | None) -> Iterator[bytes]:
    """What an encoder still works on."""
    return iter(()) if encoder is None else map(bytes, encoder.encode(None))
