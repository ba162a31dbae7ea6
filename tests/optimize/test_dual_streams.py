"""Reductions that read memory at two places at a time, and those for which that is no use."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.dtype import dtypes
from treadle.engine.run import scheduled
from treadle.optimize.heuristic import optimize
from treadle.optimize.loop_moves import Loops
from treadle.target import parse_target

TARGET = parse_target("x86-64-v4")
RANDOM = np.random.default_rng(3)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def reasons_of(tensor):
    """Why the loops of the kernel of `tensor` become what they do."""
    (kernel,) = scheduled([(tensor.node, "CPU")])
    loops = optimize(kernel.ast, TARGET)[1].of_kind(Loops)
    return [part.reasons for move in loops for part in move.parts]


IN_PAIRS, BY_HALVES = ("dual_streams",), ("lane_reduction", "dual_streams")


def filled(*shape, dtype=dtypes.float32):
    return Tensor.ones(*shape, dtype=dtype, device="CPU").contiguous().realize()


def product(rows, columns, dtype):
    return filled(rows, columns, dtype=dtype).cast(dtypes.float32) @ filled(columns)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: filled(256, 4096).sum(1), id="a sum of long rows"),
        pytest.param(lambda: filled(2, 64, 4096).max(2), id="the largest of each"),
        pytest.param(lambda: product(256, 4096, dtypes.float32), id="a product with a vector"),
    ],
)
def test_rows_are_read_in_pairs(made):
    assert IN_PAIRS in reasons_of(made())


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: filled(256, 1024).sum(1), id="short rows"),
        pytest.param(lambda: filled(257, 4096).sum(1), id="an odd number of rows"),
        pytest.param(lambda: filled(64, 4096).sum(1), id="few rows"),
        pytest.param(lambda: filled(256, 4096).argmax(1), id="keys with places"),
        pytest.param(lambda: product(256, 4096, dtypes.float16), id="short rows of halves"),
        pytest.param(lambda: product(256, 1024, dtypes.int8), id="bytes, and a vector of floats"),
        pytest.param(lambda: filled(4096, 256).sum(0), id="columns"),
    ],
)
def test_rows_are_read_one_by_one(made):
    assert IN_PAIRS not in reasons_of(made())


def test_long_rows_are_read_from_both_halves():
    assert BY_HALVES in reasons_of(filled(1 << 22).sum())
    assert BY_HALVES in reasons_of(filled(16, 1 << 18).sum(1))
    assert BY_HALVES not in reasons_of(filled(1 << 20).sum())  # chunks of 64 KiB
    assert BY_HALVES not in reasons_of(filled(16, (1 << 18) + 64).sum(1))


@pytest.mark.parametrize("shape", [(256, 4096), (130, 4100), (3, 128, 5000), (1 << 22,)])
def test_sums_at_two_places_are_sums(shape):
    x = numbers(*shape)
    found = Tensor(x, device="CPU").sum(-1).numpy()
    np.testing.assert_allclose(found, x.astype(np.float64).sum(-1), rtol=1e-5, atol=2e-3)
    np.testing.assert_array_equal(Tensor(x, device="CPU").max(-1).numpy(), x.max(-1))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_products_with_a_vector_are_what_numpy_computes(dtype):
    w, x = (numbers(256, 4096) * 20).astype(dtype), numbers(4096)
    found = (Tensor(w, device="CPU").cast(dtypes.float32) @ Tensor(x, device="CPU")).numpy()
    np.testing.assert_allclose(found, w.astype(np.float64) @ x, rtol=1e-4, atol=1e-2)
