"""NVDEC itself, where there is one: its frames are those of the software decoder."""

import numpy as np
import pytest

pytest.importorskip("av")

from treadle import Device, dtypes
from treadle.errors import DeviceError
from treadle.runtime.cuvid import decode_annexb_to_tensors_auto, is_available
from treadle.video.colour import Conversion, Output, to_rgb
from treadle.video.software import decode_pictures
from treadle.video.stream import access_units

from .clips import encode


def has_nvdec():
    try:
        return is_available() and not Device["CUDA"].runtime.is_software
    except DeviceError:
        return False


pytestmark = pytest.mark.skipif(not has_nvdec(), reason="there is no NVDEC here")


@pytest.mark.parametrize("depth", [8, 10])
@pytest.mark.parametrize("size", [(256, 144), (322, 182)])
def test_frames_are_those_of_the_software_decoder(size, depth):
    clip = encode(*size, count=24, depth=depth, matrix="bt2020", full_range=True)
    conversion, output = Conversion("auto"), Output.of(dtypes.uint8, False)
    expected = [
        to_rgb(picture, conversion, output).numpy()
        for _, picture in decode_pictures(access_units(clip.data))
    ]
    found = decode_annexb_to_tensors_auto(
        clip.data * 2, dtype=dtypes.uint8, normalize=False, color_space="auto"
    )
    assert len(found) == 2 * len(expected)
    for (_, tensor), pixels in zip(found, expected * 2, strict=True):
        np.testing.assert_allclose(tensor.numpy().astype(int), pixels, atol=2)


def test_the_resolution_may_change_in_mid_stream():
    first, second = encode(256, 144), encode(322, 182)
    frames = decode_annexb_to_tensors_auto(first.data + second.data, include_timestamps=False)
    assert [frame.shape[0] for frame in frames] == [144] * 8 + [182] * 8
