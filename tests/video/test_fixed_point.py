"""Bytes of RGB in fixed point, compared with the reals: every sample that there is."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.video.colour import COLOR_SPACES, Conversion, Output, to_rgb, weights_of
from treadle.video.fixed_point import FixedPoint

from .clips import reference_rgb
from .test_colour import picture, planes

BYTES = Output.of(dtypes.uint8, False)
WITHIN = 0.6  # of what the reals give, in steps of 8 bits; rounding alone is 0.5
SIDE = 4096  # rows and columns: as many pixels as there are triples


def every_triple():
    """Each of the 2^24 triples of Y, U and V is one pixel's."""
    block = np.arange(SIDE * SIDE // 4, dtype=np.uint32).reshape(SIDE // 2, SIDE // 2)
    u, v = (block >> 14).astype(np.uint8), (block >> 6).astype(np.uint8)
    y = np.empty((SIDE, SIDE), np.uint8)
    for number in range(4):
        y[number // 2 :: 2, number % 2 :: 2] = 4 * block + number
    return y, u, v


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("space", COLOR_SPACES)
def test_every_triple_is_within_a_step_of_the_exact_one(space, full_range):
    yuv = every_triple()
    seen = (yuv[0].astype(np.uint32) << 16) | np.kron(
        (yuv[1].astype(np.uint32) << 8) | yuv[2], np.ones((2, 2), np.uint32)
    )
    assert np.bincount(seen.reshape(-1), minlength=1 << 24).all()
    given = picture(yuv, 8, pitch=SIDE, full_range=full_range)
    found = to_rgb(given, Conversion(space), BYTES).numpy()
    for rows in range(0, SIDE, 256):  # in pieces: float64 takes its room
        part = (yuv[0][rows : rows + 256], *(c[rows // 2 : rows // 2 + 128] for c in yuv[1:]))
        expected = 255 * reference_rgb(part, 8, space, full_range)
        assert np.abs(found[rows : rows + 256] - expected).max() < WITHIN


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("depth", [9, 10, 12])
def test_deeper_samples_are_rounded_as_well(depth, full_range, device):
    yuv = planes(64, 64, depth)
    given = picture(yuv, depth, full_range=full_range)
    found = to_rgb(given, Conversion("bt2020"), BYTES, device).numpy()
    expected = 255 * reference_rgb(yuv, depth, "bt2020", full_range)
    assert np.abs(found - expected).max() < WITHIN


@pytest.mark.parametrize("space", COLOR_SPACES)
def test_every_device_makes_the_same_bytes(space, device):
    yuv = planes(34, 66, 8)
    given = picture(yuv, 8)
    found = to_rgb(given, Conversion(space), BYTES, device).numpy()
    np.testing.assert_array_equal(found, to_rgb(given, Conversion(space), BYTES).numpy())
    assert np.abs(found - 255 * reference_rgb(yuv, 8, space, False)).max() < WITHIN


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("depth", [8, 10, 12])
@pytest.mark.parametrize("space", COLOR_SPACES)
def test_greys_have_three_equal_channels(space, depth, full_range):
    grey = np.arange(1 << depth).reshape(2, -1).astype(np.uint8 if depth == 8 else np.uint16)
    chroma = np.full((1, grey.shape[1] // 2), 1 << (depth - 1), grey.dtype)
    given = picture((grey, chroma, chroma), depth, pitch=1 << depth, full_range=full_range)
    found = to_rgb(given, Conversion(space), BYTES).numpy()
    np.testing.assert_array_equal(found, found[..., :1].repeat(3, -1))


def test_coefficients_that_are_too_large_for_16_bits_are_computed_in_floats():
    yuv = planes(32, 64, 8)
    given = picture(yuv, 8)
    conversion = Conversion.of((9.0, -4.0, -5.0, 7.0), "full")
    assert FixedPoint.of(weights_of(conversion, given, BYTES), 8) is None
    y, u, v = (np.float64(plane) for plane in yuv)
    u, v = (np.kron(plane - 128, np.ones((2, 2))) for plane in (u, v))
    expected = np.stack([y + 9 * v, y - 4 * u - 5 * v, y + 7 * u], -1).clip(0, 255)
    found = to_rgb(given, conversion, BYTES).numpy()
    assert np.abs(found - expected).max() < 0.501


def test_a_matrix_of_zeros_is_grey():
    yuv = planes(32, 64, 8)
    conversion = Conversion.of((0.0, 0.0, 0.0, 0.0), "full")
    found = to_rgb(picture(yuv, 8), conversion, BYTES).numpy()
    np.testing.assert_array_equal(found, np.stack([yuv[0]] * 3, -1))
