"""Reductions that the lanes of a wave share, of 32 and of 64, step by step on a machine."""

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.realized import current
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.schedule.passes import schedule
from treadle.target import amd_target

from .workgroups import run

X = np.random.default_rng(5).integers(-9, 9, (6, 300)).astype(np.float32)
PROGRAMS = {
    "sums": (lambda t: t.sum(1), lambda x: x.sum(1)),
    "largest": (lambda t: t.max(1), lambda x: x.max(1)),
    "rows without the largest": (lambda t: t - t.max(1, keepdim=True),
                                 lambda x: x - x.max(1, keepdims=True)),
    "any": (lambda t: (t > 7).any(1), lambda x: (x > 7).any(1)),
    "all": (lambda t: (t > -9).all(1), lambda x: (x > -9).all(1)),
}  # fmt: skip


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_lanes_of_a_wave_combine_what_all_work_items_have(name, chip):
    make, expected = PROGRAMS[name]
    target, x = amd_target(chip), Tensor(X, device="CPU").realize()
    (kernel,) = schedule(current([make(x).node])[0], "CPU", target)[0]
    low = lower(optimize(kernel.ast, target)[0], len(kernel.buffers), target)
    assert any(node.op is Op.SUBGROUP for phase in low.phases for node in phase.program.src)
    result, (out,) = expected(X), kernel.writes
    memory = {out: np.zeros(result.size, result.dtype), 1 - out: X.reshape(-1)}
    np.testing.assert_array_equal(run(low.phases, memory, target)[out], result.reshape(-1))
