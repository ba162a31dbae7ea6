"""Replays that go straight: they mean what calls mean, whatever changes between them."""

import copy
import gc
import pickle
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

from treadle import Context, GlobalCounters, Tensor, TinyJit, Variable
from treadle.config import settings
from treadle.engine.change_counters import changes
from treadle.engine.realized import holders


class Pair(NamedTuple):
    sum: Any
    more: Any


def full(value, *shape):
    return Tensor(np.full(shape or (4,), value, np.float32)).realize()


def captured(function, *args):
    """`function` as a TinyJit that has been captured with these arguments, and replays straight."""
    step = TinyJit(function)
    step(*args)
    step(*args)
    assert step._capture.straight is not None
    return step


@pytest.fixture
def only_straight(monkeypatch):
    """From when it is called on, calls of captured functions that look closer fail."""

    def forbid():
        monkeypatch.setattr(TinyJit, "_called", lambda *_: pytest.fail("it looked closer"))

    return forbid


def test_arguments_and_weights_are_read_anew(only_straight):
    weight = full(2.0)
    step = captured(lambda x, y: (x * weight + y).realize(), full(1.0), full(1.0))
    step(full(0.0), full(0.0))  # once more to see that nothing has changed since
    only_straight()
    for i in range(5):
        x, y = full(i), full(-i)
        np.testing.assert_array_equal(step(x, y).numpy(), np.full(4, i))
        np.testing.assert_array_equal(step(x, y).numpy(), np.full(4, i))


def test_results_have_no_node_before_somebody_asks():
    step = captured(lambda x: (x + 1).realize(), full(0.0))
    before = len(holders())
    results = [step(full(i)) for i in range(5)]
    gc.collect()
    assert [result._node for result in results] == [None] * 5
    assert all(holder is not result for holder in holders() for result in results)
    assert len(holders()) <= before
    for i, result in enumerate(results):
        assert result.is_realized
        assert result.shape == (4,)
        assert result.tolist() == [i + 1] * 4
        assert any(holder is result for holder in holders())
        assert result.node is result.node


def test_results_are_tensors_like_any_other():
    step = captured(lambda x: (x + 1).reshape(2, 2).realize(), full(0.0))
    step(full(0.0))
    assert (step(full(1.0)) * 2).tolist() == [[4, 4], [4, 4]]
    result = step(full(2.0))
    alias = result.reshape(4)
    result.assign(result * 10).realize()
    assert (result.tolist(), alias.tolist()) == ([[30, 30], [30, 30]], [3] * 4)
    other = step(full(3.0))
    other[0] = 7.0
    assert other.tolist() == [[7, 7], [4, 4]]
    assert copy.deepcopy(step(full(4.0))).tolist() == [[5, 5], [5, 5]]
    assert pickle.loads(pickle.dumps(step(full(5.0)))).tolist() == [[6, 6], [6, 6]]
    leaf = step(full(6.0)).requires_grad_()
    leaf.square().sum().backward()
    assert leaf.grad.tolist() == [[14, 14], [14, 14]]
    renewed = step(full(7.0))
    renewed.node = full(1.0, 2, 2).node
    assert renewed.tolist() == [[1, 1], [1, 1]]


def test_results_are_arguments_of_the_next(only_straight):
    double = captured(lambda x: (x * 2).realize(), full(1.0))
    more = captured(lambda x: (x + 1).realize(), full(1.0))
    for step in (double, more):
        step(full(1.0))
    only_straight()
    x = full(1.0)
    for _ in range(4):
        x = more(double(x))
    assert x.tolist() == [31] * 4


def test_memory_of_a_result_is_let_go_of_with_it():
    step = captured(lambda x: (x + 1).realize(), full(0.0, 1 << 16))
    x = full(1.0, 1 << 16)
    step(x)
    used = GlobalCounters.mem_used
    kept = [step(x) for _ in range(10)]
    assert GlobalCounters.mem_used == used + 10 * (1 << 18)
    assert len({result._promised[0].pointer for result in kept}) == 10
    del kept
    assert GlobalCounters.mem_used == used


def test_nested_results_and_those_that_stay():
    table = full(5.0)
    step = captured(
        lambda x: Pair({"s": (x + 1).realize()}, [(x * 2).realize(), table, 7]), full(0.0)
    )
    for i in range(3):
        found = step(full(i))
        assert isinstance(found, Pair)
        assert found.sum["s"].tolist() == [i + 1] * 4
        assert found.more[0].tolist() == [2 * i] * 4
        assert found.more[1] is table
        assert found.more[2] == 7

    def returns_nothing(x):
        table.assign(x + 1).realize()

    step = captured(returns_nothing, full(0.0))
    assert step(full(2.0)) is None
    assert table.tolist() == [3] * 4


def test_what_is_more_than_kernels_with_results_of_their_own_goes_the_long_way():
    def shares(x):
        y = (x + 1).realize()
        return y, y.reshape(2, 2).realize()

    n = Variable("n", 1, 4)
    for function, args in (
        (shares, (full(0.0),)),
        (lambda x: (x @ x).qr()[0].realize(), (full(1.0, 2, 2),)),
        (lambda x, n: x[:n].sum().realize(), (full(1.0), n.bind(2))),
        (lambda x, s: (x * s).realize(), (full(1.0), 3)),
    ):
        step = TinyJit(function)
        for _ in range(3):
            step(*args)
        assert step._capture.straight is None


def test_a_weight_that_is_replaced_assigned_or_gone_is_noticed():
    weights = {"w": full(1.0)}
    step = captured(lambda x: (x * weights["w"]).realize(), full(1.0))
    x = full(2.0)
    assert step(x).tolist() == [2] * 4
    weights["w"].assign(full(3.0))  # pending when the step is called
    assert step(x).tolist() == [6] * 4
    weights["w"].replace(full(4.0))
    assert step(x).tolist() == [8] * 4
    weights["w"] = full(5.0)
    for _ in range(3):
        assert step(x).tolist() == [10] * 4


def test_settings_count_in_each_call():
    calls = []

    def function(x):
        calls.append(Tensor.training)
        return (x + (10 if Tensor.training else 1)).realize()

    step = captured(function, full(0.0))
    x = full(1.0)
    assert step(x).tolist() == [2] * 4
    assert len(calls) == 2
    with Context(JIT=0):
        step(x)
    with Context(CHECK_NAN=1):
        step(x)
    assert len(calls) == 4
    for _ in range(4):
        with Tensor.train():
            assert step(x).tolist() == [11] * 4
        assert step(x).tolist() == [2] * 4
    assert len(calls) == 5  # one capture more, for training
    settings.JIT = 0
    try:
        step(x)
        assert len(calls) == 6
    finally:
        settings.JIT = 1
    with Context(DEBUG=0):  # other settings in force, which mean the same
        assert step(x).tolist() == [2] * 4
    assert len(calls) == 6


def test_inside_of_another_capture_it_is_the_function():
    inner = captured(lambda x: (x * 2).realize(), full(1.0))
    inner(full(1.0))
    outer = TinyJit(lambda x: (inner(x) + 1).realize())
    for i in range(4):
        assert outer(full(i)).tolist() == [2 * i + 1] * 4
    assert len(outer._capture.runs) == 2
    assert not changes.captures
    failing = TinyJit(lambda x: x.item())
    failing(full(1.0, 1))
    with pytest.raises(Exception, match="read on the host while capturing"):
        failing(full(1.0, 1))
    assert not changes.captures


def test_while_another_thread_captures_replays_are_right():
    step = captured(lambda x: (x * 2).realize(), full(1.0))
    inside, done = threading.Event(), threading.Event()

    def slow(x):
        inside.set()
        assert done.wait(30)
        return (x + 1).realize()

    other = TinyJit(slow)
    done.set()
    other(full(1.0))
    inside.clear()
    done.clear()
    thread = threading.Thread(target=lambda: other(full(1.0)))
    thread.start()
    assert inside.wait(30)
    try:
        assert [step(full(i)).tolist() for i in range(3)] == [[2 * i] * 4 for i in range(3)]
    finally:
        done.set()
        thread.join()
    assert step(full(5.0)).tolist() == [10] * 4


def test_threads_share_a_step():
    step = captured(lambda x: (x * 2).realize(), full(1.0))
    wrong = []

    def replay(number):
        for i in range(200):
            found = step(full(number + i)).tolist()
            if found != [2 * (number + i)] * 4:
                wrong.append(found)

    threads = [threading.Thread(target=replay, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_that_ask_for_a_node_at_once_get_the_same():
    step = captured(lambda x: (x * 2).realize(), full(1.0))
    start = threading.Barrier(4)

    def ask(result, nodes):
        start.wait()
        nodes.append(result.node)

    for _ in range(50):
        given = (step(full(1.0)), [])
        threads = [threading.Thread(target=ask, args=given) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(map(id, given[1]))) == 1


def test_an_argument_that_was_not_written_everywhere_is_written_again(monkeypatch):
    step = captured(lambda x: (x + 1).realize(), full(1.0))
    first, second = full(1.0), full(2.0)
    step(first)
    [calls] = step._capture.replay
    set_arg = type(calls).set_arg

    def interrupted(self, call, slot, pointer):
        set_arg(self, call, slot, pointer)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(calls), "set_arg", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(second)
    assert step(first).tolist() == [2] * 4


@pytest.mark.parametrize("first", [0, 2])  # before the captured call, or from the first replay on
def test_state_goes_on_and_what_reads_it_keeps_its_value(first):
    count = full(0.0)

    def function(x):
        count.assign(count + x).realize()
        return count.sum().realize()

    step = TinyJit(function)
    found = []
    for i in range(6):
        lazy = count * 1 if i >= first else full(i)
        found.append(step(full(1.0)).item())
        assert lazy.tolist() == [i] * 4
    assert first == 0 or step._capture.straight is not None
    assert found == [4 * i for i in range(1, 7)]
    assert count.tolist() == [6] * 4


def test_a_capture_keeps_no_result_and_no_argument():
    step = captured(lambda x: (x + 1).realize(), full(0.0))
    x = full(1.0)
    result = step(x)
    gone = [
        weakref.ref(result),
        weakref.ref(result._promised[0]),
        weakref.ref(x),
        weakref.ref(x.node),
    ]
    del result, x
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4


def test_a_captured_function_goes_at_once_with_all_that_it_keeps():
    weight = full(2.0)
    step = captured(lambda x: (x * weight).realize(), full(0.0))
    step(full(1.0))
    capture = weakref.ref(step._capture)
    gc.disable()
    try:
        del step
        assert capture() is None
    finally:
        gc.enable()


def test_replays_are_counted():
    step = captured(lambda x: ((x + 1).realize() * 2).realize(), full(0.0))
    GlobalCounters.reset()
    for _ in range(3):
        step(full(1.0))
    assert GlobalCounters.kernel_count == 6
    assert GlobalCounters.global_ops == 24
    assert GlobalCounters.global_mem == 6 * 32
    assert GlobalCounters.time_sum_s > 0
    assert step.calls == 5
