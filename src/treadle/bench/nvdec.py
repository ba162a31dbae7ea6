"""Rows about NVDEC, where there is one: how much quicker NVIDIA's own package decodes.

video, NVDEC over PyNvVideoCodec         frames that are decoded and given back
video, NVDEC to RGB over PyNvVideoCodec  the same here with every frame converted to uint8 RGB

Both need PyNvVideoCodec, and PyAV to make the stream, which both decode in turn in one process.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import statistics
import tempfile
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from av import Packet

    from ..video.decoder import NVVideoDecoder

from .process import Overhead
from .timing import timed

__all__ = ["nvdec_overheads"]

WIDTH, HEIGHT, FRAMES, RUNS = 1920, 1080, 600, 7
BAR = 1 / 0.9  # seconds of ours over theirs


def nvdec_overheads(quick: bool) -> list[Overhead]:
    """Both rows; none without NVDEC or one of the packages."""
    from ..video.cuvid import is_available

    needed = ("PyNvVideoCodec", "av")
    if not is_available() or not all(map(importlib.util.find_spec, needed)):
        return []
    count = 60 if quick else FRAMES
    return [
        Overhead("video, NVDEC over PyNvVideoCodec", "x", BAR, lambda: _ratio(count, _ours)),
        Overhead("video, NVDEC to RGB over PyNvVideoCodec", "x", BAR, lambda: _ratio(count, _rgb)),
    ]


def _ratio(count: int, ours: Callable[[bytes], int]) -> float:
    data = _stream(count)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "clip.hevc")
        with open(path, "wb") as file:
            file.write(data)
        runs = {"ours": lambda: ours(data), "theirs": lambda: _theirs(path)}
        decoded = {name: run() for name, run in runs.items()}  # a warm-up, too
        if set(decoded.values()) != {count}:
            raise RuntimeError(f"of {count} frames were decoded: {decoded}")
        pairs = [(timed(runs["ours"]), timed(runs["theirs"])) for _ in range(RUNS)]
    return statistics.median(mine / other for mine, other in pairs)


def _ours(data: bytes) -> int:
    """Frames that are decoded, mapped and given back."""
    from ..video.annexb import iter_annexb_nalus, with_annexb_start_code
    from ..video.decoder import NVVideoDecoder

    count = 0
    with NVVideoDecoder() as decoder:
        for number, nalu in enumerate(iter_annexb_nalus(data)):
            decoder.feed_packet(with_annexb_start_code(nalu), timestamp=number)
            count += _given_back(decoder)
        decoder.feed_end_of_stream()
        return count + _given_back(decoder)


def _given_back(decoder: NVVideoDecoder) -> int:
    count = 0
    for frame in decoder.drain_frames():
        frame.release()
        count += 1
    return count


def _rgb(data: bytes) -> int:
    from ..dtype import dtypes
    from ..video.decode import decode_annexb_iter

    frames = decode_annexb_iter(data, dtype=dtypes.uint8, normalize=False)
    return sum(1 for _ in frames)


def _theirs(path: str) -> int:
    codec = importlib.import_module("PyNvVideoCodec")
    demuxer = codec.CreateDemuxer(filename=path)
    decoder = codec.CreateDecoder(
        gpuid=0, codec=demuxer.GetNvCodecId(), cudacontext=0, cudastream=0, usedevicememory=True
    )
    return sum(1 for packet in demuxer for _ in decoder.Decode(packet))


def _stream(count: int) -> bytes:
    """A picture that moves, with B-frames and the rate of a film."""
    av = importlib.import_module("av")
    encoder = av.CodecContext.create("libx265", "w")
    encoder.width, encoder.height, encoder.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    encoder.time_base, encoder.framerate = Fraction(1, 25), Fraction(25)
    encoder.options = {
        "preset": "ultrafast",
        "x265-params": "log-level=none:bframes=2:bitrate=8000",
    }
    coarse = np.random.default_rng(0).integers(16, 236, (HEIGHT // 8 + 1, WIDTH // 8), np.uint8)
    picture = np.kron(coarse, np.ones((8, 8), np.uint8))[: HEIGHT * 3 // 2, :WIDTH]
    frame = np.full((HEIGHT * 3 // 2, WIDTH), 128, np.uint8)
    packets: list[Packet] = []
    for number in range(count):
        frame[:HEIGHT] = np.roll(picture[:HEIGHT], 2 * number, axis=1)
        given = av.VideoFrame.from_ndarray(frame, format="yuv420p")
        given.pts = number
        packets += encoder.encode(given)
    return b"".join(map(bytes, [*packets, *encoder.encode(None)]))
