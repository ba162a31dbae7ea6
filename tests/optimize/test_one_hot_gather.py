"""Sums over one-hot masks: one element is read, places outside give 0."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.run import scheduled
from treadle.ir.op import Op
from treadle.optimize.heuristic import optimize
from treadle.optimize.one_hot_gather import OneHotGather
from treadle.optimize.records import Loop, Reduction
from treadle.target import parse_target

TARGET = parse_target("x86-64-v3")
VALUES = np.random.default_rng(8).standard_normal((6, 300)).astype(np.float32)


def picked(places, x, dtype=dtypes.int32):
    mask = Tensor.arange(300, dtype=dtype).reshape(1, 300).eq(places.reshape(-1, 1))
    return mask.where(x, 0.0).sum(1)


def sums(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    ast, log = optimize(kernel.ast, TARGET)
    return sum(n.op is Op.REDUCE for n in ast.toposort()), log


def test_a_sum_over_a_one_hot_mask_is_a_load():
    places, x = Tensor(np.zeros(6, np.int32)).realize(), Tensor(VALUES).realize()
    count, log = sums(picked(places, x))
    assert count == 0
    assert OneHotGather(Reduction((Loop(1),))) in log


def test_the_negative_of_a_masked_element_is_picked_as_well():
    places, x = Tensor(np.array([3, 299, 400], np.int32)).realize(), Tensor(VALUES[:3]).realize()
    mask = Tensor.arange(300, dtype=dtypes.int32).reshape(1, 300).eq(places.reshape(-1, 1))
    total = (-mask.where(x, 0.0)).sum(1)
    assert sums(total)[0] == 0
    np.testing.assert_array_equal(total.numpy(), [-VALUES[0, 3], -VALUES[1, 299], 0])


def test_any_reduction_of_a_single_step_is_a_load():
    where = np.array([3, 299, 0, 7, 250, 400], np.int32)
    places, x = Tensor(where).realize(), Tensor(VALUES).realize()
    mask = Tensor.arange(300, dtype=dtypes.int32).reshape(1, 300).eq(places.reshape(-1, 1))
    largest = (mask & (x > 0)).where(x, -np.inf).max(1)
    assert sums(largest)[0] == 0
    picked = np.append(VALUES[np.arange(5), where[:5]], -1)
    np.testing.assert_array_equal(largest.numpy(), np.where(picked > 0, picked, -np.inf))


def test_a_product_with_a_one_hot_row_meets_infinities():
    places, x = Tensor(np.array([7], np.int32)), np.ones((1, 300), np.float32)
    x[0, 8] = np.inf
    mask = Tensor.arange(300, dtype=dtypes.int32).reshape(1, 300).eq(places.reshape(-1, 1))
    assert np.isnan((mask.where(1.0, 0.0) * Tensor(x).realize()).sum(1).numpy()).all()


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.int64])
def test_places_outside_of_the_row_pick_nothing(dtype):
    where = np.array([0, 299, 300, -1, 2**31 - 1, -(2**31)])
    result = picked(Tensor(where.astype(dtype.name)), Tensor(VALUES), dtype).numpy()
    np.testing.assert_array_equal(result, [VALUES[0, 0], VALUES[1, 299], 0, 0, 0, 0])


def test_infinities_that_are_not_picked_do_not_matter():
    x = np.full((1, 300), np.inf, np.float32)
    x[0, 7] = 2
    assert picked(Tensor(np.array([7], np.int32)), Tensor(x)).item() == 2


def test_positions_that_wrap_in_a_narrow_integer_are_compared_one_by_one():
    places = Tensor(np.array([44], np.uint8)).realize()  # 300 - 256
    mask = Tensor.arange(300).cast(dtypes.uint8).reshape(1, 300).eq(places.reshape(-1, 1))
    total = mask.where(Tensor(VALUES[:1]).realize(), 0.0).sum(1)
    assert sums(total)[0] >= 1
    np.testing.assert_allclose(total.numpy(), [VALUES[0, 44]], rtol=1e-6)


def test_a_sum_of_sums_is_left_alone():
    inner = (Tensor(VALUES).realize().reshape(6, 1, 300) * Tensor(VALUES[:5]).realize()).sum(2)
    places = Tensor(np.arange(6, dtype=np.int32)).realize()
    mask = Tensor.arange(5, dtype=dtypes.int32).reshape(1, 5).eq(places.reshape(6, 1))
    result = mask.where(inner, 0.0).sum(1).numpy()
    expected = (VALUES[:5].astype(np.float64) ** 2).sum(1)
    np.testing.assert_allclose(result, [*expected, 0], rtol=1e-5)
