"""Loops are one although a condition asks where the outer one is: joined and padded short rows."""

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.choices import observing
from treadle.optimize.heuristic import optimize
from treadle.optimize.loop_digits import Merge
from treadle.target import parse_target

RNG = np.random.default_rng(3)
# What is joined along the axis before the last, and how long rows are.
JOINED = [((64, 64, 64), 2), ((64, 64, 64), 3), ((33, 70, 5), 1), ((17, 200), 5), ((1, 900), 7)]


def numbers(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def choices_of(tensor):
    with observing() as seen:
        tensor.realize()
    return seen.reached()


@pytest.mark.parametrize(("sizes", "length"), JOINED)
@pytest.mark.parametrize("instructions", ["", ":LLVM:x86-64-v3", ":LLVM:x86-64-v2"])
def test_short_rows_are_joined(sizes, length, instructions):
    device = f"CPU{instructions}"
    arrays = [numbers(27, 56, size, length) for size in sizes]
    first, *others = [Tensor(array, device=device, requires_grad=True) for array in arrays]
    found = first.cat(*others, dim=2)
    assert "merged_loops" in choices_of(found)
    joined = np.concatenate(arrays, 2)
    np.testing.assert_array_equal(found.numpy(), joined)
    slope = numbers(*joined.shape)
    (found * Tensor(slope, device=device)).sum().backward()
    ends = np.cumsum(sizes)[:-1]
    for tensor, expected in zip((first, *others), np.split(slope, ends, 2), strict=True):
        np.testing.assert_array_equal(tensor.grad.numpy(), expected)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("around", [(3, 0), (0, 61), (7, 9), (-3, 4)])
def test_short_rows_are_padded_and_cut(length, around):
    array = numbers(200, 61, length)
    found = Tensor(array, device="CPU").realize().pad((None, around, None), value=2.5)
    before, behind = (max(0, n) for n in around)
    cut = array[:, max(0, -around[0]) :]
    expected = np.pad(cut, ((0, 0), (before, behind), (0, 0)), constant_values=2.5)
    np.testing.assert_array_equal(found.numpy(), expected)
    sums = 2 * expected.astype(np.float64).sum((1, 2))
    np.testing.assert_allclose((found * 2).sum((1, 2)).numpy(), sums, rtol=1e-4, atol=1e-3)


def test_a_condition_with_other_loops_keeps_them_apart():
    array = numbers(40, 24, 24)
    found = Tensor(array, device="CPU").realize().tril()
    np.testing.assert_array_equal(found.numpy(), np.tril(array))


def test_a_condition_of_the_inner_loop_keeps_them_apart():
    x = Tensor(numbers(300, 40), device="CPU").realize()
    found = (Tensor.arange(40, device="CPU") < 7).where(x, 0.0).contiguous()
    assert "merged_loops" not in choices_of(found)
    expected = x.numpy().copy()
    expected[:, 7:] = 0
    np.testing.assert_array_equal(found.numpy(), expected)


def test_long_rows_have_one_condition_each():
    x = Tensor(numbers(40, 35, 18), device="CPU").realize()
    found = x.roll(9, 0)
    (kernel,) = scheduled([(found.node, "CPU")])
    _, schedule = optimize(kernel.ast, parse_target("x86-64-v4"))
    assert len(schedule.of_kind(Merge)) == 1  # those of a row
    np.testing.assert_array_equal(found.numpy(), np.roll(x.numpy(), 9, 0))
    np.testing.assert_array_equal(x.roll(5, 1).numpy(), np.roll(x.numpy(), 5, 1))
