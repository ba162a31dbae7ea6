"""Interpolation and adaptive pooling against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import ShapeError

from .oracle import compare, compare_twice

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(41)
NAMES = {
    "linear": ("linear", "bilinear", "trilinear"), "cubic": (None, "bicubic", None),
    "nearest": ("nearest",) * 3, "nearest-exact": ("nearest-exact",) * 3, "area": ("area",) * 3,
}  # fmt: skip


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def theirs(mode, rank, size, corners):
    name = NAMES[mode][rank - 1]
    extra = {"align_corners": corners} if mode in ("linear", "cubic") else {}
    return lambda x: F.interpolate(x, size, mode=name, **extra)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", NAMES)
@pytest.mark.parametrize("size", [(9, 11), (3, 2), (10, 7), (1, 14), (5, 7)])
def test_images_are_resized_as_by_pytorch(device, mode, size, corners):
    if corners and mode not in ("linear", "cubic"):
        pytest.skip("align_corners means nothing here")
    compare(device, lambda x: x.interpolate(size, mode, corners), theirs(mode, 2, size, corners),
            normal(2, 3, 5, 7), rtol=1e-4, atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("mode", ["linear", "nearest", "area"])
def test_signals_and_volumes_are_resized_too(device, mode):
    compare(device, lambda x: x.interpolate(9, mode), theirs(mode, 1, 9, False), normal(2, 3, 4),
            rtol=1e-4, atol=1e-5)  # fmt: skip
    size = (3, 6, 2)
    compare(device, lambda x: x.interpolate(size, mode), theirs(mode, 3, size, False),
            normal(1, 2, 4, 3, 5), rtol=1e-4, atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.7])
def test_a_scale_factor_counts_as_in_pytorch(factor):
    for mode in ("nearest", "bilinear"):
        compare("CPU", lambda x, m=mode: x.interpolate(mode=m, scale_factor=factor),
                lambda x, m=mode: F.interpolate(x, scale_factor=factor, mode=m),
                normal(1, 2, 6, 5), rtol=1e-4, atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("corners", [False, True])
def test_images_of_float64_have_weights_of_float64(mode, corners):
    x = normal(1, 2, 4, 5).astype(np.float64)
    found = Tensor(x).interpolate((6, 9), mode, corners).numpy()
    right = F.interpolate(torch.tensor(x), (6, 9), mode=mode, align_corners=corners)
    np.testing.assert_allclose(found, right.numpy(), 1e-12, 1e-12)


def test_a_resized_image_has_second_derivatives():
    compare_twice(lambda x: x.interpolate((6, 9), "bicubic").square(),
                  lambda x: F.interpolate(x, (6, 9), mode="bicubic").square(),
                  normal(1, 2, 4, 5).astype(np.float64))  # fmt: skip


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (4, 5), (None, 3)])
def test_adaptive_pooling_matches_pytorch(device, size):
    x = normal(2, 3, 7, 5)
    compare(device, lambda x: x.adaptive_avg_pool2d(size), lambda x: F.adaptive_avg_pool2d(x, size),
            x, rtol=1e-4)  # fmt: skip
    compare(device, lambda x: x.adaptive_max_pool2d(size), lambda x: F.adaptive_max_pool2d(x, size),
            x)  # fmt: skip


@pytest.mark.parametrize("size", [(3, 2), (7, 1), (None, 3)])
def test_adaptive_maxima_know_their_places(size):
    x = RNG.integers(0, 3, (2, 3, 7, 5)).astype(np.float32)  # of equals the first
    x[0, 0, 1, 2] = np.nan
    ours = Tensor(x).adaptive_max_pool2d(size, return_indices=True)
    theirs = F.adaptive_max_pool2d(torch.tensor(x), size, return_indices=True)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    ("size", "options", "word"),
    [
        ((2, 2), {"mode": "spline"}, "mode 'spline'"), (None, {}, "size or scale_factor"),
        ((2, 2), {"mode": "nearest", "align_corners": True}, "align_corners means nothing"),
        ((0, 2), {}, "at least 1"), ((1, 2, 3, 4, 5), {}, "5 sizes"),
    ],
)  # fmt: skip
def test_sizes_and_modes_that_mean_nothing_are_refused(size, options, word):
    with pytest.raises(ShapeError, match=word):
        Tensor.ones(1, 1, 4, 4).interpolate(size, **options)
