"""HOST nodes: NumPy functions between kernels, lazily, once, in replays and on every device."""

import gc

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit
from treadle.engine import run
from treadle.engine.devices import Device
from treadle.errors import LinAlgError
from treadle.ir import lapack
from treadle.ir.args import HostArg
from treadle.ir.op import Op
from treadle.ir.text import parse, render
from treadle.ir.verify import verify_tensor

RNG = np.random.default_rng(31)


def matrix(n: int = 3) -> np.ndarray:
    return RNG.normal(size=(n, n)).astype(np.float32)


@pytest.fixture
def calls(monkeypatch):
    """The operations that the host computes, in order."""
    found = []

    def noted(arg, operands):
        found.append(arg.name)
        return real(arg, operands)

    real = lapack.results
    monkeypatch.setattr(lapack, "results", noted)
    return found


def test_nothing_is_computed_before_it_is_wanted_and_then_once(calls):
    a = matrix()
    q, r = Tensor(a).qr()
    product = q @ r
    assert calls == []
    q.numpy()
    assert calls == ["qr"]
    np.testing.assert_allclose(product.numpy(), a, atol=1e-6)
    r.numpy()
    assert calls == ["qr"]


def test_a_call_of_what_is_in_memory_is_all_the_work(monkeypatch, calls):
    a, b = matrix(), matrix()
    x, y = Tensor(a).realize(), Tensor(b).realize()
    monkeypatch.setattr(run, "current", None)  # which would walk over the graph
    np.testing.assert_allclose(x.solve(y).numpy(), np.linalg.solve(a, b), rtol=1e-3, atol=1e-4)
    q, r = x.qr()
    Tensor.realize(q, r)
    np.testing.assert_allclose(q.numpy() @ r.numpy(), a, atol=1e-6)
    assert calls == ["solve", "qr"]


def test_known_called_and_scheduled_results_of_two_devices_in_one_realize():
    a = matrix()
    x, there = Tensor(a).realize(), Tensor(a, device="REF").realize()
    known, called, other, added = x.det().realize(), x.inv(), there.inv(), x + 1
    Tensor.realize(known, called, other, added)
    np.testing.assert_allclose(called.numpy(), np.linalg.inv(a), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(called.numpy(), other.numpy())
    np.testing.assert_array_equal(added.numpy(), a + 1)
    assert other.device == "REF"


def test_kernels_stand_before_and_behind_host_calls(device):
    a = matrix()
    x = (Tensor(a, device=device) * 2 + 1).inv() * 3
    np.testing.assert_allclose((x.inv() + 1).numpy(), (a * 2 + 1) / 3 + 1, rtol=1e-3, atol=1e-4)


def test_kernels_around_host_calls_are_listed_without_running(calls):
    x = (Tensor(matrix()) * 2).inv() * 3
    assert len(x.schedule()) == 2
    assert calls == []


def test_a_replay_calls_the_host_between_its_kernels(device):
    step = TinyJit(lambda x: ((x * 2).inv() + 1).realize())
    results = []
    for _ in range(5):
        a = matrix()
        results.append((a, step(Tensor(a, device=device))))
    for a, got in results:
        np.testing.assert_allclose(got.numpy(), np.linalg.inv(a * 2) + 1, rtol=1e-3, atol=1e-4)


def test_a_replay_gives_each_result_memory_of_its_own():
    step = TinyJit(lambda x: x.qr())
    inputs = [matrix() for _ in range(5)]
    results = [step(Tensor(a)) for a in inputs]
    for a, (q, r) in zip(inputs, results, strict=True):
        np.testing.assert_allclose(q.numpy() @ r.numpy(), a, atol=1e-6)


def test_a_replay_reads_the_state_as_it_is_now():
    state = Tensor(np.eye(3, dtype=np.float32) * 2).contiguous().realize()

    @TinyJit
    def step(x):
        state.assign(state.inv() + x)
        return (state * 1).realize()

    expected = np.eye(3) * 2
    for _ in range(6):
        a = np.abs(matrix()) + 3 * np.eye(3, dtype=np.float32)
        expected = np.linalg.inv(expected) + a
        np.testing.assert_allclose(step(Tensor(a)).numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(state.numpy(), expected, rtol=1e-4)


def test_a_replay_that_fails_can_be_followed_by_one_that_does_not():
    step = TinyJit(lambda x: x.inv().realize())
    for _ in range(3):
        step(Tensor(np.eye(2, dtype=np.float32)))
    with pytest.raises(LinAlgError):
        step(Tensor(np.zeros((2, 2), np.float32)))
    assert step(Tensor(np.eye(2, dtype=np.float32) * 2)).tolist() == [[0.5, 0], [0, 0.5]]


def test_values_taken_before_an_assignment_are_of_the_old_matrix():
    x = Tensor(np.eye(2, dtype=np.float32)).contiguous().realize()
    before = x.inv()
    x.assign(x * 4)
    after = x.inv()
    assert after.tolist() == [[0.25, 0], [0, 0.25]]
    assert before.tolist() == [[1, 0], [0, 1]]


def test_an_assignment_may_read_the_old_matrix_through_the_host():
    x = Tensor(np.eye(2, dtype=np.float32) * 2).contiguous().realize()
    x.assign(x.inv() + x)
    assert x.tolist() == [[2.5, 0], [0, 2.5]]


def test_the_cpu_is_read_in_place_and_not_written_to(monkeypatch):
    seen = []

    def noted(arg, operands):
        seen.extend(operands)
        return real(arg, operands)

    real = lapack.results
    monkeypatch.setattr(lapack, "results", noted)
    x = Tensor(matrix(), device="CPU").realize()
    x.inv().realize()
    (operand,) = seen
    assert not operand.flags.writeable
    assert not operand.flags.owndata
    kept = operand.copy()
    x.assign(x + 1).realize()
    np.testing.assert_array_equal(operand, kept + 1)  # the very memory of x


def test_pieces_on_several_devices_are_put_together():
    a = matrix(4)
    x = Tensor(a, device="CPU").shard(("CPU", "CPU:1"), axis=0)
    np.testing.assert_allclose((x * 2).inv().numpy(), np.linalg.inv(a * 2), rtol=1e-3, atol=1e-4)
    eye = Tensor.eye(2, device="CPU").shard(("CPU", "CPU:1"))
    assert (eye * 2).inv().tolist() == [[0.5, 0], [0, 0.5]]


def test_debug_shows_each_call(capfd):
    with Context(DEBUG=2):
        Tensor(matrix()).qr()[0].realize()
    assert "host qr of (3, 3)" in capfd.readouterr().err


def test_a_node_is_legal_has_text_and_is_the_same_for_the_same_operands():
    x = Tensor(matrix())
    (q, r), (other, _) = x.qr(), x.qr()
    assert q.node is other.node
    assert q.node is not r.node
    verify_tensor(q.node)
    again = parse(render(q.node))
    assert (again.op, again.arg, again.shape) == (Op.HOST, q.node.arg, q.node.shape)
    hash(HostArg("qr", ((3, 3), (3, 3)), ("float32", "float32"), 1, (False,)))


def test_memory_of_results_nobody_has_is_given_back():
    x = Tensor(matrix(64)).realize()
    memory = x.node
    gc.collect()  # what other tests left
    before = live_bytes(memory)
    for _ in range(3):
        x.svd()[1].realize()
    gc.collect()
    assert live_bytes(memory) == before


def live_bytes(node):
    base = node
    while base.op is Op.RESHAPE:
        base = base.src[0]
    return Device[base.arg.device].allocator.stats.live
