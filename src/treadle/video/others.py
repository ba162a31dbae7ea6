"""What a stream is that is no HEVC in Annex B, by its first bytes, and how to make one of it.

what_else(b"DKIF...")  ->  "this is an IVF file, ...: `ffmpeg -i FILE ...` encodes it anew"
"""

from __future__ import annotations

import re

__all__ = ["H264", "HEAD_BYTES", "is_h264", "what_else"]

HEAD_BYTES = 64  # as many are looked at

_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"styp", b"skip", b"pnot")
_BEGINNINGS = {
    b"\x1a\x45\xdf\xa3": "a Matroska or WebM file", b"FLV\x01": "an FLV file",
    b"DKIF": "an IVF file, which holds VP8, VP9 or AV1", b"OggS": "an Ogg file",
    b"YUV4MPEG2": "uncompressed video (Y4M)", b"\x00\x00\x01\xba": "an MPEG program stream",
    b"\x00\x00\x01\xb3": "an MPEG-2 video stream", b"\xff\xd8\xff": "a JPEG picture",
    b"\x89PNG": "a PNG picture", b"GIF8": "a GIF picture",
}  # fmt: skip
_PROFILES = bytes([44, 66, 77, 83, 86, 88, 100, 110, 118, 122, 128, 138, 144, 244])
# The parameter sets of a sequence in H.264: a header of one byte, then the profile. As a header of
# H.265 these bytes name a layer above 0 or a type that is reserved, with which no stream begins.
_H264 = re.compile(rb"\x00\x00\x01[\x07\x27\x47\x67][" + re.escape(_PROFILES) + rb"]")
_H264_DELIMITER = re.compile(rb"\x00\x00\x01\x09[\x10\x30\x50\x70\x90\xb0\xd0\xf0]\x00")
_COPY = "`ffmpeg -i FILE -map 0:v -c copy -bsf:v hevc_mp4toannexb out.hevc` takes HEVC out of it"
_ENCODE = "`ffmpeg -i FILE -map 0:v -c:v libx265 out.hevc` encodes it anew"
H264 = f"this is a stream of H.264 (AVC), and HEVC (H.265) is decoded: {_ENCODE}"


def what_else(head: bytes) -> str | None:
    """What a file is that begins with `head`, and what to do; None if nothing else is known."""
    for beginning, name in _BEGINNINGS.items():
        if head.startswith(beginning):
            return f"this is {name}, not a stream of HEVC: {_advice(name)}"
    if head[4:8] in _BOXES:
        return f"this is an MP4 or QuickTime file, not a stream of HEVC in Annex B: {_COPY}"
    if head.startswith(b"RIFF") and head[8:12] == b"AVI ":
        return f"this is an AVI file, not a stream of HEVC: {_COPY}"
    return None


def _advice(name: str) -> str:
    return _COPY if name.endswith(("WebM file", "FLV file", "program stream")) else _ENCODE


def is_h264(head: bytes) -> bool:
    """Whether a stream that begins with `head` is H.264 in Annex B."""
    return bool(_H264.search(head) or _H264_DELIMITER.search(head))
