"""Gathers by what scans give: running totals that name elements, in kernels of lanes."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, func

RANDOM = np.random.default_rng(11)
SIZES = [((4, 8), 0), ((200, 193), 0), ((200, 193), 1), ((3, 40, 65), 1)]


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def places_of_maxima(x, axis):
    """Where the running maximum along an axis comes from, of numbers that all differ."""
    along = np.arange(x.shape[axis]).reshape([-1 if n == axis else 1 for n in range(x.ndim)])
    is_new = x == np.maximum.accumulate(x, axis)
    return np.maximum.accumulate(np.where(is_new, along, 0), axis)


@pytest.mark.parametrize(("shape", "axis"), SIZES)
def test_running_sums_name_elements(device, shape, axis):
    w, steps = numbers(*shape), RANDOM.integers(0, 2, shape).astype(np.int32)
    index = np.maximum(np.cumsum(steps, axis) - 1, 0)
    found = (Tensor(steps, device=device).cumsum(axis) - 1).maximum(0)
    found = Tensor(w, device=device).gather(axis, found)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(w, index, axis))


@pytest.mark.parametrize(("shape", "axis"), SIZES)
def test_places_of_running_maxima_name_elements(device, shape, axis):
    x, w = numbers(*shape), numbers(*shape)
    values, places = Tensor(x, device=device).cummax(axis)
    gathered = Tensor(w, device=device).gather(axis, places)
    expected = np.take_along_axis(w, places_of_maxima(x, axis), axis)
    np.testing.assert_array_equal(gathered.numpy(), expected)
    both = values + Tensor(w, device=device).gather(axis, places)
    np.testing.assert_array_equal(both.numpy(), np.maximum.accumulate(x, axis) + expected)


@pytest.mark.parametrize(("shape", "axis"), SIZES)
def test_tangents_of_running_maxima_are_those_of_their_places(shape, axis):
    x, w = numbers(*shape), numbers(*shape)
    _, tangent = func.jvp(lambda t: t.cummax(axis)[0], (Tensor(x),), (Tensor(w),))
    expected = np.take_along_axis(w, places_of_maxima(x, axis), axis)
    np.testing.assert_array_equal(tangent.numpy(), expected)
