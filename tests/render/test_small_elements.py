"""Elements smaller than a word: neighbours are kept whatever is stored beside them."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.ir.elementwise import numpy_dtype
from treadle.ir.node import Node
from treadle.ir.op import Op

from .kernels import load, param, run

NAMES = ["bool", "int8", "uint8", "int16", "uint16", "float16"]


def array(name: str, size: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if name == "float16":
        return rng.standard_normal(size).astype(np.float16)
    return rng.integers(0, 2 if name == "bool" else 100, size).astype(name)


@pytest.mark.parametrize("name", NAMES)
def test_tensors_of_odd_lengths_are_stored_whole(device, name):
    for size in (1, 7, 257):
        x, y = array(name, size), array(name, size, 1)
        ours = Tensor(x, device=device).maximum(Tensor(y, device=device))
        np.testing.assert_array_equal(ours.numpy(), np.maximum(x, y), strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_padded_shrunk_and_flipped_tensors(device, name):
    x = array(name, 35).reshape(5, 7)
    ours = Tensor(x, device=device).realize()
    padded = ours.pad(((1, 2), (3, 0)))
    np.testing.assert_array_equal(padded.numpy(), np.pad(x, ((1, 2), (3, 0))), strict=True)
    shrunk = ours[1:4, 2:5].contiguous()
    np.testing.assert_array_equal(shrunk.numpy(), x[1:4, 2:5], strict=True)
    np.testing.assert_array_equal(ours.flip(1).contiguous().numpy(), x[:, ::-1], strict=True)
    np.testing.assert_array_equal(ours.T.contiguous().numpy(), x.T, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_slice_written_in_place_leaves_its_neighbours(device, name):
    x, y = array(name, 41), array(name, 41, 1)
    for start, stop in ((1, 2), (3, 38), (40, 41)):
        ours = Tensor(x.copy(), device=device).contiguous().realize()
        ours[start:stop] = Tensor(y[start:stop], device=device)
        expected = x.copy()
        expected[start:stop] = y[start:stop]
        np.testing.assert_array_equal(ours.numpy(), expected, strict=True)


@pytest.mark.parametrize("work_items", [1, 32])
@pytest.mark.parametrize("name", NAMES)
def test_neighbours_written_by_different_work_items(backend, name, work_items):
    """Work item i writes element 3 * i alone: three of four share a word with another's."""
    if backend.target.workgroup is None and work_items > 1:
        pytest.skip(f"{backend.name} has no workgroups")
    dtype, count = getattr(dtypes, name), 96
    size = 3 * count
    ranges = [Node.range(count // work_items, 0, "grid")]
    at = ranges[0]
    if work_items > 1:
        ranges.append(Node.range(work_items, 1, "local"))
        at = at * work_items + ranges[1]
    value = load(param(1, dtype, count), at)
    store = Node(Op.STORE, dtypes.void, (param(0, dtype, size), at * 3, value))
    ast = Node.sink([Node(Op.END, dtypes.void, (store, *ranges), 1)])
    held, x = array(name, size, 2), array(name, count, 3)
    expected = held.copy()
    expected[::3] = x
    for _ in range(5):
        result = run(backend, ast, [held, x])[0]
        np.testing.assert_array_equal(result, expected)
    assert result.dtype == numpy_dtype(dtype)
