"""Places of extremes, by one reduction of values and places: every dtype, ties, zeros, NaN."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from treadle import Tensor, Variable
from treadle.engine.run import scheduled
from treadle.ir.op import Op

from ..devices import has_float64

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def numbers(name, seed=0):
    dtype = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)
    found = np.random.default_rng(seed).integers(-3, 4, (5, 7, 6)).astype(np.float64)
    if name in FLOATS:
        found[0, 0] = [-0.0, 0.0, -0.0, 0.0, -1, -2]
        found[0, 1] = [0.0, -0.0, 1, 0.0, 0.0, 1]
        found[1, 2, 3], found[4, 0, 0] = np.nan, -np.nan
        found[2, :, 1], found[3, 1, 1] = -np.inf, np.inf
        return found.astype(dtype)
    found = found.astype(dtype)
    if name != "bool":
        found[0, 0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
        found[1, 2, 2:4] = np.iinfo(dtype).max
    return found


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
@pytest.mark.parametrize("where", ["argmax", "argmin"])
def test_places_of_extremes_are_those_of_numpy(device, name, where):
    if name == "float64" and not has_float64(device):
        pytest.skip(f"{device} has no float64")
    values = numbers(name)
    wide = values.astype(np.float32) if name == "bfloat16" else values
    tensor = Tensor(values, device=device)
    for axis in (None, 0, -1):
        found = getattr(tensor, where)(axis).numpy()
        np.testing.assert_array_equal(found, getattr(np, where)(wide, axis))


@pytest.mark.parametrize("name", ["int8", "float32", "float64", "uint64"])
def test_numbers_are_read_once(name):
    x = Tensor(numbers(name), device="CPU").realize()
    (kernel,) = scheduled([(x.argmax(0).node, "CPU")])
    assert sum(node.op is Op.LOAD for node in kernel.ast.toposort()) == 1
    kept = x.argmax(0, keepdim=True).numpy()
    np.testing.assert_array_equal(kept, numbers(name).argmax(0, keepdims=True))


@pytest.mark.parametrize("rows", [1, 5, 70, 3000])
def test_places_along_an_axis_whose_size_varies(rows):
    x = np.random.default_rng(rows).integers(-3, 4, (3000, 3)).astype(np.float32)
    x[: rows // 2, 1], x[:, 2] = -np.inf, -np.inf
    tensor, size = Tensor(x, device="CPU").realize(), Variable("rows", 1, 3000).bind(rows)
    found = tensor[:size].argmax(0).numpy()
    np.testing.assert_array_equal(found, x[:rows].argmax(0))
