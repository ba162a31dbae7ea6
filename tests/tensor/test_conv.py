"""Convolution and pooling against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2},
        {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
    ],
)  # fmt: skip
def test_conv2d_matches_pytorch_in_value_and_gradients(device, options):
    channels = 4 // options.get("groups", 1)
    arrays = normal(2, 4, 7, 6), normal(6, channels, 3, 2), normal(6)
    compare(
        device, lambda x, w, b: x.conv2d(w, b, **options),
        lambda x, w, b: F.conv2d(x, w, b, **options), *arrays, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_convolution_takes_one_or_three_spatial_axes_and_uneven_padding(device):
    compare(device, lambda x, w: x.conv2d(w, padding=1), lambda x, w: F.conv1d(x, w, padding=1),
            normal(2, 3, 8), normal(4, 3, 3), atol=1e-5)  # fmt: skip
    compare(device, lambda x, w: x.conv2d(w), F.conv3d, normal(1, 2, 4, 4, 4),
            normal(3, 2, 2, 2, 2), atol=1e-5)  # fmt: skip
    compare(device, lambda x, w: x.conv2d(w, padding=(1, 2, 0, 1)),
            lambda x, w: F.conv2d(F.pad(x, (1, 2, 0, 1)), w),
            normal(1, 2, 4, 4), normal(3, 2, 3, 3), atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("size", [(19, 24), (16, 17)])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 7])
@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2}, {"stride": 3, "padding": 1}, {"stride": 4, "padding": 3},
        {"stride": (2, 1), "padding": (1, 2), "groups": 3}, {"stride": 2, "dilation": 2},
        {"stride": 3, "dilation": 2, "padding": 2}, {"stride": 5, "groups": 6},
    ],
)  # fmt: skip
def test_strided_convolutions_that_get_tiles_match_pytorch(size, kernel, options):
    if options.get("dilation", 1) * (kernel - 1) >= min(size):
        pytest.skip("the kernel does not fit")
    arrays = normal(2, 6, *size), normal(12, 6 // options.get("groups", 1), kernel, kernel)
    compare(
        "CPU", lambda x, w: x.conv2d(w, **options), lambda x, w: F.conv2d(x, w, **options),
        *arrays, rtol=1e-3, atol=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2}, {"stride": 2, "padding": 1},
        {"stride": 2, "padding": 1, "output_padding": 1}, {"stride": 3, "padding": 2},
        {"stride": 4}, {"stride": (1, 3), "padding": (2, 0)},
        {"stride": 2, "dilation": 3},
    ],
)  # fmt: skip
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_strided_transposed_convolutions_that_get_tiles_match_pytorch(kernel, options):
    if kernel == 1 and options.get("padding") not in (None, (2, 0)):
        options = {**options, "padding": 0}
    compare(
        "CPU", lambda x, w: x.conv_transpose2d(w, **options),
        lambda x, w: F.conv_transpose2d(x, w, **options),
        normal(2, 9, 11, 18), normal(9, 6, kernel, kernel), rtol=1e-3, atol=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize("size", [(30, 31), (33, 40)])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (5, 3, 2)])
def test_the_gradient_of_pooling_in_lanes_matches_pytorch(size, kernel, stride, padding):
    x = RNG.permutation(6 * size[0] * size[1]).astype(np.float32).reshape(2, 3, *size)
    compare("CPU", lambda x: x.max_pool2d((kernel, kernel), stride, 1, padding),
            lambda x: F.max_pool2d(x, kernel, stride, padding), x, atol=1e-5)  # fmt: skip
    compare("CPU", lambda x: x.avg_pool2d((kernel, kernel), stride, 1, padding),
            lambda x: F.avg_pool2d(x, kernel, stride, padding), x, rtol=1e-4)  # fmt: skip


@pytest.mark.parametrize(("kernel", "size"), [(3, 56), (5, 20), (3, 7), (2, 33)])
def test_the_weight_gradient_of_a_depthwise_convolution_matches_pytorch(kernel, size):
    compare("CPU", lambda x, w: x.conv2d(w, groups=4, padding=1),
            lambda x, w: F.conv2d(x, w, groups=4, padding=1),
            normal(2, 4, size, size), normal(4, 1, kernel, kernel),
            rtol=1e-3, atol=1e-3)  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {}, {"stride": 2}, {"padding": 1}, {"stride": 2, "output_padding": 1}, {"groups": 2},
        {"dilation": 2, "stride": (2, 1), "padding": (0, 1)},
    ],
)  # fmt: skip
def test_conv_transpose2d_matches_pytorch_in_value_and_gradients(device, options):
    arrays = normal(2, 4, 3, 5), normal(4, 3, 3, 2), normal(3 * options.get("groups", 1))
    compare(
        device, lambda x, w, b: x.conv_transpose2d(w, b, **options),
        lambda x, w, b: F.conv_transpose2d(x, w, b, **options), *arrays, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


POOLS = [
    {"kernel_size": (2, 2)}, {"kernel_size": (3, 2), "stride": 1}, {"kernel_size": 3, "stride": 2},
    {"kernel_size": 3, "padding": 1}, {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True},
]  # fmt: skip


@pytest.mark.parametrize("options", POOLS)
def test_pooling_matches_pytorch_in_value_and_gradient(device, options):
    x = normal(2, 3, 7, 8)
    compare(device, lambda x: x.max_pool2d(**options), lambda x: F.max_pool2d(x, **options), x)
    compare(device, lambda x: x.avg_pool2d(**options), lambda x: F.avg_pool2d(x, **options), x)
    inside = {**options, "count_include_pad": False}
    compare(device, lambda x: x.avg_pool2d(**inside), lambda x: F.avg_pool2d(x, **inside), x)


def test_dilated_max_pooling_matches_pytorch(device):
    compare(device, lambda x: x.max_pool2d(2, stride=1, dilation=2),
            lambda x: F.max_pool2d(x, 2, stride=1, dilation=2), normal(1, 2, 5, 6))  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"kernel_size": 3, "stride": 2, "padding": 1}])
def test_max_pooling_gives_the_places_and_unpooling_uses_them(device, options):
    x = normal(2, 2, 6, 6)
    values, places = Tensor(x, device=device).max_pool2d(return_indices=True, **options)
    torch_options = {"kernel_size": 2, **options}
    want, where = F.max_pool2d(torch.tensor(x), return_indices=True, **torch_options)
    np.testing.assert_array_equal(values.numpy(), want.numpy())
    np.testing.assert_array_equal(places.numpy(), where.numpy())
    back = values.max_unpool2d(places, output_size=(6, 6), **options)
    expected = F.max_unpool2d(want, where, output_size=(6, 6), **torch_options)
    np.testing.assert_array_equal(back.numpy(), expected.numpy())


def test_a_nan_is_the_largest_of_its_window_and_has_a_place():
    x = normal(1, 1, 4, 4)
    x[0, 0, 1, 2] = np.nan
    ours = Tensor(x).max_pool2d(return_indices=True)
    for a, b in zip(ours, F.max_pool2d(torch.tensor(x), 2, return_indices=True), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_divisor_may_take_the_place_of_the_count():
    options = {"padding": 1, "ceil_mode": True, "divisor_override": 3}
    compare("CPU", lambda x: x.avg_pool2d((2, 2), **options),
            lambda x: F.avg_pool2d(x, 2, **options), normal(1, 2, 5, 6))  # fmt: skip
    with pytest.raises(ShapeError, match="divisor_override is a number to divide by, not 0"):
        Tensor.ones(1, 1, 4, 4).avg_pool2d(divisor_override=0)


def test_halves_convolve_in_float32(device):
    x = Tensor.ones(1, 64, 8, 8, dtype=dtypes.float16, device=device)
    w = Tensor.ones(1, 64, 8, 8, dtype=dtypes.float16, device=device)
    result = x.conv2d(w)
    assert result.dtype is dtypes.float16
    assert result.item() == 4096


def test_a_convolution_that_does_not_fit_is_refused_at_the_call():
    x = Tensor.ones(1, 3, 5, 5)
    with pytest.raises(ShapeError, match=r"\[conv2d\] input .* do not fit with groups=1"):
        x.conv2d(Tensor.ones(4, 2, 3, 3))
    with pytest.raises(ShapeError, match=r"\[conv2d\] a kernel that spans 7 does not fit axis 2"):
        x.conv2d(Tensor.ones(4, 3, 7, 7))
    with pytest.raises(ShapeError, match=r"\[max_pool2d\] a window of 6"):
        x.max_pool2d(6)
