"""Phases that share a grid are one, and one loop in that where they share loops."""

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.devices import Device
from treadle.ir.loops import closed_ranges
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.optimize.output_reductions import ShareLoops

SHAPES = [(1100, 1024), (1100, 1031), (1300000,), (1300001,), (2, 600011)]


def phases(*tensors):
    """The phases of the one kernel that computes `tensors`."""
    (kernel,) = tensors[0].schedule(*tensors[1:])
    target = Device["CPU"].target
    ast, moves = optimize(kernel.ast, target)
    assert moves.of_kind(ShareLoops)
    return lower(ast, len(kernel.buffers), target).phases


def filled(shape):
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return Tensor(data, device="CPU").realize()


def loaded(phase):
    """The argument of each load."""
    return [n.src[0].arg.slot for n in phase.program.src if n.op is Op.LOAD]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_output_and_its_total_are_one_loop(shape):
    y = filled(shape) * 2
    (both, *_, last) = phases(y, (y * y).sum())
    stored = {n.src[0].arg.slot for n in both.program.src if n.op is Op.STORE}
    assert len(stored) == 2  # the result, and the parts of the total
    updated = {n.src[-1] for n in both.program.src if n.op is Op.UPDATE}
    around = [n for n in both.program.src if n.op is Op.RANGE and n.arg.kind != "grid"]
    assert updated <= set(around)
    assert len(set(loaded(both))) == 1
    assert not last.grid


def test_what_fills_vectors_has_no_masks():
    y = filled((1100, 1031)) * 2
    both = phases(y, y.sum())[0]
    loops = [n for n in both.program.src if n.op is Op.RANGE and n.arg.kind != "grid"]
    inside = both.program.src[both.program.src.index(loops[0]) :]
    end = next(n for n, node in enumerate(inside) if node.op is Op.END)
    assert not any(n.op is Op.STORE and len(n.src) > 3 for n in inside[:end])


def test_totals_of_rows_take_no_second_phase():
    y = filled((1100, 1024)) + 1
    assert len(phases(y, y.sum(1))) == 1


def test_loops_belong_to_one_nest_until_it_is_scheduled():
    y = filled((1100, 1024)) + 1
    (kernel,) = y.schedule(y.sum())
    output, total = kernel.ast.src
    used = {n for n in total.toposort() if n.op is Op.RANGE}
    assert used.isdisjoint(closed_ranges(output))
