"""Frames of video, as decoders leave them, to RGB."""

from __future__ import annotations

from typing import Any

from ..work import BANDWIDTH, Input, Work

__all__ = ["rows"]


def rows(quick: bool) -> list[Work]:
    """90 % of the bandwidth of a copy: a frame is read once and written once."""
    height, width = (64, 128) if quick else (2160, 3840)
    results = (("float32", 4), ("float16", 2), ("uint8", 1))
    return [_conversion(height, width, dtype, size) for dtype, size in results]


def _conversion(height: int, width: int, dtype: str, size: int) -> Work:
    def form(lib: Any, luma: Any, chroma: Any) -> Any:
        return lib.rgb_of_nv12(luma, chroma, dtype)

    half = width // 2, height // 2
    # As decoders' surfaces are read: a word holds two neighbouring bytes.
    words = (Input((rows, half[0]), "uint16", below=1 << 16) for rows in (height, height // 2))
    name, amount = f"NV12 to {dtype} RGB {width}x{height}", (1.5 + 3 * size) * width * height
    return Work("video", name, "copy", amount, tuple(words), form, (BANDWIDTH,))
