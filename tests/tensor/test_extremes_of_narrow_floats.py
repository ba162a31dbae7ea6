"""Extremes of floats of 8 and 16 bits, of which one has no infinities."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.dtype import to_dtype

NARROW = ["fp8e4m3", "fp8e5m2", "float16", "bfloat16"]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("shape", [(8,), (4, 8), (193, 257), (2, 5000)])
def test_extremes_along_each_axis_and_of_all(shape, dtype, device):
    values = np.random.default_rng(6).standard_normal(shape).astype(np.float32)
    x = Tensor(values, device=device).cast(to_dtype(dtype))
    a = x.float().numpy()
    for axis in (*range(a.ndim), None):
        np.testing.assert_array_equal(x.max(axis).float().numpy(), a.max(axis))
        np.testing.assert_array_equal(x.min(axis).float().numpy(), a.min(axis))
        np.testing.assert_array_equal(x.argmax(axis).numpy(), a.argmax(axis))
    for axis in range(a.ndim):
        most, least = x.cummax(axis)[0], x.cummin(axis)[0]
        np.testing.assert_array_equal(most.float().numpy(), np.maximum.accumulate(a, axis))
        np.testing.assert_array_equal(least.float().numpy(), np.minimum.accumulate(a, axis))


def test_the_limits_are_numbers_that_each_type_has():
    limits = {"fp8e4m3": 448.0, "fp8e5m2": np.inf, "float16": np.inf, "bfloat16": np.inf}
    for name, most in limits.items():
        dtype = to_dtype(name)
        assert (dtypes.min(dtype), dtypes.max(dtype)) == (-most, most)
        assert Tensor([most, -most], dtype=dtype).float().tolist() == [most, -most]
