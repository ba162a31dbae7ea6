"""Softmax and its like of half types compute in float32 and round their result once."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes


def exact(name, x):
    shifted = x - x.max(1, keepdims=True)
    total = np.exp(shifted).sum(1, keepdims=True)
    if name == "softmax":
        return np.exp(shifted) / total
    return shifted - np.log(total) if name == "log_softmax" else np.log(total) + x.max(1)[:, None]


def units_off(found, expected, dtype):
    """The largest distance in units of the last place of `expected`, of normal numbers."""
    bits, least = {dtypes.float16: (10, -14), dtypes.bfloat16: (7, -126)}[dtype]
    place = np.maximum(np.floor(np.log2(np.abs(expected))), least) - bits
    return np.max(np.abs(found - expected) / 2.0**place)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("size", [10, 1000])
def test_1_13_softmax_of_halves_rounds_once(name, dtype, size, device):
    data = np.random.default_rng(size).standard_normal((8, size)).astype(np.float32)
    x = Tensor(data, device=device).cast(dtype)
    given = x.float().numpy().astype(np.float64)
    result = x.logsumexp(1, keepdim=True) if name == "logsumexp" else getattr(x, name)(1)
    assert result.dtype is dtype
    found = result.float().numpy().astype(np.float64)
    assert units_off(found, exact(name, given), dtype) < 0.6
