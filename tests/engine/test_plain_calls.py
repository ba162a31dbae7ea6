"""Calls that a line makes again, on plain memory: the numbers and gradients of the first one."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit, func
from treadle.distributed import Group
from treadle.engine.background_calls import finish_calls
from treadle.engine.collectives import used
from treadle.engine.plain_calls import PlainCall
from treadle.errors import NonFiniteError

from .slow_group import LARGE, SMALL, Slow

KINDS = ("allreduce", "allgather", "reduce_scatter", "all_to_all")


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(used, "is_used", True)
    yield Group(Slow())
    finish_calls()


@pytest.fixture
def plain(monkeypatch):
    """For each call of a line that had made one before: whether it took no graph."""
    told, made = [], PlainCall.made

    def spy(self, x):
        result = made(self, x)
        told.append(result is not None)
        return result

    monkeypatch.setattr(PlainCall, "made", spy)
    return told


def drawn(shape, seed, kind="float32"):
    return Tensor(np.random.default_rng(seed).integers(-8, 9, shape).astype(kind)).realize()


def expected(kind, x):
    if kind == "allgather":
        return np.concatenate([x, 3 * x])
    return 4 * x[: len(x) // 2] if kind == "reduce_scatter" else 4 * x


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_a_line_gives_what_it_gave_first(world, plain, kind, size, dtype):
    kept = []
    for seed in range(6):
        x = drawn((size,), seed, dtype)
        kept.append((x, getattr(world, kind)(x)))
    for x, result in kept:
        np.testing.assert_array_equal(result.numpy(), expected(kind, x.numpy()))
        assert result.dtype is x.dtype
    assert plain == [True] * 5


def test_a_line_with_other_shapes_and_dtypes(world, plain):
    rows = [(3, "float32"), (3, "float32"), (5, "float32"), (3, "int32"), (5, "float32")]
    for seed, (size, dtype) in enumerate([*rows, *rows]):
        x = drawn((size,), seed, dtype)
        result = world.allreduce(x)
        assert result.dtype is x.dtype
        np.testing.assert_array_equal(result.numpy(), 4 * x.numpy())
    assert all(plain[-2:])


def test_halves_are_added_in_float32(world):
    for seed in range(3):
        x = drawn((7,), seed, "float16")
        result = world.allreduce(x)
        assert result.dtype is x.dtype
        np.testing.assert_array_equal(result.numpy(), 4 * x.numpy())


def test_what_is_not_in_memory_takes_a_graph(world, plain):
    x = drawn((5,), 0)
    for factor in (None, None, 2, 3):
        result = world.allreduce(x if factor is None else x * factor)
        np.testing.assert_array_equal(result.numpy(), 4 * x.numpy() * (factor or 1))
    assert plain == [True, False, False]


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_an_operand_that_is_assigned_to(world, plain, size):
    x = drawn((size,), 0)
    values, results = x.numpy(), []
    for _ in range(5):
        results.append((world.allreduce(x), values))
        x += 1  # which waits for a call that reads it
        values = values + 1
        x.realize()
    for result, before in results:
        np.testing.assert_array_equal(result.numpy(), 4 * before)
    assert any(plain)


def test_a_part_and_what_is_written_to_the_whole(world):
    whole = drawn((4, 6), 0)
    values = whole.numpy()
    for row in range(4):
        part = whole[row]
        result = world.allreduce(part)
        whole[row] = 7
        np.testing.assert_array_equal(result.numpy(), 4 * values[row])
        np.testing.assert_array_equal(world.allreduce(part).numpy(), 4 * part.numpy())


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_gradients_of_a_line_that_has_made_calls_without(world, plain, size):
    for is_leaf in (False, False, True, True, False):
        x = drawn((size,), 3)
        if is_leaf:
            x.requires_grad_()
        total = world.allreduce(x)
        if is_leaf:
            (total * 3).sum().backward()
            # of the sum of what both differentiate: the gradients are summed as well
            np.testing.assert_array_equal(x.grad.numpy(), np.full(size, 12))
    assert plain == [True, False, False, True]


@pytest.mark.parametrize("how", ["computed", "alias", "reshaped", "detached"])
def test_gradients_through_what_is_in_memory(world, how):
    for is_leaf in (False, False, True):
        w = drawn((SMALL,), 3)
        if is_leaf:
            w.requires_grad_()
        if how == "computed":
            x = (w * 5).realize()
        elif how == "alias":
            x = w + 0
        elif how == "reshaped":
            x = w.reshape(2, -1)
        else:
            x = w.detach()
        total = world.allreduce(x).realize()
        if is_leaf and how != "detached":
            (total * 3).sum().backward()
            factor = 60 if how == "computed" else 12
            np.testing.assert_array_equal(w.grad.numpy(), np.full(SMALL, factor))


def test_a_captured_function_has_the_call(world):
    x = drawn((SMALL,), 0)

    def function(t):
        return world.allreduce(t).realize()

    for _ in range(3):
        function(x)
    step = TinyJit(function)
    for seed in range(6):
        t = drawn((SMALL,), seed)
        np.testing.assert_array_equal(step(t).numpy(), 4 * t.numpy())
    assert step._capture.straight is not None
    result = function(step(x))  # of what a replay has left
    np.testing.assert_array_equal(result.numpy(), 16 * x.numpy())


def test_transforms_of_a_line_that_has_made_calls(world):
    def function(t):
        return (world.allreduce(t) * t).sum()

    x = drawn((6,), 0)
    for _ in range(3):
        function(x)
    np.testing.assert_array_equal(func.grad(function)(x).numpy(), 8 * x.numpy())
    rows = drawn((3, 6), 1)
    np.testing.assert_array_equal(func.vmap(function)(rows).numpy(), (4 * rows.numpy() ** 2).sum(1))


def test_values_are_checked_where_that_is_asked_for(world):
    for values in ([1.0], [2.0], [np.nan]):
        x = Tensor(values).realize()
        if values[0] == values[0]:
            world.allreduce(x).realize()
            continue
        with Context(CHECK_NAN=1), pytest.raises(NonFiniteError):
            world.allreduce(x).realize()


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_memory_that_nobody_has_is_free_again(world, plain, size):
    x, gone = drawn((size,), 0), []
    for _ in range(4):
        result = world.allreduce(x)
        gone.append(weakref.ref(result))
    finish_calls()
    del result
    gc.collect()
    assert not any(ref() for ref in gone)
    assert plain == [True] * 3


def test_results_on_each_device(world, device):
    for seed in range(3):
        x = Tensor(np.arange(5, dtype=np.float32) + seed, device=device).realize()
        result = world.allreduce(x)
        assert result.device == x.device
        np.testing.assert_array_equal(result.numpy(), 4 * x.numpy())
