"""What can go wrong with a video. All are `UserError`s: the stream or the machine is at fault.

VideoError
├── BitstreamError           the bytes are no sound HEVC stream (also a ValueError)
│   └── AnnexBParserError    start codes or the header of a NAL unit are wrong
├── UnsupportedStream        a sound stream that the decoder has no means for (also a ValueError)
├── DecoderUnavailable       the decoder's library is missing (also a RuntimeError)
│   └── CuvidUnavailable     libnvcuvid, or a GPU for it: see cuvid.py
└── CuvidError               a call of libnvcuvid failed (also a RuntimeError): see cuvid.py
"""

from __future__ import annotations

from ..errors import UserError

__all__ = [
    "AnnexBParserError",
    "BitstreamError",
    "DecoderUnavailable",
    "UnsupportedStream",
    "VideoError",
]


class VideoError(UserError):
    """A video cannot be read or decoded."""


class BitstreamError(VideoError, ValueError):
    """The stream breaks a rule of H.265.

    `offset` is the byte of the stream where that shows, and `nal_type` the type of the NAL unit
    that holds it; either is None where it is not known.
    """

    offset: int | None
    nal_type: int | None

    def __init__(
        self, message: str, *, offset: int | None = None, nal_type: int | None = None
    ) -> None:
        super().__init__(message if offset is None else f"{message} (at byte {offset})")
        self.offset, self.nal_type = offset, nal_type


class AnnexBParserError(BitstreamError):
    """Start codes or the header of a NAL unit are wrong."""


class UnsupportedStream(VideoError, ValueError):
    """The stream is sound, but its profile, chroma format, bit depth or size cannot be decoded."""


class DecoderUnavailable(VideoError, RuntimeError):
    """A decoder cannot be used, because what it needs is not installed."""
