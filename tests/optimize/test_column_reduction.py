"""Reductions and scans down columns: rows at a time, totals in the nearest cache; any shape."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.verify import verify_linear
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.optimize.reduction_moves import SplitReduction
from treadle.optimize.rows_of_totals import ColumnReduction
from treadle.target import parse_target

TARGETS = [parse_target(f"x86-64-v{level}") for level in (2, 3, 4)]
RANDOM = np.random.default_rng(7)
# Rows that fill blocks and parts, and rows and columns that do not; inner axes; the least.
SHAPES = [
    ((1024, 1024), 0), ((300, 1000), 0), ((1037, 517), 0), ((16, 4096), 0), ((23, 5000), 0),
    ((5, 131, 1031), 1), ((3, 20, 700), 1), ((256, 260), 0), ((15, 2048), 0),
]  # fmt: skip


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def log_of(tensor, target=TARGETS[-1]):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    ast, log = optimize(kernel.ast, target)
    for phase in lower(ast, len(kernel.buffers), target).phases:
        verify_linear(phase.program)
    return log


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.arch)
@pytest.mark.parametrize("columns", [2048, 128, 3])
@pytest.mark.parametrize("name", ["sum", "max", "argmin", "cumsum", "prod"])
def test_what_goes_down_columns_has_totals_but_scans_of_narrow_ones(name, columns, target):
    x = Tensor.ones(2048, columns, device="CPU").realize()
    log = log_of(getattr(x, name)(0), target)
    found = bool(log.of_kind(ColumnReduction))
    assert found == (name != "cumsum" or columns == 2048)


def test_long_columns_are_cut_into_parts_of_which_all_are_whole_where_that_is_possible():
    made = lambda rows: log_of(Tensor.ones(rows, 2048, device="CPU").realize().sum(0))
    chunks = lambda rows: [move.chunks for move in made(rows).of_kind(SplitReduction)]
    assert chunks(4096) == [32]
    assert chunks(1000) == [8]  # of 125 rows each
    assert chunks(200) == []


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_values_down_columns_agree_with_numpy(shape, axis):
    x = numbers(*shape)
    own, exact = Tensor(x, device="CPU").realize(), x.astype(np.float64)
    for name in ("sum", "mean", "var"):
        wanted = exact.var(axis, ddof=1) if name == "var" else getattr(exact, name)(axis)
        found = getattr(own, name)(axis).numpy()
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-5)
    for name in ("max", "min", "argmax", "argmin"):
        found = getattr(own, name)(axis).numpy()
        np.testing.assert_array_equal(found, getattr(x, name)(axis))
    np.testing.assert_array_equal(own.gt(2).any(axis).numpy(), (x > 2).any(axis))
    np.testing.assert_array_equal(own.gt(-3).all(axis).numpy(), (x > -3).all(axis))
    total, most = own.sum(axis), own.mul(2).max(axis)
    Tensor.realize(total, most)  # one kernel, two rows of totals
    error = lambda found: np.abs(found - exact.sum(axis)).max()
    assert error(total.numpy()) <= error(x.sum(axis))  # NumPy adds row after row
    np.testing.assert_array_equal(most.numpy(), (x * 2).max(axis))


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_scans_down_columns_agree_with_numpy(shape, axis):
    x = numbers(*shape)
    own, running = Tensor(x, device="CPU").realize(), np.cumsum(x, axis, np.float64)
    np.testing.assert_allclose(own.cumsum(axis).numpy(), running, rtol=2e-6, atol=1e-4)
    scaled = own.mul(2).cumsum(axis).add(1).numpy()
    np.testing.assert_allclose(scaled, running * 2 + 1, rtol=2e-6, atol=2e-4)
    extreme = own.cummax(axis)[0].numpy()
    np.testing.assert_array_equal(extreme, np.maximum.accumulate(x, axis))
    small = (x * 30).astype(np.int8)
    found = Tensor(small, device="CPU").cumsum(axis).numpy()
    np.testing.assert_array_equal(found, np.cumsum(small, axis, np.int32))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, np.int32, np.bool_])
@pytest.mark.parametrize(("shape", "axis"), SHAPES[:6], ids=str)
def test_ties_are_decided_for_the_first_place_in_all_dtypes(shape, axis, dtype):
    x = (numbers(*shape) * 2).astype(dtype)  # few different numbers
    own = Tensor(x, device="CPU").realize()
    np.testing.assert_array_equal(own.argmax(axis).numpy(), x.argmax(axis))
    np.testing.assert_array_equal(own.argmin(axis).numpy(), x.argmin(axis))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", [1040, 1037])
def test_extremes_and_their_places_wherever_they_are(size, axis):
    """At the ends of blocks, of parts, of lanes, and in what fills no block."""
    places = [0, 1, 7, 8, 15, 16, 127, 128, 511, 512, 1023, 1024, 1031, size - 1]
    x = numbers(size, size)
    for line, place in enumerate(places):
        at = (place, line) if axis == 0 else (line, place)
        x[at] = 50.0
        x[(size - 1, line) if axis == 0 else (line, size - 1)] = 50.0  # a later equal
    own = Tensor(x, device="CPU").realize()
    assert own.argmax(axis).tolist()[: len(places)] == places
    assert own.neg().argmin(axis).tolist()[: len(places)] == places
    np.testing.assert_array_equal(own.argmin(axis).numpy(), x.argmin(axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_nan_is_found_before_all_numbers_and_zeros_are_equal(axis):
    x = numbers(1037, 1037)
    for line, place in enumerate([0, 8, 130, 1024, 1036]):
        for later in (place, 1036):
            x[(later, line) if axis == 0 else (line, later)] = np.nan
    negative = np.float32(np.nan) * -1
    x[(500, 5) if axis == 0 else (5, 500)] = np.copysign(negative, -1)
    x[(3, 6) if axis == 0 else (6, 3)] = np.inf
    zeros = np.zeros((1037, 1037), np.float32)
    zeros[3:] = -0.0
    own = Tensor(x, device="CPU").realize()
    for name in ("argmax", "argmin", "max", "min"):
        found = getattr(own, name)(axis).numpy()
        np.testing.assert_array_equal(found, getattr(x, name)(axis))
        places = getattr(Tensor(zeros, device="CPU"), name)(axis).numpy()
        np.testing.assert_array_equal(places, 0)


def test_results_do_not_depend_on_the_number_of_threads():
    program = """
import hashlib, numpy as np
from treadle import Tensor
x = Tensor(np.random.default_rng(3).standard_normal((1037, 2052)).astype(np.float32)).realize()
results = [x.sum(0), x.argmax(0), x.argmax(1), x.cumsum(0), x.prod(0), x.var(0)]
print(hashlib.sha256(b"".join(r.numpy().tobytes() for r in results)).hexdigest())
"""
    digests = set()
    for count in ("1", "2", "3"):
        environment = {**os.environ, "DEV": "CPU", "EMULATE": "0", "CPU_COUNT": count}
        run = [sys.executable, "-c", program]
        digests.add(subprocess.check_output(run, env=environment, text=True).strip())
    assert len(digests) == 1
    assert len(digests.pop()) == hashlib.sha256().digest_size * 2


@pytest.mark.parametrize("shape", [(40, 975, 7), (6, 600, 130), (975, 4099), (3, 520, 2, 24)])
@pytest.mark.parametrize("word", ["argmax", "argmin"])
def test_extremes_in_the_first_rows_are_found_in_every_step_of_the_grid(shape, word):
    """What one step leaves in the memory of totals is nothing to the next one."""
    rng, axis = np.random.default_rng(0), 0 if len(shape) == 2 else 1
    values = rng.standard_normal(shape).astype(np.float32)
    places = rng.choice([0, 3, 8, shape[axis] // 2], (*shape[:axis], 1, *shape[axis + 1 :]))
    np.put_along_axis(values, places, 9 if word == "argmax" else -9, axis)
    found = getattr(Tensor(values, device="CPU"), word)(axis)
    np.testing.assert_array_equal(found.numpy(), places.squeeze(axis))
