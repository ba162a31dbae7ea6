"""Fallbacks, cut streams and streams of other formats."""

from __future__ import annotations

import io
from fractions import Fraction

import numpy as np
import pytest

from treadle import Tensor
from treadle.video.cuvid import is_available
from treadle.video.decode import decode_annexb_iter, decode_annexb_to_tensors_auto
from treadle.video.errors import AnnexBParserError, BitstreamError, UnsupportedStream
from treadle.video.stream import access_units

from ..video.clips import encode

SOFTWARE = {"fallback": "software", "device": "CPU", "dtype": "uint8", "normalize": False}


@pytest.mark.skipif(is_available(), reason="there is NVDEC, so that no fallback is called")
@pytest.mark.parametrize(
    "value", [("a", "b"), ["a"], {"a"}, iter("ab"), range(3), None, np.zeros(2), Tensor([1.0])]
)
def test_3_10_a_fallbacks_value_is_passed_through_unchanged(value):
    assert decode_annexb_to_tensors_auto(b"", fallback=lambda error: value) is value


def until_an_error(data):
    shown, error = [], None
    try:
        for frame in decode_annexb_iter(data, **SOFTWARE):
            shown.append((frame.poc, frame.tensor.numpy()))
    except BitstreamError as raised:
        error = raised
    return shown, error


@pytest.mark.parametrize("groups", [250, 4])
def test_3_10_a_cut_stream_gives_the_pictures_before_the_cut_and_then_the_error(groups):
    pytest.importorskip("av")
    data = encode(64, 64, 10, hash=1, keyint=groups, min_keyint=groups, scenecut=0).data
    whole = until_an_error(data)[0]
    units = list(access_units(data))
    begins = [unit.offset for unit in units] + [len(data)]
    refused = 0
    for number in range(4, 9):
        size = begins[number + 1] - begins[number]
        for cut in range(begins[number] + size // 2, begins[number + 1] - 5, max(size // 40, 1)):
            shown, error = until_an_error(data[:cut])
            assert error is not None
            if "refuses" in str(error):
                refused += 1
                assert error.offset == begins[number]
            assert len(shown) == number
            for poc, picture in shown:
                assert any(poc == p and np.array_equal(picture, other) for p, other in whole)
    assert refused


OTHERS = {
    "an MP4 or QuickTime file": b"\0\0\0\x20ftypisom\0\0\2\0isomiso2avc1mp41\0\0\0\x08free",
    "a Matroska or WebM file": b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\1\0\0\1" + bytes(50),
    "an AVI file": b"RIFF\0\0\0\1AVI LIST" + bytes(100),
    "an MPEG program stream": b"\0\0\1\xba\x44\0\4\0" + bytes(100),
    "an IVF file": b"DKIF\0\0\x20\0AV01" + bytes(100),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("form", [bytes, io.BytesIO, lambda data: iter([data[:30], data[30:]])])
def test_3_10_files_of_other_formats_are_named(name, form):
    with pytest.raises(AnnexBParserError, match=rf"this is {name}.*`ffmpeg -i FILE .*out\.hevc`"):
        list(decode_annexb_iter(form(OTHERS[name]), **SOFTWARE))


@pytest.mark.parametrize("chunk_size", [1, 7, 65536])
@pytest.mark.parametrize("delimiter", [b"", b"\0\0\0\1\x09\xf0"])
def test_3_10_a_stream_of_h264_is_named(chunk_size, delimiter):
    stream = delimiter + b"\0\0\0\1\x67\x64\0\x1f\xac\xd9\x40" + b"\0\0\0\1\x68\xeb\xe3\xcb"
    stream += b"\0\0\0\1\x65\x88" + bytes(range(1, 200)) * 3
    source = io.BytesIO(stream)
    with pytest.raises(UnsupportedStream, match=r"H\.264 \(AVC\), and HEVC.*libx265"):
        list(decode_annexb_iter(source, chunk_size=chunk_size, **SOFTWARE))


def test_3_10_a_real_stream_of_h264_is_named():
    av = pytest.importorskip("av")
    try:
        encoder = av.CodecContext.create("libx264", "w")
    except ValueError:
        pytest.skip("this PyAV has no encoder of H.264")
    encoder.width = encoder.height = 64
    encoder.pix_fmt, encoder.time_base = "yuv420p", Fraction(1, 25)
    frame = av.VideoFrame(64, 64, "yuv420p")
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    stream = b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])
    with pytest.raises(UnsupportedStream, match=r"H\.264"):
        list(decode_annexb_iter(stream, **SOFTWARE))
