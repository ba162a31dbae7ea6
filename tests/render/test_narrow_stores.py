"""Narrow results whose last vector holds one element: what lies behind that stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes

NARROW = ("bfloat16", "float16", "fp8e4m3", "int8", "uint8", "int16", "int32")
RANDOM = np.random.default_rng(5)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.integers(1, 9, shape)


@pytest.mark.parametrize("source", ["float32", "int64", "int32"])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_the_rows_of_a_transpose_do_not_reach_into_the_next(device, lanes, dtype, source):
    x = numbers(4 * lanes + 1, lanes + 1)
    made = Tensor(x, device=device).cast(source).realize().T.cast(dtype).contiguous()
    np.testing.assert_array_equal(made.cast(dtypes.int32).numpy(), x.T)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
def test_what_lies_behind_a_part_that_is_assigned_stays(device, lanes, dtype):
    rows, columns = 17, 2 * lanes + 1
    whole = Tensor(np.full((rows + 8, columns), 7), device=device).cast(dtype).realize()
    part = numbers(columns, rows)
    whole[4 : 4 + rows] = Tensor(part, device=device).cast("float32").realize().T.cast(dtype)
    expected = np.full((rows + 8, columns), 7)
    expected[4 : 4 + rows] = part.T
    np.testing.assert_array_equal(whole.cast(dtypes.int32).numpy(), expected)
