"""Every value of a graph over several devices has a place, whatever its shape and its history."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from treadle import Device, GlobalCounters, Tensor, TinyJit, Variable, nn
from treadle.errors import DeviceError, JitError, ShapeError
from treadle.schedule.shard import spread_of

TWO = ("CPU", "CPU:1")
THREE = ("CPU", "CPU:1", "CPU:2")
RANDOM = np.random.default_rng(11)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def close(tensor, expected):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.fixture(params=["CPU:1", "CL", "WEBGPU"])
def pair(request):
    """The CPU and another device."""
    try:
        Device[request.param].synchronize()
    except DeviceError as error:
        pytest.skip(str(error))
    return "CPU", request.param


# -- pieces -----------------------------------------------------------------------------------


def test_the_piece_of_one_device_goes_where_it_is_needed(pair):
    a = numbers(8, 4)
    x = Tensor(a).shard(pair, 0)
    close(x[:4] + x[4:], a[:4] + a[4:])
    close(x[4:] * 2, a[4:] * 2)
    close(x[4:] @ Tensor(a).shard(pair).T, a[4:] @ a.T)
    close(x[5], a[5])
    close(x.scatter_reduce(0, (x[4:6] * 0).int(), x[2:4], "sum")[0], a[0] + a[2] + a[3])
    assert x[4:].realize().device == pair


def test_an_axis_of_one_element_on_one_device_expands():
    a = numbers(1, 4)
    x = Tensor(a).shard(("CPU:1",), 0)
    close(x.expand(3, 4), np.broadcast_to(a, (3, 4)))
    close(x + Tensor(np.ones((3, 4), np.float32)).shard(("CPU:1",), 0), a + np.ones((3, 1)))


@pytest.mark.parametrize("axis", [0, 1])
def test_tensors_without_elements(axis):
    x = Tensor(numbers(4, 2, 0)).shard(TWO, axis)
    assert x.reshape(0, 8).numpy().shape == (0, 8)
    assert x.reshape(4, 0).sum(1).tolist() == [0.0] * 4
    assert x.sum().item() == 0.0


def test_sizes_known_at_launch_only():
    a = numbers(4, 8)
    n = Variable("n", 1, 8).bind(5)
    x = Tensor(a).shard(TWO, 0)
    close(x[:, :n].sum(1), a[:, :5].sum(1))
    close(x[:, :n].sum(0).sum(), a[:, :5].sum())
    close(Tensor(a).shard(TWO, 1)[:, :n].sum(), a[:, :5].sum())


def test_pieces_of_different_sizes_meet():
    a, b = numbers(14), numbers(7, 2)
    merged = Tensor(b).shard(THREE, 0).reshape(14)  # pieces of 6, 4 and 4
    close(Tensor(a).shard(THREE, 0) + merged, a + b.reshape(14))  # and of 5, 5 and 4


# -- moving -----------------------------------------------------------------------------------


def test_moves_between_groups_of_devices():
    a = numbers(9, 6)
    x = Tensor(a).shard(TWO, 0)
    for moved in (x.to(THREE), x.shard(THREE, 1), x.shard(TWO, 1), x.shard(("CPU:1", "CPU"), 0)):
        close(moved, a)
    close(x.detach() + x.shard(TWO, 1), 2 * a)
    x.to_("CPU:2")
    assert x.device == "CPU:2"
    close(x.to_(TWO), a)
    assert copy.deepcopy(x).device == TWO


def test_constants_go_to_any_group():
    x = Tensor.ones(6, 3, device=TWO).full_like(2.0).shard(THREE, 0)
    close(x + Tensor(np.ones((6, 3), np.float32)).shard(THREE), np.full((6, 3), 3.0))


@pytest.mark.parametrize("axes", [(0, 1), (1, None), (None, 0)])
def test_gradients_come_back_from_other_groups(axes):
    a = numbers(9, 6)
    x = Tensor(a).shard(TWO, axes[0]).requires_grad_()
    y = Tensor(a).shard(THREE, axes[1]).requires_grad_()
    product = (x * 2).shard(THREE, 1) * y
    (product.sum() + (x.to("CPU:2") * 3).sum().to(THREE)).backward()
    assert x.grad.device == TWO
    assert y.grad.device == THREE
    close(x.grad, 2 * a + 3)
    close(y.grad, 2 * a)


def test_a_parameter_learns_from_a_loss_on_one_device(pair):
    a = numbers(8, 4)
    x = Tensor(a).shard(pair, 0).requires_grad_()
    optimizer = nn.optim.SGD([x], lr=0.1)
    with Tensor.train():
        (x.to("CPU") ** 2).sum().backward()
        optimizer.step()
    close(x, a * 0.8)
    assert spread_of(x.node, x.device).axis == 0


def test_a_result_on_one_device_is_computed_once():
    x = Tensor(numbers(8, 4)).shard(TWO, 0).requires_grad_()
    y = (x * 2).to("CPU").realize()
    assert y.is_realized


def test_the_kernels_of_each_device_can_be_seen():
    x = Tensor(numbers(8, 4)).shard(TWO, 0).realize()
    assert len((x + 1).schedule()) == 2
    assert len(x.sum().schedule()) == 4  # a sum on each device, then the sum of both on each


def test_the_kernels_that_can_be_seen_are_those_that_run():
    x = Tensor(numbers(8, 4)).realize()
    state = Tensor(numbers(4)).realize()
    y, z = x.exp().sum(0), x.sin().sum(0)
    state.assign(state * 2)
    for tensors in (
        (y.to("CPU:1") + 1, y.to("CPU:2") + 1),
        (z.to("CPU:1") + 1, z * 2),
        ((state + 1).to("CPU:1") * 3, state, state + 5),
        (x.to("CPU:1") + 1,),
    ):
        seen = tensors[0].schedule(*tensors[1:])
        GlobalCounters.reset()
        Tensor.realize(*tensors)
        assert len(seen) == GlobalCounters.kernel_count


# -- assignment -------------------------------------------------------------------------------


def test_assigned_values_keep_their_places():
    a = numbers(8, 4)
    x = Tensor(a).shard(TWO, 0).realize()
    view, old = x.reshape(4, 8), x * 1
    x.assign(x.flip(0) + x[[1] * 8])
    expected = a[::-1] + a[1]
    close(x + old, expected + a)
    close(view, a.reshape(4, 8))
    close(x, expected)
    assert spread_of(x.node, x.device).axis == 0


def test_a_part_can_be_assigned_to():
    values = numbers(8, 4)
    x = Tensor(values).shard(TWO, 0).realize()
    x[:2].assign(Tensor.zeros(2, 4, device=TWO))
    values[:2] = 0
    np.testing.assert_array_equal(x.numpy(), values)


# -- gathering --------------------------------------------------------------------------------


@pytest.mark.parametrize("of_table", [None, 0, 1])
@pytest.mark.parametrize("of_words", [None, 0, 1])
def test_gradients_of_an_embedding(of_table, of_words):
    table, words = numbers(11, 4), np.arange(12).reshape(6, 2) % 5

    def gradient(x, places):
        x.requires_grad_()
        found = x[places]
        (found * found).sum().backward()
        return x.grad.numpy()

    expected = gradient(Tensor(table), Tensor(words))
    found = gradient(Tensor(table).shard(TWO, of_table), Tensor(words).shard(TWO, of_words))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# -- random numbers ---------------------------------------------------------------------------


def test_random_numbers_of_several_devices_are_those_of_one():
    Tensor.manual_seed(1)
    expected = [Tensor.rand(4, device="CPU").numpy() for _ in range(3)]
    Tensor.manual_seed(1)
    for numbers_of_one in expected:
        np.testing.assert_array_equal(Tensor.rand(4, device=TWO).numpy(), numbers_of_one)


def test_captured_random_numbers_go_on():
    x = Tensor(numbers(8, 4)).shard(TWO, 0).realize()
    draw = TinyJit(lambda x: (x.rand_like() + x * 0).realize())
    assert len({draw(x).numpy().tobytes() for _ in range(5)}) == 5


# -- replaying --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda x: x.shard(TWO, 1), "split along axis 0 .*now it is split along axis 1"),
        (lambda x: x.shard(TWO), "now it is copied to"),
        (lambda x: x.shard(("CPU", "CPU:2"), 0), "now it is split along axis 0 over .*CPU:2"),
        (lambda x: x, "now it is on one device"),
    ],
)
def test_a_captured_function_wants_its_arguments_spread_alike(other, message):
    x = Tensor(numbers(4, 4))
    double = TinyJit(lambda x: (x * 2).realize())
    for _ in range(3):
        double(x.shard(TWO, 0).realize())
    with pytest.raises(JitError, match=message):
        double(other(x).realize())


@pytest.mark.parametrize("axis", [0, None])
def test_an_argument_that_is_spread_gets_its_gradient_from_replays(axis):
    leaf = Tensor(numbers(4, 4)).shard(TWO, axis).realize().requires_grad_()

    @TinyJit
    def step(leaf, scale):
        (leaf * leaf * scale).sum().backward()
        return leaf.grad.realize()

    for scale in range(1, 6):
        leaf.grad = None
        gradient = step(leaf, Tensor([float(scale)]).shard(TWO).realize())
        close(gradient, 2 * scale * leaf.numpy())
        close(leaf.grad, 2 * scale * leaf.numpy())


def test_constants_and_reshaped_tensors_can_be_captured():
    a = numbers(4, 4)
    run = TinyJit(lambda x, y: (x + y.reshape(4, 4), Tensor.ones(3, device=TWO)))
    x = Tensor(a).shard(TWO, 0).realize()
    for _ in range(4):
        total, ones = run(Tensor.ones(4, 4, device=TWO), x.reshape(8, 2))
        close(total, a + 1)
        close(ones, np.ones(3))


def test_replays_change_no_view_taken_before():
    a = numbers(4, 4)
    x, step = Tensor(a).shard(TWO, 0).realize(), Tensor(a).shard(TWO, 0).realize()
    view = x.reshape(8, 2)

    def add(by):
        x.assign(x + by)
        return x.sum().realize(x)

    run = TinyJit(add)
    for count in range(2, 7):
        np.testing.assert_allclose(run(step).item(), a.sum() * count, rtol=1e-4)
    close(view, a.reshape(8, 2))


# -- bad requests -----------------------------------------------------------------------------


def test_operands_of_different_groups_are_refused():
    x, y = Tensor(numbers(6, 4)).shard(TWO, 0), Tensor(numbers(6, 4)).shard(THREE, 0)
    with pytest.raises(DeviceError, match=r"\[add\].*'CPU:1'\) and .*'CPU:2'\)"):
        x + y
    with pytest.raises(DeviceError, match=r"\[cat\]"):
        x.cat(y)
    with pytest.raises(DeviceError, match=r"\[getitem\]"):
        x[Tensor([0, 1])]
    with pytest.raises(DeviceError, match="give a tuple"):
        x.shard(3)
    with pytest.raises(ShapeError, match=r"no axis 0\.5"):
        x.shard(TWO, 0.5)
