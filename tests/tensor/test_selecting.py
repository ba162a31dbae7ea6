"""Whole places of an axis: filled, added, copied; what repeats counts once where it is stored."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import ShapeError

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_filled_place_is_filled_once_however_often_it_is_named(device):
    x = Tensor(VALUES, device=device, requires_grad=True)
    value = Tensor(2.5, device=device, requires_grad=True)
    filled = x.index_fill(1, Tensor([0, 0, -1], device=device), value)
    expected = VALUES.copy()
    expected[:, [0, 3]] = 2.5
    np.testing.assert_array_equal(filled.numpy(), expected)
    filled.sum().backward()
    assert value.grad.item() == 6
    np.testing.assert_array_equal(x.grad.numpy()[0], [0, 1, 1, 0])


def test_rows_are_added_and_copied_at_their_places(device):
    places, rows = Tensor([2, 0], device=device), Tensor(VALUES[:2], device=device)
    x = Tensor(VALUES, device=device)
    added, copied = VALUES.copy(), VALUES.copy()
    added[[2, 0]] += VALUES[:2]
    copied[[2, 0]] = VALUES[:2]
    np.testing.assert_array_equal(x.index_add(0, places, rows).numpy(), added)
    np.testing.assert_array_equal(x.index_copy(0, places, rows).numpy(), copied)
    np.testing.assert_array_equal(x.index_select(0, places).numpy(), VALUES[[2, 0]])
    with pytest.raises(ShapeError, match=r"\[index_add\] needs a vector of integers"):
        x.index_add(0, places, x)


def test_places_along_an_axis_count_from_the_end(device):
    places = np.array([[-1], [0], [2]], np.int32)
    x = Tensor(VALUES, device=device).take_along_dim(Tensor(places, device=device), 1)
    np.testing.assert_array_equal(x.numpy(), np.take_along_axis(VALUES, places, 1))


def test_lines_that_broadcast_are_compared_by_their_angle(device):
    one = Tensor(VALUES, device=device)
    found = one.cosine_similarity(Tensor(VALUES[1], device=device), dim=-1).numpy()
    lengths = np.linalg.norm(VALUES, axis=1) * np.linalg.norm(VALUES[1])
    np.testing.assert_allclose(found, VALUES @ VALUES[1] / lengths, rtol=1e-6)


def test_a_norm_of_order_0_counts_what_is_not_0(device):
    found = Tensor(VALUES, device=device).normalize(p=0).numpy()
    np.testing.assert_allclose(found, VALUES / np.array([[3], [4], [4]]), rtol=1e-6)


def test_weights_of_a_leaky_unit_fit_its_channels(device):
    assert Tensor(-2.0, device=device).prelu(Tensor([0.25], device=device)).item() == -0.5
    with pytest.raises(ShapeError, match=r"\[prelu\] needs a scalar or a vector of 4 weights"):
        Tensor(VALUES, device=device).prelu(Tensor([1.0, 2.0], device=device))


@pytest.mark.parametrize("shape", [(), (3,), (3, 2)])
def test_taking_or_putting_nothing_leaves_everything_as_it_is(device, shape):
    x = Tensor(np.full(shape, 2.0, np.float32), device=device)
    none = Tensor(np.zeros(0, np.int64), device=device)
    seed = Tensor(np.zeros(0, np.float32), device=device)
    gradient = (x.take(none) * seed).sum().gradient(x)[0]
    np.testing.assert_array_equal(gradient.numpy(), np.zeros(shape))
    flat = x.flatten().contiguous()
    for reduce in ("sum", "prod"):
        put = flat.scatter_reduce(0, none, seed, reduce=reduce)
        np.testing.assert_array_equal(put.numpy(), flat.numpy())
