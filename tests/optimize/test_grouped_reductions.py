"""Several products of one nest in one register tile: on which targets, of which sizes."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.grouped_reductions import TileGroup
from treadle.optimize.heuristic import optimize
from treadle.optimize.parameters import Parameters
from treadle.target import parse_target

TARGETS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")


def filled(*shape, seed=0):
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Tensor(data, device="CPU").realize()


def cell(rows=32, steps=64, width=96, inputs=0):
    """Three gates of a product, or of the sum of two."""
    total = filled(rows, steps) @ filled(steps, 3 * width, seed=1)
    if inputs:
        total = total + filled(rows, inputs, seed=2) @ filled(inputs, 3 * width, seed=3) + 1
    one, two, three = total.chunk(3, dim=1)
    return one.sigmoid() * two + three


def kernel(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    return kernel


@pytest.mark.parametrize("arch", TARGETS)
def test_all_products_of_a_nest_get_one_tile_that_fits_the_registers(arch):
    target = parse_target(arch)
    ast, log = optimize(kernel(cell(inputs=32)).ast, target)
    assert len(log.of_kind(TileGroup)) == 1
    panels = {n for n in ast.toposort() if n.op is Op.STAGE and n.arg.scope == "shared"}
    assert len(panels) == 6
    unrolled = {r for r in ast.toposort() if r.op is Op.RANGE and r.arg.kind == "unroll"}
    stored = ast.src[-1].src[0]
    rows = [r for r in unrolled if r in stored.src[1].toposort()]
    count = 3 * loop_size(*rows)
    assert 3 <= count < target.vector_registers


def test_the_second_product_of_a_sum_goes_on_where_the_first_ended():
    target = parse_target("x86-64-v4")
    found = kernel(cell(inputs=32))
    ast, _ = optimize(found.ast, target)
    program = lower(ast, len(found.buffers), target).phases[-1].program
    starts = [n.src[0] for n in program.src if n.op is Op.REGISTER]
    going_on = [start for start in starts if start.op is Op.AFTER]
    assert 2 * len(going_on) == len(starts) > 0


@pytest.mark.parametrize("rows", [4, 7, 32, 33])
@pytest.mark.parametrize(("width", "inputs"), [(16, 0), (40, 24), (96, 300)])
def test_values_of_awkward_sizes(rows, width, inputs):
    def parts(steps, seed):
        x, w = filled(rows, steps, seed=seed), filled(steps, 3 * width, seed=seed + 1)
        return x.numpy().astype(np.float64) @ w.numpy().astype(np.float64)

    total = parts(64, 0) + (parts(inputs, 2) + 1 if inputs else 0)
    one, two, three = np.split(total, 3, axis=1)
    expected = two / (1 + np.exp(-one)) + three
    np.testing.assert_allclose(
        cell(rows, 64, width, inputs).numpy(), expected, rtol=1e-4, atol=2e-4
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("steps", [1000, 4032])  # of one kernel, and of products that are stored
@pytest.mark.parametrize("axis", [0, 1])
def test_running_totals_of_masked_products(axis, steps, dtype):
    mask = np.arange(steps) % 5 > 0
    total, expected = 0, 0
    for seed in (0, 2):
        x, y = (filled(steps, n, seed=seed + i).cast(dtype) for i, n in enumerate((7, 64)))
        product = x.reshape(steps, 7, 1) * y.reshape(steps, 1, 64)
        total = total + Tensor(mask).reshape(steps, 1, 1).where(product, 0).sum(0)
        expected = expected + x.numpy().astype(np.float64)[mask].T @ y.numpy()[mask]
    tolerance = 1e-3 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(
        total.cumsum(axis).numpy(), expected.cumsum(axis), rtol=0, atol=tolerance
    )


def test_a_search_may_leave_them_without_tiles():
    _, log = optimize(kernel(cell()).ast, parse_target("x86-64-v4"), Parameters(is_tiled=False))
    assert not log.of_kind(TileGroup)
