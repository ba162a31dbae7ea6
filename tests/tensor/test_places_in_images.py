"""Places in images larger than what halves, or float32, count."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.dtype import to_dtype

RANDOM = np.random.default_rng(5)


def middles(size):
    """The middle of each pixel of an axis."""
    return (2 * np.arange(size) + 1) / size - 1


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_find_the_pixels_of_an_image_that_they_cannot_count(device, dtype, mode):
    """The middles of 64 pixels are numbers of eight bits, and so are the pixels' weights."""
    image = RANDOM.standard_normal((2, 3, 64, 64)).astype(np.float32)
    y, x = np.meshgrid(middles(64), middles(64), indexing="ij")
    grid = np.broadcast_to(np.stack([x, y], -1), (2, 64, 64, 2)).astype(np.float32)
    image, grid = (Tensor(a, device=device).cast(to_dtype(dtype)) for a in (image, grid))
    found = image.grid_sample(grid, mode)
    assert found.dtype is to_dtype(dtype)
    np.testing.assert_array_equal(found.float().numpy(), image.float().numpy())


def test_gradients_of_halves_arrive_at_the_pixels_that_were_read(device):
    image = Tensor(RANDOM.standard_normal((1, 1, 64, 64)).astype(np.float32), device=device).half()
    y, x = np.meshgrid(middles(64), middles(64), indexing="ij")
    grid = Tensor(np.stack([x, y], -1)[None].astype(np.float32), device=device).half()
    weights = Tensor(RANDOM.integers(-8, 9, (1, 1, 64, 64)).astype(np.float32), device=device)
    (found,) = (image.grid_sample(grid).float() * weights).sum().gradient(image)
    np.testing.assert_array_equal(found.float().numpy(), weights.numpy())


def test_volumes_of_halves():
    volume = Tensor(RANDOM.standard_normal((1, 1, 16, 32, 64)).astype(np.float32)).half()
    z, y, x = np.meshgrid(middles(16), middles(32), middles(64), indexing="ij")
    grid = Tensor(np.stack([x, y, z], -1)[None].astype(np.float32)).half()
    np.testing.assert_array_equal(volume.grid_sample(grid).numpy(), volume.numpy())


def test_images_of_more_pixels_than_float32_counts():
    height, width = 4100, 4099  # 2 ** 24 is 4096 squared
    image = Tensor.arange(height * width, dtype=dtypes.int32).reshape(1, 1, height, width)
    low = image.bitwise_and(1023).float().realize()
    rows, columns = np.array([0, 4098, 4099, 4099]), np.array([4098, 4097, 0, 4098])
    grid = np.stack([middles(width)[columns], middles(height)[rows]], -1)[None, None]
    found = low.grid_sample(Tensor(grid.astype(np.float32)), "nearest").numpy().reshape(-1)
    np.testing.assert_array_equal(found, (rows * width + columns) & 1023)
