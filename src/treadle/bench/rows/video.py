"""Frames of video, as decoders leave them, to RGB.

A film is a new picture and a new result for each frame, more of them than the caches hold, so that
all comes from memory and goes there, as when a stream is decoded. The rows of one frame alone, the
same memory again and again, show what a picture costs that a cache holds.
"""

from __future__ import annotations

from dataclasses import replace

from ...target import host_target
from ..libraries.base import Library
from ..work import BANDWIDTH, Array, Input, Work

__all__ = ["rows"]

STREAM = 4  # times the last-level cache: the least that the STREAM benchmark takes for memory


def rows(quick: bool) -> list[Work]:
    """90 % of the bandwidth of a copy: a frame is read once and written once.

    What is stored once, or as often as a conversion stores a value, with nothing computed, has no
    bar: it is what treadle's own copies get, and memory gives for so many writes to each read.
    """
    height, width = (64, 128) if quick else (2160, 3840)
    results = (("float32", 4), ("float16", 2), ("uint8", 1))
    films = [_film(height, width, dtype, size, quick) for dtype, size in results]
    return [
        *films,
        _repeated(films[-1], 1),
        *(_repeated(film, 2 * size) for film, (_, size) in zip(films, results, strict=True)),
        *(_conversion(height, width, dtype, size) for dtype, size in results),
    ]


def _film(height: int, width: int, dtype: str, size: int, quick: bool) -> Work:
    work = _conversion(height, width, dtype, size)
    count = 2 if quick else -(-STREAM * host_target().l3 // int(work.amount)) + 1
    return replace(work, name=f"film: {work.name}", film=count)


def _repeated(film: Work, times: int) -> Work:
    """The bytes of a film's pictures, each line of 64 stored so many times."""
    picture = Input((int(film.amount) // (1 + times) // 64, 1, 16), "float32")

    def form(lib: Library[Array], lines: Array) -> Array:
        return lib.repeated(lines, times)

    how = "copied" if times == 1 else f"stored {times} times"
    name = f"film: {film.amount / (1 + times) * 1e-6:.1f} MB {how}"
    return replace(film, name=name, inputs=(picture,), form=form, bars=())


def _conversion(height: int, width: int, dtype: str, size: int) -> Work:
    def form(lib: Library[Array], luma: Array, chroma: Array) -> Array:
        return lib.rgb_of_nv12(luma, chroma, dtype)

    half = width // 2, height // 2
    # As decoders' surfaces are read: a word holds two neighbouring bytes.
    words = (Input((rows, half[0]), "uint16", below=1 << 16) for rows in (height, height // 2))
    name, amount = f"NV12 to {dtype} RGB {width}x{height}", (1.5 + 3 * size) * width * height
    return Work("video", name, "copy", amount, tuple(words), form, (BANDWIDTH,))
