"""Convolutions as networks have them, at sizes that need not be even, and their gradients."""

from __future__ import annotations

from ..rows.conv import Conv, rows_of
from ..work import Work
from .draw import Draw

__all__ = ["draw"]

CHANNELS = (3, 16, 24, 32, 40, 64, 80, 96, 128, 160, 192, 256)


def draw(draw: Draw) -> Work:
    channels, out = draw.one_of(*CHANNELS), draw.one_of(*CHANNELS[1:])
    groups = draw.one_of(1, 1, 1, 2, 4, channels)
    if groups == channels:
        out = channels
    elif channels % groups or out % groups:
        groups = 1
    kernel = draw.one_of(1, 3, 3, 3, 5, 7)
    stride, dilation = draw.one_of(1, 1, 2), draw.one_of(1, 1, 1, 2) if kernel > 1 else 1
    kinds = {
        f"stride {stride}": stride > 1,
        "dilated": dilation > 1,
        "depthwise": groups == channels,
        f"in {groups} groups": 1 < groups < channels,
    }
    name = " ".join([f"{kernel}x{kernel}", *(kind for kind, holds in kinds.items() if holds)])
    size, batch = draw.size(7, 130), draw.one_of(1, 1, 2, 4, 8, 16)
    conv = Conv(name, channels, out, size, kernel, batch, stride, dilation, groups)
    return draw.one_of(*rows_of(conv))
