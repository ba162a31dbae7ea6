"""Extremes' places along rows, block by block: each block's lanes are those of the reduction."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Context, Tensor
from treadle.engine.run import scheduled
from treadle.ir.choices import choices_of
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

ROWS, COLUMNS, CHUNKS, LONG = 7, 64, 16, 1100
ARRAYS = [
    np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for shape in ((CHUNKS, COLUMNS, ROWS), (ROWS, LONG))
]


def _turned_sums_and_places() -> Tensor:
    """Sums that lie side by side along the rows whose places are added to them."""
    x, y = (Tensor(array, device="CPU").realize() for array in ARRAYS)
    return x.sum(0).transpose(0, 1) + y.argmax(1, keepdim=True)


@pytest.mark.parametrize("arch", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_rows_whose_places_are_looked_for_in_lanes_are_no_lanes_themselves(arch: str) -> None:
    tensor, target = _turned_sums_and_places(), parse_target(arch)
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    with choices_of() as choices:
        ast, _ = optimize(kernel.ast, target)
    assert {"two_level_argmax", "lane_results"} <= choices
    assert lower(ast, len(kernel.buffers), target).phases


def test_sums_turned_beside_places_of_rows_are_right() -> None:
    x, y = ARRAYS
    with Context(CHECK_KERNELS=1):
        found = _turned_sums_and_places().numpy()
    np.testing.assert_allclose(found, x.sum(0).T + y.argmax(1)[:, None], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "int32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 1000), 1), ((1000, 33), 0), ((70, 1100), None)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_of_equals_the_first_is_found(
    dtype: str, shape: tuple[int, ...], axis: int | None, name: str
) -> None:
    numbers = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    x = Tensor(numbers, device="CPU").realize()
    with Context(CHECK_KERNELS=1):
        found = getattr(x, name)(axis).numpy()
    np.testing.assert_array_equal(found, getattr(numbers, name)(axis))


@pytest.mark.parametrize("value", [np.nan, -np.inf, -0.0])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_without_a_greatest_number_have_their_first_place(value: float, axis: int) -> None:
    x = np.full((600, 600), value, np.float16)
    x[:, -1] = x[-1] = min(value, 0.0) if value == value else 1
    found = Tensor(x, device="CPU").argmax(axis).numpy()
    np.testing.assert_array_equal(found, x.astype(np.float64).argmax(axis))


@pytest.mark.parametrize("word", ["argmax", "argmin"])
def test_places_are_found_in_the_loops_of_what_is_stored_anyway(word: str) -> None:
    numbers = np.random.default_rng(2).integers(-99, 99, (2049, 8195)).astype(np.float32)
    numbers[:, 7000] = np.nan
    doubled = Tensor(numbers, device="CPU").realize() * 2
    place = getattr(doubled, word)(1)
    assert len(scheduled([(doubled.node, "CPU"), (place.node, "CPU")])) == 1
    with Context(CHECK_KERNELS=1):
        Tensor.realize(doubled, place)
    np.testing.assert_array_equal(place.numpy(), getattr(numbers, word)(1))
