"""Sums of products under a condition: what that hides counts as nothing, infinite or not."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Context, Tensor

SIZES = [(64, 100, 64), (192, 96, 192), (33, 257, 80)]


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("rows", "steps", "columns"), SIZES)
@pytest.mark.parametrize("loops", ["k", "mk", "nk", "mnk"])
@pytest.mark.parametrize("hidden", [np.inf, np.nan])
@pytest.mark.parametrize("side", [0, 1])
def test_a_condition_on_values_hides_what_is_infinite(rows, steps, columns, loops, hidden, side):
    rng = np.random.default_rng(rows)
    x, y = numbers(rng, rows, steps, 1), numbers(rng, 1, steps, columns)
    sizes = {"m": rows, "k": steps, "n": columns}
    shape = [size if name in loops else 1 for name, size in sizes.items()]
    keep = rng.random(shape) > 0.5
    # Hidden wherever no result shows it.
    if side == 0:
        x[np.broadcast_to(~keep, (rows, steps, columns)).all(2, keepdims=True)] = hidden
    else:
        y[np.broadcast_to(~keep, (rows, steps, columns)).all(0, keepdims=True)] = hidden
    with np.errstate(invalid="ignore"):
        right = np.where(keep, x.astype(np.float64) * y, 0).sum(1)
    mask = Tensor(keep).realize()
    with Context(CHECK_KERNELS=1):
        found = mask.where(Tensor(x).realize() * Tensor(y).realize(), 0).sum(1).numpy()
    np.testing.assert_allclose(found, right, atol=1e-3)


@pytest.mark.parametrize(("rows", "steps", "columns"), [*SIZES, (150, 16_999, 24)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("hidden", [np.inf, np.nan])
def test_what_lies_beside_a_part_of_memory_does_not_count(rows, steps, columns, turned, hidden):
    rng = np.random.default_rng(columns)
    x = np.full((rows + 8, steps + 60), hidden, np.float32)
    y = np.full((steps + 60, columns + 8), hidden, np.float32)
    x[:rows, :steps], y[:steps, :columns] = numbers(rng, rows, steps), numbers(rng, steps, columns)
    one = Tensor(np.ascontiguousarray(x.T)).realize().T if turned else Tensor(x).realize()
    other = Tensor(np.ascontiguousarray(y.T)).realize().T if turned else Tensor(y).realize()
    right = x[:rows, :steps].astype(np.float64) @ y[:steps, :columns]
    found = (one[:rows, :steps] @ other[:steps, :columns]).numpy()
    np.testing.assert_allclose(found, right, atol=2e-3)


@pytest.mark.parametrize(("rows", "steps", "columns"), SIZES)
@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("hidden", [np.inf, np.nan])
def test_padded_parts_of_memory_end_where_they_do(rows, steps, columns, before, hidden):
    rng = np.random.default_rng(columns)
    x = np.full((rows, steps + 60), hidden, np.float32)
    y = np.full((steps + 60, columns), hidden, np.float32)
    inside = slice(8, 8 + steps)
    x[:, inside], y[inside] = numbers(rng, rows, steps), numbers(rng, steps, columns)
    one, other = Tensor(x).realize()[:, inside], Tensor(y).realize()[inside]
    found = one.pad(((0, 0), (before, 4))) @ other.pad(((before, 4), (0, 0)))
    right = x[:, inside].astype(np.float64) @ y[inside]
    np.testing.assert_allclose(found.numpy(), right, atol=1e-3)


@pytest.mark.parametrize("size", [64, 100, 192])
@pytest.mark.parametrize("make", ["product", "convolution", "chain"])
@pytest.mark.parametrize("end", ["none", "sum", "mean of columns"])
def test_a_condition_that_never_holds_leaves_no_product(size, make, end):
    rng = np.random.default_rng(size)
    x, y = (Tensor(numbers(rng, size, size)).realize() for _ in range(2))
    if make == "convolution":
        made = x.reshape(1, 1, size, size).conv2d(y[:5, :5].reshape(1, 1, 5, 5), padding=2)[0, 0]
    else:
        made = (x @ y).relu() @ y if make == "chain" else x @ y
    never = Tensor.arange(size) >= size
    masked = never.where(made, 0.0), never.where(2.0, made)
    ends = {"none": lambda x: x, "sum": Tensor.sum, "mean of columns": lambda x: x.mean(0)}
    for found, right in zip(masked, (0 * made.numpy(), made.numpy()), strict=True):
        expected = ends[end](Tensor(right.astype(np.float64))).numpy()
        np.testing.assert_allclose(ends[end](found).numpy(), expected, rtol=1e-4, atol=1e-3)
