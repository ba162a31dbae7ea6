"""Variances in one pass: as exact as two in float64, and once through memory."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Context, Tensor
from treadle.ir.op import Op
from treadle.optimize.heuristic import optimize
from treadle.optimize.moves import Moves
from treadle.optimize.variance import WidenSums
from treadle.target import parse_target

SHAPES = [((64, 100), 1), ((1000, 64), 0), ((3, 20_000), 1), ((20_000, 3), None), ((7, 33, 65), 1)]


def _sums(*tensors: Tensor) -> int:
    """How many different sums the one kernel of `tensors` has behind the move."""
    (kernel,) = tensors[0].schedule(*tensors[1:])
    moves = Moves(kernel.ast, parse_target("x86-64-v3"))
    moves.make(WidenSums())
    return sum(n.op is Op.REDUCE for n in moves.root.toposort())


@pytest.mark.parametrize("first", [None, 1e4, 1e10])
@pytest.mark.parametrize("mean", [0, 1e3, 1e6, -1e8])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_a_variance_is_rounded_once(
    shape: tuple[int, ...], axis: int | None, mean: float, first: float | None
) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) + mean).astype(np.float32)
    if first is not None:
        x[(0,) * len(shape)] = first
    with Context(CHECK_KERNELS=1):
        found = Tensor(x, device="CPU").var(axis, correction=0).numpy()
    np.testing.assert_allclose(found, x.astype(np.float64).var(axis), rtol=1.2e-7)


def test_the_mean_beside_a_variance_takes_no_sum_of_its_own() -> None:
    x = Tensor(np.zeros((64, 100), np.float32), device="CPU").realize()
    assert _sums(x.var(1)) == _sums(*x.var_mean(1)) == 2


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_shows_in_mean_and_variance(place: int, value: float) -> None:
    x = np.ones((2, 50), np.float32)
    x[1, place] = value
    var, mean = (t.numpy() for t in Tensor(x, device="CPU").var_mean(1, correction=0))
    np.testing.assert_array_equal(mean, [1, value])
    np.testing.assert_array_equal(var, [0, np.nan])


def test_a_variance_of_sums_takes_two_passes() -> None:
    a, b = (Tensor(np.ones((16, 16), np.float32), device="CPU").realize() for _ in range(2))
    np.testing.assert_array_equal((a @ b).var(1).numpy(), np.zeros(16))


def test_reductions_of_one_loop_are_cut_together() -> None:
    x = Tensor(np.zeros(1 << 20, np.float32), device="CPU").realize()
    (kernel,) = (x.max() - x.min()).schedule()
    ast, _ = optimize(kernel.ast, parse_target("x86-64-v3"))
    stages = {n for n in ast.toposort() if n.op is Op.STAGE}
    assert len({stage.src[0] for stage in stages}) == 1
