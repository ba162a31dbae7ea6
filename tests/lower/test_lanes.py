"""Loads that are not contiguous: pieces of rows, and square blocks turned in registers."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Device, Tensor
from treadle.ir.choices import observing
from treadle.ir.evaluate import evaluate
from treadle.ir.loops import TRUE
from treadle.ir.node import Node
from treadle.lower.lanes import lane_condition, segments

LANES = Node.range(8, 0, "vector")
BLOCK = Node.range(12, 1, "grid")


def flat(length, stride):
    """Where element `8 * block + lane` of rows of `length` lies, `stride` apart."""
    position = BLOCK * 8 + LANES
    return position // length * stride + position % length


@pytest.mark.parametrize(("length", "stride"), [(8, 10), (9, 9), (20, 24), (5, 7), (7, 40)])
def test_segments_read_what_the_index_reads(length, stride):
    index = flat(length, stride)
    pieces = segments(index, TRUE, LANES)
    assert pieces is not None
    for block in range(12):
        at = {BLOCK: block}
        firsts = [int(evaluate(p.first, at)) for p in pieces]
        assert firsts[0] <= 0
        for lane in range(8):
            piece = pieces[max(n for n, first in enumerate(firsts) if first <= lane)]
            expected = int(evaluate(index, {BLOCK: block, LANES: lane}))
            assert int(evaluate(piece.base, at)) + lane == expected


def test_rows_much_shorter_than_a_vector_are_no_segments():
    assert segments(flat(3, 5), TRUE, LANES) is None


def test_rows_of_two_lengths_are_no_segments():
    position = BLOCK * 8 + LANES
    assert segments(position // 9 * 11 + position % 10, TRUE, LANES) is None


def test_steps_inside_of_a_row_are_no_segments():
    position = BLOCK * 8 + LANES
    assert segments(position // 9 * 50 + position % 9 * 2, TRUE, LANES) is None


@pytest.mark.parametrize("step", [-3, -2, -1, 1, 2, 3, 4])
@pytest.mark.parametrize(("first", "each"), [(0, 1), (8, 2), (0, 3), (16, 3)])
def test_a_comparison_of_strided_lanes(step, first, each):
    condition = LANES * step + BLOCK < 6
    found = lane_condition(condition, LANES, first, each)
    lanes = (first + np.arange(8)) // each
    for block in range(12):
        expected = lanes * step + block < 6
        np.testing.assert_array_equal(evaluate(found, {BLOCK: block}), expected)


@pytest.mark.parametrize("kind", ["int8", "float16", "int32", "float32", "float64"])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("count", [3, 16, 64, 101])
def test_elements_a_few_apart_are_read_and_written_alone(kind, step, count):
    rng = np.random.default_rng(step)
    array = rng.integers(-100, 100, (3, (count - 1) * step + 2)).astype(kind)
    x = Tensor(array, device="CPU").realize()
    np.testing.assert_array_equal((x[:, 1::step] + 1).numpy(), array[:, 1::step] + 1)
    padded = np.pad(array[:, ::step], ((0, 0), (2, 3)))
    wide = x.pad(((0, 0), (2 * step, 3 * step)))[:, ::step]
    np.testing.assert_array_equal((wide * 2).numpy()[:, : count + 5], padded[:, : count + 5] * 2)
    new = rng.integers(-100, 100, (3, count)).astype(kind)
    x[:, 1::step] = Tensor(new, device="CPU") + 1
    array[:, 1::step] = new + 1
    np.testing.assert_array_equal(x.numpy(), array)


@pytest.mark.parametrize("kind", ["int8", "float16", "int32", "float32", "float64"])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("count", [3, 16, 64, 101])
def test_elements_are_read_and_written_backwards(kind, step, count):
    rng = np.random.default_rng(step)
    array = rng.integers(-100, 100, (3, (count - 1) * step + 2)).astype(kind)
    x = Tensor(array, device="CPU").realize()
    np.testing.assert_array_equal((x[:, ::-step] + 1).numpy(), array[:, ::-step] + 1)
    padded = np.pad(array, ((0, 0), (2, 5)))[:, ::-step]
    wide = x.pad(((0, 0), (2, 5)))[:, ::-step]
    np.testing.assert_array_equal((wide * 2).numpy(), padded * 2)
    new = rng.integers(-100, 100, array[:, ::-step].shape).astype(kind)
    x[:, ::-step] = Tensor(new, device="CPU") + 1
    array[:, ::-step] = new + 1
    np.testing.assert_array_equal(x.numpy(), array)
    moved = Tensor(array, device="CPU").realize()
    moved.flip(1).assign(moved)
    np.testing.assert_array_equal(moved.numpy(), array[:, ::-1])


def test_rows_backwards_are_whole_vectors():
    if not Device["CPU"].target.has_masked_memory:
        pytest.skip("this processor has no masked memory")
    x = Tensor(np.arange(7 * 150, dtype=np.float32).reshape(7, 150), device="CPU").realize()
    with observing() as seen:
        found = x.flip(1).contiguous().numpy()
    np.testing.assert_array_equal(found, x.numpy()[:, ::-1])
    assert "strided_lanes" in seen.reached()


@pytest.mark.parametrize("kind", ["int8", "float16", "int32", "float32", "float64", "int64"])
@pytest.mark.parametrize(
    ("shape", "order"),
    [((64, 64), (1, 0)), ((37, 53), (1, 0)), ((16, 17), (1, 0)), ((3, 33, 40), (0, 2, 1)),
     ((5, 20, 24), (2, 1, 0)), ((2, 18, 4, 19), (3, 2, 1, 0)), ((20, 3, 50), (1, 2, 0))],
)  # fmt: skip
def test_permuted_copies(kind, shape, order):
    array = np.random.default_rng(0).integers(-100, 100, shape).astype(kind)
    found = Tensor(array, device="CPU").permute(*order).contiguous().numpy()
    np.testing.assert_array_equal(found, array.transpose(order))


def test_a_transpose_inside_of_a_computation():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((45, 70), (70, 45)))
    x, y = Tensor(a, device="CPU"), Tensor(b, device="CPU")
    np.testing.assert_allclose((x.T * 2 + y).numpy(), a.T * 2 + b, rtol=1e-6)
    padded = (x.T + y).pad(((1, 2), (3, 0))).numpy()
    np.testing.assert_allclose(padded, np.pad(a.T + b, ((1, 2), (3, 0))), rtol=1e-6)
