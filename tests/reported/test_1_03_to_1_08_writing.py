"""What writing to tensors, to their views and under TinyJit had got wrong."""

import numpy as np
import pytest

from treadle import Tensor, TinyJit, nn


def test_1_03_state_returned_unrealized_is_applied_once():
    state = Tensor([0.0]).contiguous().realize()
    add = TinyJit(lambda x: state.assign(state + x))
    results = [add(Tensor([1.0]).realize()) for _ in range(5)]
    assert state.tolist() == [5]
    assert all(result is state for result in results)


def test_1_03_an_argument_changed_in_place_is_changed_once():
    x = Tensor([0.0]).realize()

    @TinyJit
    def add(x):
        x += 1
        return x

    assert all(add(x) is x for _ in range(6))
    assert x.tolist() == [6]


def _by_subscript(x):
    y = x * 2
    y[1] = 0
    return y.realize()


def _by_assign(x):
    y = x * 2
    y.assign(y + x)
    return y.realize()


def _of_zeros(x):
    y = Tensor.zeros(3).contiguous()
    y[1] = x[1]
    return y


def _of_values_from_the_host(x):
    y = Tensor([1.0, 2.0, 3.0])
    y[1:] = x[1:]
    return y


@pytest.mark.parametrize(
    "function", [_by_subscript, _by_assign, _of_zeros, _of_values_from_the_host]
)
def test_1_04_results_changed_in_place_have_memory_of_their_own(function):
    captured = TinyJit(function)
    arguments = [Tensor([float(n), n + 1.0, n + 2.0]).realize() for n in range(5)]
    results = [captured(x) for x in arguments]
    for x, result in zip(arguments, results, strict=True):
        assert result.tolist() == function(x).tolist()


def test_1_05_writes_to_arguments_that_nothing_realizes_are_done_by_each_call():
    @TinyJit
    def fill(t, a):
        t[2:4] = a

    filled = [Tensor(np.zeros(5, np.float32)).realize() for _ in range(5)]
    for n, t in enumerate(filled):
        fill(t, Tensor([n + 1.0, n + 2.0]).realize())
    assert [t.tolist() for t in filled] == [[0, 0, n + 1, n + 2, 0] for n in range(5)]


def test_1_05_writes_to_captured_tensors_that_nothing_realizes_are_done_by_each_call():
    state = Tensor.zeros(4).contiguous().realize()

    @TinyJit
    def keep(x):
        state[1:2] = x

    for n in range(5):
        keep(Tensor([n + 1.0]).realize())
        assert state.tolist() == [0, n + 1, 0, 0]


def test_1_05_running_statistics_count_each_call():
    norm, x = nn.BatchNorm(4), Tensor.randn(8, 4, 3, 3).realize()
    forward = TinyJit(lambda x: norm(x).realize())
    with Tensor.train():
        for _ in range(6):
            forward(x)
    assert norm.num_batches_tracked.item() == 6
    mean = x.mean((0, 2, 3)).numpy() * (1 - 0.9**6)
    np.testing.assert_allclose(norm.running_mean.numpy(), mean, rtol=1e-4, atol=1e-6)


def test_1_06_a_view_of_all_of_a_tensor_writes_to_it(device):
    y = (Tensor([[1.0, 2.0]], device=device) * 2).realize()
    y[0].assign(Tensor([50.0, 60.0], device=device)).realize()
    assert y.tolist() == [[50, 60]]
    z = Tensor([1.0], device=device).realize()
    z[0].assign(50.0)
    assert z.tolist() == [50]
    lazy = Tensor([1.0, 2.0], device=device) + 1
    lazy.flip(0)[0].assign(7)
    assert lazy.tolist() == [2, 7]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(1, 3), lambda x: x[:], lambda x: x[...], lambda x: x.permute(0),
        lambda x: x.detach(), lambda x: x.pad(((0, 0),)), lambda x: x.expand(3),
    ],
)  # fmt: skip
def test_1_07_a_view_keeps_its_values_when_its_base_changes(view):
    x = (Tensor([1.0, 2.0, 3.0]) * 2).realize()
    v = view(x)
    x[0].assign(Tensor(50.0)).realize()
    assert v.flatten().tolist() == [2, 4, 6]
    assert x.tolist() == [50, 4, 6]


@pytest.mark.parametrize(
    "same",
    [
        lambda x: x.pad((0, 0, 0, 0)), lambda x: x.roll(0, 0), lambda x: x.shrink((None, None)),
        lambda x: x.flip(()), lambda x: x.permute(0, 1), lambda x: x.reshape(2, 2),
        lambda x: x.float(), lambda x: x.sum(()), lambda x: x.max(()), lambda x: x.dropout(0.5),
        lambda x: x.atleast_2d(), lambda x: +x,
    ],
)  # fmt: skip
def test_1_08_no_movement_and_no_operation_gives_the_tensor_itself(same):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    y = same(x)
    assert y is not x
    x += 1
    assert y.tolist() == [[1, 2], [3, 4]]


def test_1_08_assigning_to_what_was_computed_gives_its_source_no_gradient():
    y = Tensor([1.0, 2.0], requires_grad=True)
    x = Tensor([3.0, 4.0], requires_grad=True)
    z = (y * 1).flip(0)
    z.assign(x)
    z.sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert y.grad is None or y.grad.tolist() == [0, 0]
