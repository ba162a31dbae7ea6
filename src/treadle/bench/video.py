"""Rows about video: seconds to read a gigabyte of an HEVC stream, by one core, without decoding.

video, units of 1 GB        cut at start codes
video, pictures of 1 GB     headers read, too: sizes, order, types
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ..video.annexb import iter_annexb_nalus, with_annexb_start_code
from ..video.stream import access_units
from .process import Overhead
from .timing import timed

__all__ = ["video_overheads"]

PICTURE = 32_768  # bytes: a second of 30 pictures is 8 Mbit, what 1080p is often sent at
RUNS = 7
# The parameter sets of 64 x 64 samples, and how an IDR picture and a P picture begin.
HEADERS = (
    "40010c01ffff01600000030090000003000003001e913024",
    "42010101600000030090000003000003001ea02081059644d6f0b9a02000000300200000030321",
    "4401c073c109",
)
FIRST, OTHERS = "2801ac727a0f", "0201d0115620e447"


def video_overheads(quick: bool) -> list[Overhead]:
    """Both rows."""
    size = 1 << 22 if quick else 1 << 26
    return [
        Overhead("video, units of 1 GB", "s", 1.0, _reading(iter_annexb_nalus, size)),
        Overhead("video, pictures of 1 GB", "s", 1.0, _reading(access_units, size)),
    ]


def _reading(read: Callable[[bytes], Iterable[object]], size: int) -> Callable[[], float]:
    def measure() -> float:
        data = _stream(size)
        return min(timed(lambda: sum(1 for _ in read(data))) for _ in range(RUNS)) * 1e9 / len(data)

    return measure


def _stream(size: int) -> bytes:
    """About `size` bytes of pictures whose slices hold noise."""
    noise = np.random.default_rng(0).integers(1, 256, PICTURE, np.uint8).tobytes()
    units = [*map(bytes.fromhex, HEADERS), bytes.fromhex(FIRST) + noise]
    units += [bytes.fromhex(OTHERS) + noise] * (size // PICTURE)
    return b"".join(map(with_annexb_start_code, units))
