"""Tensors in NumPy: `__array__`, NumPy's functions, and the buffer protocol."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from treadle import Device, Tensor, dtypes
from treadle.dtype import _to_np_dtype


def values(*shape, dtype=np.float32):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def test_numpy_functions_take_tensors(device):
    x = Tensor(values(2, 3), device=device)
    assert np.sum(x) == 15
    assert np.max(x, axis=1).tolist() == [2, 5]
    assert np.where(x > 2, x, 0).tolist() == [[0, 0, 0], [3, 4, 5]]
    assert np.stack([x, values(2, 3)], axis=-1).shape == (2, 3, 2)
    assert np.exp(x).dtype == np.float32
    np.testing.assert_array_equal(np.transpose(x), values(2, 3).T)
    np.testing.assert_array_equal(
        np.concatenate([x, x + 1]), [[0, 1, 2], [3, 4, 5], [1, 2, 3], [4, 5, 6]]
    )
    np.testing.assert_allclose(np.linalg.norm(x), np.linalg.norm(values(2, 3)))
    assert np.array_equal(np.asarray(x.T), values(2, 3).T)


def test_arrays_on_the_left_leave_the_operation_to_tensors():
    result = values(3) + Tensor(values(3))
    assert isinstance(result, Tensor)
    assert result.tolist() == [0, 2, 4]


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda d: d.name)
def test_every_dtype_becomes_numpys(dtype):
    x = Tensor(values(2, 3, dtype=_to_np_dtype(dtype)))
    array = np.asarray(x)
    assert array.dtype == _to_np_dtype(dtype)
    np.testing.assert_array_equal(array, x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64


def test_asarray_shares_and_array_copies():
    x = Tensor(values(2, 3))
    shared, copied = np.asarray(x), np.array(x)
    shared[0, 0] = 9
    assert x[0, 0].item() == 9
    assert copied[0, 0] == 0
    assert np.may_share_memory(np.asarray(x.T), shared)
    assert np.may_share_memory(np.asarray(x[:, ::-1]), shared)
    assert not np.asarray(x[:1].expand(4, 3)).flags.writeable


def test_copy_false_shares_or_raises():
    x = Tensor(values(3))
    assert np.may_share_memory(x.__array__(copy=False), np.asarray(x))
    with pytest.raises(ValueError, match="an array of float64 without a copy"):
        x.__array__(np.float64, copy=False)
    w = Tensor(values(3), requires_grad=True)
    with pytest.raises(ValueError, match="without a copy"):
        w.__array__(copy=False)
    np.asarray(w)[:] = 5  # a copy: gradients were computed from what it was
    assert w.tolist() == [0, 1, 2]


def test_memory_outlives_its_tensor():
    array = np.asarray(Tensor(values(1000)) + 1)
    others = [Tensor(values(1000)).realize() for _ in range(3)]
    np.testing.assert_array_equal(array, values(1000) + 1)
    del others


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_buffers_are_shared(shape, device):
    x = Tensor(values(*shape), device=device)
    if not Device[device].runtime.shares_memory:
        with pytest.raises(BufferError, match=r"use \.numpy\(\)"):
            x.__buffer__(0)
        return
    view = x.__buffer__(0)
    assert (view.shape, view.format) == (shape, "f")
    np.testing.assert_array_equal(np.asarray(view), x.numpy())
    if shape == (2, 3):
        view[1, 2] = -1.0
        assert x[1, 2].item() == -1
    if sys.version_info >= (3, 12):
        np.testing.assert_array_equal(np.asarray(memoryview(x)), x.numpy())


def test_buffers_that_cannot_be_are_buffer_errors():
    data = values(3)
    x = Tensor.from_blob(data.ctypes.data, (3,), owner=data, readonly=True)
    assert x.__buffer__(0).readonly
    with pytest.raises(BufferError, match="read-only"):
        x.__buffer__(1)
    with pytest.raises(BufferError, match="no name for bfloat16"):
        Tensor(values(3)).cast("bfloat16").__buffer__(0)
    with pytest.raises(BufferError, match="requires gradients"):
        Tensor(values(3), requires_grad=True).__buffer__(0)


def test_importing_treadle_and_its_tensors_imports_no_other_library():
    code = """if True:
        import sys, treadle
        from treadle import Tensor, from_dlpack
        Tensor([1.0]).numpy()
        wanted = {"torch", "jax", "pandas", "scipy", "numpy.testing", "numpy.f2py"}
        print(wanted & set(sys.modules))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
