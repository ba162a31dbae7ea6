"""Captured calls of groups: the same numbers as calls that are not captured, replay after replay.

The group is a slow one: who reads or overwrites too early gets other numbers.
"""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from treadle import Tensor, TinyJit
from treadle.distributed import Group
from treadle.engine.background_calls import finish_calls
from treadle.engine.collectives import used
from treadle.engine.repeated_calls import RepeatedCall

from .slow_group import LARGE, SMALL, Slow


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(used, "is_used", True)
    yield Group(Slow())
    finish_calls()


def replayed(function, inputs, count=5):
    """What a captured function returns for each of `inputs`, whose first two are not replays."""
    captured = TinyJit(function)
    results = [[t.numpy() for t in captured(*arguments)] for arguments in inputs[:count]]
    return results, captured._capture


def drawn(shape, seed):
    return Tensor(np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)).realize()


@pytest.mark.parametrize("size", [0, 1, SMALL, LARGE])
@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reduce_scatter", "broadcast"])
def test_replays_give_what_calls_give(world, size, kind):
    call = getattr(world, kind)
    shape = (2, size // 2) if kind == "reduce_scatter" else (size,)

    def function(x):
        return (call(x * 2) + 1).realize(), call(x).realize()

    inputs = [(drawn(shape, seed),) for seed in range(5)]
    results, capture = replayed(function, inputs)
    for (x,), found in zip(inputs, results, strict=True):
        for one, expected in zip(found, function(x), strict=True):
            np.testing.assert_array_equal(one, expected.numpy())
    assert capture.straight is not None
    assert len(world.communicator.opened) == 1  # by the first replay


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_what_has_been_prepared_serves_all_memory(world, size):
    captured = TinyJit(lambda x: world.allreduce(x).realize())
    kept = []
    for seed in range(8):  # results that are kept lie elsewhere each time
        x = drawn((size,), seed)
        kept.append((x, captured(x)))
    for x, result in kept:
        np.testing.assert_array_equal(result.numpy(), 4 * x.numpy())
    assert len(world.communicator.prepared) == (size == SMALL)


def test_one_call_reads_what_another_has_made(world):
    def function(x):
        large = world.allreduce(x)
        again = world.allreduce(large)  # with no kernel between them
        small = world.allreduce(again[:SMALL].contiguous())
        return again.realize(), (small + large[:SMALL]).realize()

    inputs = [(drawn((LARGE,), seed),) for seed in range(5)]
    results, capture = replayed(function, inputs)
    for (x,), (again, small) in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(again, 16 * x.numpy())
        np.testing.assert_array_equal(small, 68 * x.numpy()[:SMALL])
    calls = [step for step in capture.replay if isinstance(step, RepeatedCall)]
    assert len(calls) == 3


def test_kernels_run_meanwhile_and_wait_only_where_they_have_to(world):
    def function(x, y):
        total = world.allreduce(x)
        other = world.allreduce(y * 2)  # whose operand is computed meanwhile
        return (total + other[0]).realize(), (other + 1).realize()

    inputs = [(drawn((LARGE,), seed), drawn((SMALL,), seed + 9)) for seed in range(5)]
    results, capture = replayed(function, inputs)
    for (x, y), (total, more) in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(total, 4 * x.numpy() + 8 * y.numpy()[0])
        np.testing.assert_array_equal(more, 8 * y.numpy() + 1)
    large, small = (step for step in capture.replay if isinstance(step, RepeatedCall))
    assert (large.is_alone, large.is_small, small.is_small) == (False, False, True)


def test_functions_of_numpy_between_calls_wait_for_them(world):
    def function(x):
        total = world.allreduce(x)
        square = total.reshape(200, 200)
        return world.allreduce(square + Tensor.eye(200) * 1e6).inverse().realize(), total.realize()

    inputs = [(drawn((LARGE,), seed),) for seed in range(4)]
    results, _ = replayed(function, inputs)
    for (x,), (inverse, total) in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(total, 4 * x.numpy())
        matrix = 4 * (4 * x.numpy().reshape(200, 200).astype(np.float64) + np.eye(200) * 1e6)
        np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-3, atol=1e-11)


def test_state_that_replays_leave_is_read_and_overwritten_in_time(world):
    mean = Tensor.zeros(LARGE).contiguous().realize()

    @TinyJit
    def step(x):
        total = world.allreduce(x + mean)
        mean.assign(mean + total)
        return (total - mean).realize()

    expected = np.zeros(LARGE, np.float64)
    for seed in range(6):
        x = drawn((LARGE,), seed)
        result = step(x)
        total = 4 * (x.numpy() + expected)
        expected = expected + total
        np.testing.assert_array_equal(result.numpy(), total - expected)
    np.testing.assert_array_equal(mean.numpy(), expected)


def test_two_groups_have_a_channel_each(world):
    other = Group(Slow())

    def function(x):
        return world.allreduce(x).realize(), other.allreduce(x * 2).realize()

    inputs = [(drawn((SMALL,), seed),) for seed in range(4)]
    results, _ = replayed(function, inputs)
    for (x,), (one, two) in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(one, 4 * x.numpy())
        np.testing.assert_array_equal(two, 8 * x.numpy())
    assert [len(g.communicator.opened) for g in (world, other)] == [1, 1]


def test_another_capture_of_the_same_function_compares_anew(world):
    captured = TinyJit(lambda x: world.allreduce(x).realize())
    for size in (SMALL, SMALL, SMALL):
        captured(drawn((size,), 1))
    captured.reset()
    for size in (7, 7, 7, 7):
        captured(drawn((size,), 1))
    assert len(world.communicator.opened) == 2


@pytest.mark.parametrize("seed", range(12))
def test_drawn_programs_of_kernels_and_calls(world, seed):
    rng = np.random.default_rng(seed)
    sizes = [int(rng.choice([SMALL, LARGE])) for _ in range(3)]
    plan = [
        (int(rng.integers(6)), rng.integers(3, size=2)) for _ in range(int(rng.integers(4, 12)))
    ]

    def function(*inputs):
        values, results = list(inputs), []
        for what, (a, b) in plan:
            x, y = values[a], values[b]
            if what < 3:
                values[a] = world.allreduce(x * 0.5)
            elif what == 3:
                values[a] = (x * 0.25 + 1).contiguous()
            elif what == 4:
                values[a] = x + y.sum() * 0.0625
            else:
                results.append((values[b] - 1).contiguous())
        return [t.contiguous().realize() for t in (*results, *values)]

    draws = [tuple(drawn((n,), 10 * seed + i + at) for at, n in enumerate(sizes)) for i in range(5)]
    results, _ = replayed(function, draws)
    for inputs, found in zip(draws, results, strict=True):
        for one, expected in zip(found, function(*inputs), strict=True):
            np.testing.assert_allclose(one, expected.numpy(), rtol=1e-5, atol=1e-4)
            assert not np.isnan(one).any()


@pytest.mark.parametrize("is_captured", [False, True])
def test_a_result_that_nobody_reads_is_let_go_of(world, is_captured):
    call = lambda x: world.allreduce(x).realize()
    function = TinyJit(call) if is_captured else call
    x = drawn((LARGE,), 1)
    for _ in range(4):
        function(x)
    gc.collect()
    gc.disable()
    try:
        result = function(x)
        finish_calls()
        buffer = (
            result._promised[0] if is_captured else
            result.node.src[0].arg.token.memory if result.node.src else
            result.node.arg.token.memory
        )  # fmt: skip
        seen = weakref.ref(buffer)
        del buffer, result
        assert seen() is None
    finally:
        gc.enable()
