"""Planes to RGB against a float64 reference, on synthetic pictures."""

import gc
import weakref

import numpy as np
import pytest

from treadle import Tensor, TinyJit, dtypes
from treadle.engine.counters import GlobalCounters
from treadle.video.colour import COLOR_SPACES, Conversion, Output, to_rgb
from treadle.video.errors import UnsupportedStream
from treadle.video.frames import NV12Plane, Picture

from .clips import reference_rgb

FLOATS = Output.of(None, True)
MATRICES = {"bt601": 6, "bt709": 1, "bt2020": 9}


def planes(height, width, depth, seed=0):
    """Y, U and V: every value that there is, also those outside of the limited range."""
    rng = np.random.default_rng(seed)
    shapes = [(height, width)] + [(-(-height // 2), -(-width // 2))] * 2
    kind = np.uint8 if depth == 8 else np.uint16
    return [rng.integers(0, 1 << depth, shape).astype(kind) for shape in shapes]


def picture(yuv, depth, pitch=160, **about):
    """The planes as a decoder's surface, NV12 or P016, with rubbish behind each row."""
    y, u, v = yuv
    kind = np.uint8 if depth == 8 else np.uint16
    surface = np.full((len(y) + len(u), pitch), 0xEE, kind)
    shift = 0 if depth == 8 else 16 - depth
    surface[: len(y), : y.shape[1]] = y << shift
    surface[len(y) :, : 2 * u.shape[1]] = np.stack([u, v], -1).reshape(len(u), -1) << shift
    address, size = surface.ctypes.data, surface.itemsize
    luma = NV12Plane(address, pitch * size, y.shape[1], len(y), 1, size)
    below = address + pitch * size * len(y)
    chroma = NV12Plane(below, pitch * size, u.shape[1], len(u), 2, size)
    return Picture(luma, chroma, depth, "CPU", owner=surface, **about)


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("depth", [8, 10, 12])
@pytest.mark.parametrize("space", COLOR_SPACES)
def test_every_matrix_range_and_depth_agrees_with_the_definition(space, depth, full_range):
    yuv = planes(32, 64, depth)
    given = picture(yuv, depth, matrix=MATRICES[space], full_range=full_range)
    expected = reference_rgb(yuv, depth, space, full_range)
    for conversion in (Conversion(space), Conversion("auto")):
        found = to_rgb(given, conversion, FLOATS).numpy()
        np.testing.assert_allclose(found, expected, atol=2e-6)


def test_conversion_is_one_kernel_that_reads_planes_in_place():
    given = picture(planes(32, 64, 8), 8)
    to_rgb(given, Conversion(), FLOATS)
    GlobalCounters.reset()
    found = to_rgb(given, Conversion(), FLOATS)
    assert GlobalCounters.kernel_count == 1
    assert found.shape == (32, 64, 3)


def test_pictures_of_one_form_are_converted_alike_and_let_go():
    yuv = planes(30, 58, 8)
    for _ in range(4):  # plainly, captured, replayed
        given = picture(yuv, 8)
        owner = weakref.ref(given.owner)
        found = to_rgb(given, Conversion(), FLOATS)
        np.testing.assert_allclose(found.numpy(), reference_rgb(yuv, 8, "bt709", False), atol=2e-6)
        del given
        gc.collect()
        assert owner() is None


def test_a_conversion_may_be_a_part_of_what_is_captured():
    given = picture(planes(32, 64, 8), 8, full_range=True)
    halved = TinyJit(lambda x: (to_rgb(given, Conversion(), FLOATS) * x).realize())
    for scale in (1.0, 0.5, 0.25, 0.125):
        expected = scale * to_rgb(given, Conversion(), FLOATS).numpy()
        np.testing.assert_allclose(halved(Tensor([scale])).numpy(), expected, atol=1e-7)


def test_every_device_converts_alike(device):
    yuv = planes(32, 64, 10)
    given = picture(yuv, 10, matrix=9, full_range=False)
    found = to_rgb(given, Conversion("auto"), FLOATS, device)
    assert found.device == device
    expected = reference_rgb(yuv, 10, "bt2020", False)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


def test_halves_and_values_that_are_not_normalised():
    yuv = planes(32, 64, 8)
    given = picture(yuv, 8, full_range=False)
    expected = reference_rgb(yuv, 8, "bt709", False)
    half = to_rgb(given, Conversion(), Output.of(dtypes.float16, True)).numpy()
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, expected, atol=5e-4)
    large = to_rgb(given, Conversion(), Output.of(dtypes.float32, False)).numpy()
    np.testing.assert_allclose(large, 255 * expected, atol=1e-3)


@pytest.mark.parametrize("size", [(31, 64), (32, 61), (33, 57), (2, 2), (1, 1)])
def test_sizes_that_end_within_a_chroma_sample(size):
    yuv = planes(*size, 8)
    found = to_rgb(picture(yuv, 8, full_range=True), Conversion(), FLOATS).numpy()
    np.testing.assert_allclose(found, reference_rgb(yuv, 8, "bt709", True), atol=2e-6)


def test_the_result_does_not_change_with_the_picture():
    given = picture(planes(32, 64, 8), 8)
    found = to_rgb(given, Conversion(), FLOATS).realize()
    before = found.numpy().copy()
    given.owner[:] = 0
    np.testing.assert_array_equal(found.numpy(), before)
    black = to_rgb(given, Conversion(), FLOATS).numpy()  # the same memory, another picture
    assert not np.array_equal(black, before)


def test_coefficients_mean_full_range_unless_the_picture_says_otherwise():
    yuv = planes(32, 64, 8)
    space = Conversion.of(COLOR_SPACES["bt709"], "auto")
    full = reference_rgb(yuv, 8, "bt709", True)
    limited = reference_rgb(yuv, 8, "bt709", False)
    cases = [(None, "auto", full), (False, "auto", limited), (True, "limited", limited),
             (False, "full", full)]  # fmt: skip
    for said, asked, expected in cases:
        conversion = space._replace(color_range=asked)
        found = to_rgb(picture(yuv, 8, full_range=said), conversion, FLOATS).numpy()
        np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_matrix_that_is_not_said_is_guessed_with_a_warning():
    conversion = Conversion("auto")
    with pytest.warns(UserWarning, match="bt601 is taken, by its 32 rows"):
        assert conversion.coefficients(picture(planes(32, 64, 8), 8)) == COLOR_SPACES["bt601"]
    tall = picture(planes(720, 2, 8), 8)
    with pytest.warns(UserWarning, match="bt709 is taken"):
        assert conversion.coefficients(tall) == COLOR_SPACES["bt709"]


def test_matrices_of_old_standards_come_from_their_luma_weights():
    found = Conversion("auto").coefficients(picture(planes(2, 2, 8), 8, matrix=4))
    np.testing.assert_allclose(found, (1.4, -0.331864, -0.711864, 1.78), atol=1e-6)


@pytest.mark.parametrize("matrix", [0, 8, 10, 14])
def test_a_matrix_that_is_no_ycbcr_is_refused_by_its_number(matrix):
    with pytest.raises(UnsupportedStream, match=f"matrix_coefficients {matrix}"):
        Conversion("auto").coefficients(picture(planes(2, 2, 8), 8, matrix=matrix))


def test_names_are_case_insensitive_and_checked():
    assert Conversion.of("BT2020", "auto").color_space == "bt2020"
    with pytest.raises(ValueError, match="bt601, bt709, bt2020, auto"):
        Conversion.of("rec709", "auto")
    with pytest.raises(ValueError, match="color_range"):
        Conversion.of("bt709", "tv")
    for wrong in ((1.0, 2.0, 3.0), [1.0, 2.0, 3.0, 4.0], (1.0, 2.0, 3.0, "4"), None, 709):
        with pytest.raises(TypeError, match="4 coefficients"):
            Conversion.of(wrong, "auto")
    with pytest.raises(ValueError, match="finite"):
        Conversion.of((1.0, 2.0, float("nan"), 4.0), "auto")


def test_types_of_results_are_checked():
    assert Output.of(None, True).dtype is dtypes.float32
    with pytest.raises(NotImplementedError, match="float32, float16, uint8"):
        Output.of(dtypes.int32, False)
    with pytest.raises(ValueError, match="normalize=False"):
        Output.of(dtypes.uint8, True)


def test_converted_frames_are_ordinary_tensors():
    found = to_rgb(picture(planes(32, 64, 8), 8), Conversion(), FLOATS).realize()
    assert isinstance(found, Tensor)
    assert found.permute(2, 0, 1).mean((1, 2)).shape == (3,)
