"""What a runtime's images do, where its device has any: texels of all sizes, kernels, replays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from treadle import Tensor, TinyJit, dtypes
from treadle.engine.devices import Opened
from treadle.errors import DTypeError

from .conftest import skip_unless

SIZES = [(1, 1), (1, 300), (2, 5), (3, 127), (17, 128), (33, 3), (200, 1)]
COMPILED = SIZES if "FULL_TESTS" in os.environ else SIZES[3:4]  # each has code of its own


@pytest.fixture
def imaging(computing: Opened) -> Opened:
    """A device that has images."""
    skip_unless(computing.target.max_image, computing, "it has no images (`max_image`)")
    return computing


def image_of(sizes: tuple[int, int], half: bool) -> Any:
    return (dtypes.imageh if half else dtypes.imagef)(sizes)


def texels(sizes: tuple[int, int], half: bool) -> np.ndarray[Any, Any]:
    """Numbers that no two places have in common."""
    count = 4 * sizes[0] * sizes[1]
    return (np.arange(count) % 1999 - 999).astype(np.float16 if half else np.float32)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_texels_come_back_as_they_went(imaging: Opened, sizes: tuple[int, int], half: bool) -> None:
    device, data = imaging.runtime, texels(sizes, half)
    image = device.allocator.alloc_image(image_of(sizes, half))
    assert image.nbytes == data.nbytes
    device.write(image, data.view(np.uint8).data)
    found = np.empty_like(data)
    device.read(image, found.view(np.uint8).data)
    np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("sizes", COMPILED)
def test_kernels_read_and_write_every_texel(
    imaging: Opened, sizes: tuple[int, int], half: bool
) -> None:
    data = texels(sizes, half).astype(np.float32)
    x = Tensor(data, device=imaging.name).cast(image_of(sizes, half)).realize()
    y = (x.flip(0) - 1).cast(image_of(sizes, half)).realize()
    np.testing.assert_array_equal(x.numpy(), data)
    np.testing.assert_array_equal(y.numpy(), data[::-1] - 1)


def test_images_are_counted_and_go_back(imaging: Opened) -> None:
    allocator = imaging.allocator
    before = allocator.stats.live
    image = allocator.alloc_image(image_of((64, 64), False))
    assert allocator.stats.live >= before + (64 << 10)
    del image
    assert allocator.stats.live == before


def test_an_image_may_be_as_large_as_the_target_says(imaging: Opened) -> None:
    """The longest line and the highest column, and not one texel more."""
    height, width = imaging.target.max_image or (0, 0)
    for sizes in ((1, width), (height, 1)):
        x = Tensor.full((4 * max(sizes),), 3.0, device=imaging.name).cast(image_of(sizes, False))
        assert (x + 1).sum().item() == 16 * max(sizes)
    for sizes in ((1, width + 1), (height + 1, 1)):
        with pytest.raises(DTypeError, match="is too large"):
            Tensor.zeros(4 * max(sizes), device=imaging.name).cast(image_of(sizes, False))


def test_replays_take_other_images(imaging: Opened) -> None:
    step = TinyJit(lambda x, y: ((x * 2).cast(image_of((3, 5), False)).realize() + y).realize())
    for turn in range(5):
        data = texels((3, 5), False) + np.float32(turn)
        x, y = (
            Tensor(values, device=imaging.name).cast(image_of((3, 5), False)).realize()
            for values in (data, -data)
        )
        np.testing.assert_array_equal(step(x, y).numpy(), data)


def test_an_image_is_changed_where_it_is_read(imaging: Opened) -> None:
    x = Tensor(texels((5, 3), False), device=imaging.name).cast(image_of((5, 3), False)).realize()
    for _ in range(3):
        x.assign(x * 2 + 1)
    np.testing.assert_array_equal(x.numpy(), texels((5, 3), False) * 8 + 7)
