"""JAX and treadle share memory of the host, both ways."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from treadle import Tensor

jax = pytest.importorskip("jax")


def values(*shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "float32"])
def test_values_are_shared_both_ways(dtype):
    x = Tensor(values(2, 3, dtype=dtype))
    theirs = jax.numpy.from_dlpack(x)
    assert theirs.unsafe_buffer_pointer() == np.asarray(x).ctypes.data
    np.testing.assert_array_equal(np.asarray(theirs), values(2, 3, dtype=dtype))
    back = Tensor.from_dlpack(theirs, copy=False)
    assert np.may_share_memory(np.asarray(back), np.asarray(x))


def test_bfloat16_and_other_orders_of_axes_are_understood():
    narrow = Tensor.from_dlpack(jax.numpy.ones((2, 2), "bfloat16"))
    assert (narrow.dtype.name, narrow.float().tolist()) == ("bfloat16", [[1, 1], [1, 1]])
    turned = jax.numpy.from_dlpack(Tensor(values(2, 3)).T)
    np.testing.assert_array_equal(np.asarray(turned), values(2, 3).T)


def test_memory_outlives_its_source():
    x = Tensor.from_dlpack(jax.numpy.full(1000, 3.0)) + 0
    theirs = jax.numpy.from_dlpack(Tensor.full((1000,), 4.0))
    gc.collect()
    noise = [jax.numpy.zeros(1000), Tensor.zeros(1000).realize()]
    assert (x.sum().item(), theirs.sum().item()) == (3000, 4000)
    del noise
