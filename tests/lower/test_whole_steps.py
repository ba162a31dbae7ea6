"""Loops whose last step alone is masked: it stands behind them, and the others have no masks."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.choices import choices_of
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.ir.views import Load, Store
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
SIZES = [33, 100, 776, 1031]


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def programs(tensor, target):
    """The linear programs of the one kernel of `tensor`, and the choices of its lowering."""
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    ast, _ = optimize(kernel.ast, parse_target(target))
    with choices_of() as found:
        phases = lower(ast, len(kernel.buffers), parse_target(target)).phases
    for phase in phases:
        verify_linear(phase.program)
    return [phase.program.src for phase in phases], found


def gated(nodes):
    loads = [Load.of(n) for n in nodes if n.op is Op.LOAD]
    stores = [Store.of(n) for n in nodes if n.op is Op.STORE]
    return sum(access.is_gated for access in (*loads, *stores))


def loops(program):
    """(how many steps, what stands in it) of each loop but the grid."""
    opened = []
    for place, node in enumerate(program):
        if node.op is Op.RANGE and node.arg.kind == "loop":
            opened.append(place)
        elif node.op is Op.END:
            first = opened.pop()
            yield loop_size(program[first]), program[first + 1 : place]


@pytest.mark.parametrize("target", TARGETS)
def test_no_step_but_the_last_has_masks(target):
    rows = Tensor(numbers(50, 776)).realize()
    (program,), found = programs(rows.softmax(1), target)
    assert "whole_steps" in found
    assert all(gated(body) == 0 for steps, body in loops(program) if steps > 1)
    assert gated(program) > 0


def test_what_fills_whole_vectors_is_left_alone():
    rows = Tensor(numbers(50, 768)).realize()
    _, found = programs(rows.softmax(1), "x86-64-v3")
    assert "whole_steps" not in found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["int8", "float16", "int32", "float32", "float64"])
def test_values_of_rows_of_any_length(size, kind):
    array = (numbers(9, size) * 20).astype(kind)
    column = (numbers(9, 1) * 20).astype(kind)
    x, y = Tensor(array, device="CPU").realize(), Tensor(column, device="CPU").realize()
    np.testing.assert_array_equal((x + y).numpy(), array + column)
    np.testing.assert_array_equal((x > y).numpy(), array > column)
    padded = np.pad(array, ((0, 0), (3, 5)))
    np.testing.assert_array_equal((x.pad(((0, 0), (3, 5))) + y).numpy(), padded + column)


@pytest.mark.parametrize("size", SIZES)
def test_rows_that_are_kept_and_their_statistics(size):
    array = numbers(9, size)
    x = Tensor(array, device="CPU").realize()
    wide = np.exp(array.astype(np.float64) - array.max(1, keepdims=True))
    softmax = wide / wide.sum(1, keepdims=True)
    np.testing.assert_allclose(x.softmax(1).numpy(), softmax, rtol=2e-6)
    (gradient,) = x.softmax(1).gradient(x, gradient=Tensor(array[::-1].copy(), device="CPU"))
    weighted = softmax * array[::-1]
    exact = weighted - softmax * weighted.sum(1, keepdims=True)
    np.testing.assert_allclose(gradient.numpy(), exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("size", SIZES)
def test_conditions_that_are_values_themselves(size):
    places = Tensor.arange(size, device="CPU")
    below = (places < size - 1).reshape(1, size).expand(5, size)
    x = Tensor(numbers(5, size), device="CPU").realize()
    found = below.where(x, 7.0).contiguous().numpy()
    expected = x.numpy().copy()
    expected[:, -1] = 7.0
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(below.contiguous().numpy()[:, -1], np.zeros(5, bool))


def test_bits_of_integers_are_no_conditions():
    array = np.arange(50 * 1001, dtype=np.int32).reshape(50, 1001)
    x = Tensor(array, device="CPU").realize()
    found = ((x & 12) | 3).sum(1)
    for target in TARGETS:
        _, choices = programs(found, target)
        assert "whole_steps" in choices
    np.testing.assert_array_equal(found.numpy(), ((array & 12) | 3).sum(1))


def test_a_condition_that_another_chooses_is_known_too():
    """Of all steps of 16 but the last, both conditions are known: one is what the WHERE gives."""
    places = np.arange(1000)
    array = numbers(50, 1000) > 0
    here = Tensor.arange(1000.0, device="CPU").reshape(1, 1000).expand(50, 1000)
    mask = Tensor(array, device="CPU").realize()
    found = (here < 993).where(here < 995, mask).sum(1)
    for target in TARGETS:
        _, choices = programs(found, target)
        assert "whole_steps" in choices
    expected = np.where(places < 993, places < 995, array).sum(1)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_quotients_of_negative_numbers_are_rounded_as_machines_do():
    """Which places lie between others is asked of negative numbers, which count down."""
    shapes = (1, 120, 28), (240, 1, 7)
    given = [numbers(*shape) for shape in shapes]
    found, exact = (
        _gradient(*(Tensor(v.astype(kind), device=device) for v in given))
        for kind, device in (("float32", "CPU"), ("float64", "REF"))
    )
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)


def _gradient(x, w):
    result = x.conv2d(w, groups=120, stride=(3,), dilation=(4,), padding=(7,))
    weights = (result * 0 + 1).cumsum(2) - result.shape[2] / 2
    return result.gradient(x, gradient=weights)[0].numpy()
