"""Frames of video, as decoders leave them, to RGB."""

from __future__ import annotations

from typing import Any

from ..libraries.base import NotOffered
from ..work import BANDWIDTH, Input, Work

__all__ = ["rows"]


def rows(quick: bool) -> list[Work]:
    """90 % of the bandwidth of a copy: a frame is read once and written once."""
    height, width = (64, 128) if quick else (2160, 3840)
    results = (("float32", 4), ("float16", 2), ("uint8", 1))
    return [_conversion(height, width, dtype, size) for dtype, size in results]


def _conversion(height: int, width: int, dtype: str, size: int) -> Work:
    def form(_: Any, luma: Any, chroma: Any) -> Any:
        from ...tensor import Tensor
        from ...video.colour import Conversion, Output, converted, weights_of
        from ...video.frames import NV12Plane, Picture

        if not isinstance(luma, Tensor):
            raise NotOffered("NV12 is treadle's word")
        planes = (NV12Plane(0, width, width, height, 1), NV12Plane(0, width, *half, 2))
        picture, output = Picture(*planes, 8, luma.device, None), Output.of(dtype, size > 1)
        return converted(luma, chroma, weights_of(Conversion(), picture, output), output)

    half = width // 2, height // 2
    words = (Input((rows, half[0]), "uint16", below=1 << 16) for rows in (height, height // 2))
    name, amount = f"NV12 to {dtype} RGB {width}x{height}", (1.5 + 3 * size) * width * height
    return Work("video", name, "copy", amount, tuple(words), form, (BANDWIDTH,))
