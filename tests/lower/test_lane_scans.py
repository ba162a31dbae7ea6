"""Scans along rows run in the lanes of vectors."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.run import scheduled
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

TARGETS = {name: parse_target(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4")}
RANDOM = np.random.default_rng(8)


def schedule_of(tensor, target):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    ast, log = optimize(kernel.ast, target)
    (phase,) = lower(ast, len(kernel.buffers), target).phases
    verify_linear(phase.program)
    return log, phase.program.src


def ones(*shape):
    return Tensor.ones(*shape, device="CPU").realize()


@pytest.mark.parametrize("name", TARGETS)
def test_a_row_is_loaded_and_stored_in_whole_vectors(name):
    log, nodes = schedule_of(ones(6, 256).cumsum(1), TARGETS[name])
    assert "lane_scan" in log.choices()
    counts = {n.dtype.count if n.op is Op.LOAD else n.src[2].dtype.count
              for n in nodes if n.op in (Op.LOAD, Op.STORE)}  # fmt: skip
    assert counts == {TARGETS[name].vector_bytes // 4}


@pytest.mark.parametrize(
    "scan",
    [
        pytest.param(lambda x: x.cumsum(0), id="down columns"),
        pytest.param(lambda x: x.cumprod(1), id="products, whose parts may overflow alone"),
        pytest.param(lambda x: x[:, ::2].cumsum(1), id="elements apart"),
        pytest.param(lambda x: x[:, :8].cumsum(1), id="rows shorter than two vectors"),
    ],
)
def test_other_scans_take_their_steps_one_by_one(scan):
    log, _ = schedule_of(scan(ones(6, 256)), TARGETS["x86-64-v4"])
    assert "lane_scan" not in log.choices()


@pytest.mark.parametrize("size", [32, 33, 255, 4099])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "uint64"])
def test_running_sums_and_maxima_of_rows(dtype, size):
    x = (RANDOM.standard_normal((3, size)) * 20).astype(dtype)
    mine = Tensor(x, device="CPU")
    exact = np.cumsum(x.astype(np.longdouble), 1) if dtype[0] == "f" else np.cumsum(x, 1)
    sums = mine.cumsum(1).numpy()
    if dtype[0] == "f":
        # totals of float32 are float64; those of float64 are added as NumPy adds them, or in lanes
        one_by_one = np.abs(np.cumsum(x, 1) - exact).max() if dtype == "float64" else 0
        error = np.abs(sums - exact).max()
        assert error <= np.finfo(dtype).eps * 4 * np.abs(exact).max() + one_by_one
    else:
        np.testing.assert_array_equal(sums, exact.astype(sums.dtype))
    np.testing.assert_array_equal(mine.cummax(1)[0].numpy(), np.maximum.accumulate(x, 1))


def test_infinities_and_nans_stay_from_where_they_are():
    x = np.ones((2, 64), np.float32)
    x[0, 20], x[1, 33], x[1, 50] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = np.cumsum(x, 1)
    np.testing.assert_array_equal(Tensor(x, device="CPU").cumsum(1).numpy(), expected)


def test_half_types_add_in_float32():
    x = Tensor.ones(2, 3000, device="CPU", dtype=dtypes.float16).cumsum(1)
    np.testing.assert_array_equal(x.numpy()[1], np.arange(1, 3001).astype(np.float16))
