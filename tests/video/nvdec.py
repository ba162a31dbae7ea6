"""What tests of NVVideoDecoder share: decoders over a library in memory, and what they show."""

from __future__ import annotations

import numpy as np

from treadle.video.cuvid import CuvidLibrary
from treadle.video.decoder import NVVideoDecoder

from .clips import reference_rgb

__all__ = ["assert_shows", "opened"]


def opened(driver, **options):
    """A decoder whose surfaces are in host memory."""
    return NVVideoDecoder(cuvid=CuvidLibrary(driver), device="CPU", **options)


def assert_shows(tensors, clip, first=0):
    frames = clip.frames[first:]
    assert len(tensors) == len(frames)
    for tensor, planes in zip(tensors, frames, strict=True):
        expected = reference_rgb(planes, clip.depth, "bt709", clip.full_range)
        np.testing.assert_allclose(tensor.numpy(), expected, atol=2e-6)
