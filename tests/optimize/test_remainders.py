"""Long rows that fill no whole vectors: their ends are reductions of their own."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.op import Op
from treadle.optimize.heuristic import optimize
from treadle.optimize.reduction_moves import CutOffRemainders
from treadle.target import parse_target

TARGET = parse_target("x86-64-v3")
ROWS = np.random.default_rng(3).standard_normal((3, 1031)).astype(np.float32)


def optimized(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    return optimize(kernel.ast, TARGET)


def masked_sizes(ast):
    """The sizes of the reductions' loops whose loads have a condition."""
    found = (n for n in ast.toposort() if n.op is Op.REDUCE)
    masked = lambda n: any(m.op is Op.LOAD and len(m.src) > 2 for m in n.src[0].toposort())
    return [n.src[1].src[0].arg for n in found if masked(n)]


def test_only_the_end_of_a_row_is_masked():
    ast, log = optimized(Tensor(ROWS).realize().sum(1))
    assert [move.block for move in log.of_kind(CutOffRemainders)] == [32]
    assert max(masked_sizes(ast), default=0) < 1031 // 32


@pytest.mark.parametrize("size", [1024, 320, 31])
def test_whole_blocks_and_short_rows_are_left_alone(size):
    _, log = optimized(Tensor(ROWS[:, :size]).realize().sum(1))
    assert not log.of_kind(CutOffRemainders)


def test_reductions_of_each_other_and_of_the_same_row_agree_with_numpy():
    x = Tensor(ROWS).realize()
    exact = ROWS.astype(np.float64)
    powers = np.exp(exact - exact.max(1, keepdims=True))
    softmax = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(x.softmax(1).numpy(), softmax, rtol=2e-6)
    np.testing.assert_allclose(x.logsumexp(1).numpy(), np.log(np.exp(exact).sum(1)), rtol=1e-6)
    np.testing.assert_allclose(x.var(1).numpy(), exact.var(1, ddof=1), rtol=1e-5)
    assert x.argmax(1).tolist() == exact.argmax(1).tolist()


@pytest.mark.parametrize("place", [0, 1023, 1024, 1030])
def test_extremes_and_nans_are_found_at_the_end_of_a_row(place):
    x = ROWS.copy()
    x[1, place], x[2, place] = 100.0, np.nan
    got = Tensor(x).max(1).numpy()
    assert got[1] == 100.0
    assert np.isnan(got[2])
    assert Tensor(x).argmax(1).tolist()[1:] == [place, place]
