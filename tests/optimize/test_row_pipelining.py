"""Rows on their way one behind the other: where that is done, and that nobody can tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.choices import choices_of, observing
from treadle.ir.loops import has_fixed_size, loop_size
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.lower.passes import lower
from treadle.lower.streams import STREAM
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

from ..choices.running import changed_target

TARGET = replace(parse_target("x86-64-v4"), l1=48 << 10, l2=1 << 20, l3=1 << 20)
NARROW = replace(parse_target("x86-64-v3"), l1=48 << 10, l2=1 << 20, l3=1 << 20)
RANDOM = np.random.default_rng(7)

ROWS = {
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "layer norm": lambda x: x.layernorm(),
    "RMS norm": lambda x: x * (x.square().mean(1, keepdim=True) + 1e-6).rsqrt(),
    "less its mean": lambda x: x - x.mean(1, keepdim=True),
    "weights of a softmax, and their places": lambda x: (
        x.softmax(1) * Tensor.arange(x.shape[1], device=x.device)
    ),
    "what its largest is": lambda x: x.softmax(1) + x.max(1, keepdim=True),
    "shares of cubes": lambda x: x**3 / (x.abs() ** 3).sum(1, keepdim=True),
    "of a softmax of a softmax": lambda x: x.softmax(1).softmax(1),
}


def where_its_largest_is(x: Tensor) -> Tensor:
    """The place is looked for in two levels."""
    return x.softmax(1) + x.argmax(1, keepdim=True)


def made(function, rows, columns, target=TARGET):
    """(choices, phases) of the kernel that computes `function` of rows of floats."""
    x = Tensor.ones(rows, columns, device="CPU").realize()
    kernel = scheduled([(function(x).node, "CPU")])[-1]
    with choices_of() as choices:
        ast, _ = optimize(kernel.ast, target)
    return choices, lower(ast, len(kernel.buffers), target).phases


@pytest.fixture
def small_caches():
    """What is stored counts as too large for caches from 256 KiB on; the kernels that run."""
    with changed_target("CPU", l3=512 << 10), observing() as seen:
        yield seen


def is_done(seen):
    return any("row_pipelining" in choices for choices in seen.kernels)


@pytest.mark.parametrize("target", [TARGET, NARROW], ids=["16 lanes", "8 lanes"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer norm", "RMS norm"])
def test_one_loop_computes_rows_to_come_and_stores(name, target):
    choices, (phase,) = made(ROWS[name], 4096, 1024, target)
    assert "row_pipelining" in choices
    assert loop_size(*phase.grid) == 4096 // 32
    verify_linear(phase.program)
    program = list(phase.program.src)
    places = [n for n, node in enumerate(program) if node.op is Op.STORE and node.arg == STREAM]
    begin = max(n for n, node in enumerate(program[: places[0]]) if node.op is Op.RANGE)
    end = next(n for n, node in enumerate(program) if n > begin and node.op is Op.END)
    assert begin < places[0] <= places[-1] < end
    assert any(node.op is Op.UPDATE for node in program[begin:end])


@pytest.mark.parametrize("rows", [4096, 4099])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer norm", "RMS norm"])
def test_the_row_that_comes_after_all_is_asked_for_once(name, rows):
    _, (phase,) = made(ROWS[name], rows, 1024)
    hints = [node for node in phase.program.src if node.op is Op.PREFETCH]
    assert len(hints) == 4  # a line for each of four vectors
    assert {hint.arg for hint in hints} == {1}
    block, turn = phase.grid[-1], 5
    (loop,) = {
        n
        for h in hints
        for n in h.src[1].toposort()
        if n.op is Op.RANGE and n.arg.kind == "loop" and has_fixed_size(n) and loop_size(n) == 16
    }
    others = {n for h in hints for n in h.src[1].toposort() if n.op is Op.RANGE} - {block, loop}
    (row,) = others
    at = {block: block.like(2), row: row.like(turn), loop: loop.like(0)}
    ahead = 1 if name == "RMS norm" else 2
    first = min(hint.src[1].substitute(at).value for hint in hints)
    assert first == (2 * 32 + turn + ahead + 1) * 1024


@pytest.mark.parametrize(
    ("function", "rows", "columns", "target"),
    [
        pytest.param(ROWS["softmax"], 1000, 1024, TARGET, id="few rows"),
        pytest.param(ROWS["softmax"], 4096, 512, TARGET, id="short rows"),
        pytest.param(ROWS["softmax"], 4096, 1000, TARGET, id="rows that fill no lines"),
        pytest.param(ROWS["softmax"], 1024, 1 << 16, TARGET, id="rows that fill the cache"),
        pytest.param(ROWS["softmax"], 4096, 1024, replace(TARGET, l3=1 << 26), id="cached"),
        pytest.param(lambda x: x - x.mean(0), 4096, 1024, TARGET, id="statistics of columns"),
        pytest.param(lambda x: x * 2 + 1, 4096, 1024, TARGET, id="no statistics"),
        pytest.param(where_its_largest_is, 4096, 1024, TARGET, id="a place"),
        pytest.param(lambda x: x.softmax(1).sum(1), 4096, 1024, TARGET, id="results of rows"),
    ],
)
def test_others_are_computed_in_turn(function, rows, columns, target):
    choices, _ = made(function, rows, columns, target)
    assert "row_pipelining" not in choices


def compared(function, data):
    return function(Tensor(data, device="CPU")).numpy(), function(
        Tensor(data, device="REF")
    ).numpy()


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        pytest.param(1024, 1024, id="whole blocks"),
        pytest.param(1033, 1088, id="a last block of one row"),
        pytest.param(1055, 2048, id="a last block of a row less"),
    ],
)
@pytest.mark.parametrize("name", ROWS)
def test_results_are_the_interpreters(small_caches, name, rows, columns):
    data = RANDOM.standard_normal((rows, columns)).astype(np.float32)
    found, wanted = compared(ROWS[name], data)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
    assert is_done(small_caches)


def test_results_with_a_place_are_the_interpreters(small_caches):
    data = RANDOM.standard_normal((1033, 1088)).astype(np.float32)
    found, wanted = compared(where_its_largest_is, data)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", ["softmax", "layer norm"])
def test_other_floats_are_too(small_caches, name, dtype):
    data = RANDOM.standard_normal((1041, 2048)).astype(dtype)
    found, wanted = compared(ROWS[name], data)
    rtol, atol = (2e-3, 2e-3) if dtype == "float16" else (1e-12, 1e-14)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
    assert is_done(small_caches)


def test_rows_of_a_batch_are_too(small_caches):
    data = RANDOM.standard_normal((40, 33, 1024)).astype(np.float32)
    found, wanted = compared(lambda x: (x * 2).softmax(2) + 1, data)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert is_done(small_caches)


def test_a_mask_and_what_is_no_number_stay_in_their_rows(small_caches):
    data = RANDOM.standard_normal((1049, 1024)).astype(np.float32)
    data[5, 7], data[31, 0], data[32, 1023], data[1048] = np.nan, np.inf, -np.inf, -np.inf
    data[100, 1:] = -np.inf
    found, wanted = compared(ROWS["softmax"], data)
    assert is_done(small_caches)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
    assert set(np.flatnonzero(np.isnan(found).any(1))) == {5, 31, 1048}
    assert found[100, 0] == 1
