"""What random programs of writing have found: the least program of each, with plain numbers."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from treadle import Tensor, TinyJit

ROW = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_view_whose_owner_is_gone_is_written_after_what_it_was_made_of(device):
    start = Tensor.full((8, 3), 4.0, device=device)
    assert start.sum().item() == start.numpy().sum() == 96

    def column(a):
        a += a.flip(1)
        b = (3 - a).reshape(24, 1)
        return b.realize(), b + 1

    first, _ = column(start + 1)
    other, _ = column(Tensor.zeros(8, 3, device=device))
    column(start)
    first -= other
    assert first.tolist() == [[-10]] * 24


def test_a_gradient_without_its_graph_is_written_after_its_leaf(device):
    w = Tensor([[1.0], [3.0]], device=device).realize().requires_grad_()

    @TinyJit
    def overwrite(_):
        with Tensor.no_grad():
            w[0:2, 0:] = 3

    overwrite(Tensor([1.0], device=device))
    gradient = (w * w).sum().gradient(w)[0].detach()
    overwrite(Tensor([2.0], device=device))
    gradient.squeeze().assign(gradient.squeeze() + 1)
    assert gradient.tolist() == [[7], [7]]


def test_a_captured_function_reads_and_writes_a_view_from_before(device):
    x = (Tensor(ROW, device=device) + 0).contiguous()
    top = x[0:1]

    @TinyJit
    def double(a):
        top[:, :] = top * 2
        return a.realize()

    result = double(Tensor([0.0], device=device) + 1)
    later = result + 1
    double(Tensor([1.0], device=device) + 1)
    for a in (later.flip(0), Tensor([3.0], device=device), Tensor([4.0], device=device)):
        double(a)
    assert x.tolist() == [[0, 32, 64], [3, 4, 5]]


def test_a_constant_view_is_given_to_who_reads_it_by_name(device):
    view = Tensor.full((2, 3), -1.0, device=device).flip(0)

    @TinyJit
    def turned(a):
        return view.transpose(0, 1)

    turned(Tensor.full((2, 3), -1.0, device=device))
    turned(view)
    for n in range(3):
        view += 1
        found = turned(Tensor.full((2, 3), 2.0, device=device) * 2)
        assert found.tolist() == [[n, n]] * 3


def test_a_global_that_came_from_a_reshape_is_state(device):
    total = (Tensor.arange(6, device=device) + 0).reshape(2, 3)

    @TinyJit
    def step(a):
        nonlocal total
        total += 4
        return (total < 1).where(total, total), a + 1

    _, after = step(Tensor([0, 1, 2], device=device))
    _, after = step(after)
    for a in (after * 2 + 1, after * 2, after):
        found, _ = step(a)
    assert total.tolist() == found.tolist() == (np.arange(6).reshape(2, 3) + 20).tolist()


def test_a_call_that_was_captured_with_one_tensor_for_two_arguments(device):
    first = TinyJit(lambda a, b: (a.sum() + 0).realize())
    x, y = Tensor([7.0, 8.0], device=device), Tensor([1.0, 2.0], device=device)
    first(x + 1, x)
    first(x.reshape(2), x.reshape(2))
    for _ in range(3):
        assert first(x, y).item() == 15.0


def test_what_was_replaced_outside_stays_replaced_for_every_call(device):
    total, rate = Tensor([2.0], device=device) * 2, Tensor([4.0], device=device)

    @TinyJit
    def take(a):
        total.assign(rate)
        return total.realize()

    @TinyJit
    def grow(a):
        a *= 4

    grow(total)
    view = total.expand(1)
    take(view - view)
    take(Tensor([3.0], device=device))
    last = take(view)
    grow(rate)  # which gives it other memory
    take(last.reshape(1))
    take(Tensor([6.0], device=device))
    assert total.item() == 16.0


def test_two_tensors_of_one_graph_and_one_of_them_written_to(device):
    state = Tensor.full((2, 3), -2.0, device=device)
    given = (state < 1.0).where(state, state)

    @TinyJit
    def step(a, b):
        state.reshape(2, 3).assign(-state * 2)

    step(Tensor.ones(1, 3, device=device), Tensor.full((2, 3), 7.0, device=device) * 2)
    given.realize()
    state.assign(given)
    for expected in (4.0, -8.0, 16.0):
        step(Tensor.ones(1, 3, device=device) * 2, given)
        assert state.tolist() == [[expected] * 3] * 2
        assert given.tolist() == [[-2.0] * 3] * 2


def test_arguments_of_a_call_that_are_gone_are_not_computed_for_the_next(device):
    x, other = Tensor.full((4,), 7, device=device), Tensor.full((8, 3), 4, device=device) * 2
    nothing = TinyJit(lambda a: None)

    @TinyJit
    def give(a, b):
        b.assign(other)
        return a.realize()

    give(x, other.reshape(8, 3))
    nothing(x + 1)
    last = give(x.flip(0), Tensor.zeros(8, 3, device=device).int().contiguous())
    other.assign(1)
    nothing(last + 1)
    assert other.tolist() == [[1] * 3] * 8


SAME_VALUES = {
    "roll": lambda t: t.roll(0, 0),
    "cast": lambda t: t.cast(t.dtype),
    "where": lambda t: Tensor([True]).where(t, t),
    "cat": Tensor.cat,
    "copy": copy.copy,
    "dropout": lambda t: t.dropout(0.0),
    "detached": lambda t: t.detach().roll(0, 0),
}


@pytest.mark.parametrize("same", SAME_VALUES.values(), ids=SAME_VALUES)
def test_what_is_computed_of_others_memory_is_no_view_of_it(same):
    array = np.arange(6, dtype=np.float32)
    mine = Tensor.from_blob(array.ctypes.data, (6,), "float32", owner=array)
    result = same(mine).realize()
    array[...] = 9
    assert result.tolist() == [0, 1, 2, 3, 4, 5]
    assert mine.tolist() == [9] * 6


def test_what_was_overwritten_is_computed_anew_for_who_makes_it_again(device):
    eight, total = Tensor.full((3,), 8, device=device), Tensor.arange(3, device=device) + 0
    total -= eight - eight
    view = total.squeeze()  # which keeps that difference, and shows nothing of it by itself
    for expected in ([0, 0, 1], [0, 0, 1]):
        difference = Tensor.zeros(3, device=device).int().contiguous()
        difference.assign(eight - eight).realize()
        difference[2:] = 1
        total.assign(difference)
        assert total.tolist() == expected
    assert view.tolist() == [0, 1, 2]


def test_a_view_that_a_function_realizes_follows_what_it_is_a_view_of(device):
    owner = Tensor([0.0], device=device)
    view = owner.flatten()

    @TinyJit
    def write(a):
        view.assign(a.flip(0))
        view.realize()
        return a

    for value in (3.0, -1.0, 0.0, 5.0):
        write(Tensor([value], device=device))
        assert view.tolist() == owner.tolist() == [value]


def test_a_tensor_with_gradients_that_is_written_to_between_calls(device):
    leaf = Tensor([2.0, -1.0], device=device).requires_grad_()
    scaled = leaf * 1

    @TinyJit
    def read(a):
        return (scaled[:] * 1).detach()

    for factor in (1, 1, -2, 3):
        scaled *= factor
        assert read(Tensor([1.0], device=device)).tolist() == scaled.detach().tolist()


@pytest.mark.parametrize("is_realized", [False, True])
def test_gradients_through_a_write_that_is_computed_before_they_are(device, is_realized):
    leaf = Tensor([[1.0], [3.0]], device=device).requires_grad_()
    total = Tensor.full((2, 2), 7.0, device=device).realize()
    total *= leaf * 2
    if is_realized:
        total.realize()
    total *= leaf
    if is_realized:
        total.realize()
    (gradient,) = (total * total).sum().gradient(leaf)
    # 2 * (14 w^2)^2 in each of two rows: 8 * 196 w^3
    assert gradient.tolist() == [[1568.0], [1568.0 * 27]]


def test_what_a_captured_function_inside_of_another_writes_to(device):
    owner, other = Tensor([-3], device=device).contiguous(), Tensor.full((1,), 3, device=device)

    @TinyJit
    @TinyJit
    def write(a):
        a[0:1] = a

    write(other)
    older = owner.permute(0)
    owner.assign(2)
    write(older.reshape(1))
    assert owner.tolist() == [-3]


def test_an_argument_that_is_assigned_to_itself_writes_its_older_values(device):
    total = Tensor.full((2, 3), -3, device=device)
    other = (Tensor.arange(6, device=device) + 0).reshape(2, 3)

    @TinyJit
    def step(a):
        nonlocal total
        total += other
        a.assign(a)

    step(total)
    step(Tensor.ones(2, 3, device=device).int())
    step(total.flip(0).flip(0))
    assert total.tolist() == (np.arange(6).reshape(2, 3) * 2 - 3).tolist()


def test_a_view_of_an_older_version_is_written_through(device):
    owner = Tensor.full((3, 2), 7.0, device=device)
    view = owner[2:, -1]

    @TinyJit
    def step(a):
        nonlocal view
        view.realize()
        view += 5
        return a

    step(owner.reshape(3, 2) + 0)
    owner += owner.flip(0)
    for expected in (17.0, 22.0, 27.0):
        step(Tensor.ones(3, 2, device=device))
        assert owner[2, 1].item() == view.item() == expected


def test_a_view_that_gets_a_storage_of_its_own_while_a_function_is_captured(device):
    leaf = Tensor([[1.0], [3.0]], device=device).requires_grad_()
    (leaf * leaf).sum().backward()
    view = leaf.grad.detach()

    @TinyJit
    def step(_):
        nonlocal view
        view += Tensor.full((2, 1), -1.0, device=device)

    step(Tensor.zeros(2, 3, device=device).flip(0))
    leaf.grad = None
    for _ in range(3):
        step(Tensor.zeros(2, 3, device=device))
    assert view.tolist() == [[-2.0], [2.0]]


def test_an_argument_in_memory_that_the_function_finds_by_another_tensor(device):
    source = Tensor(ROW, device=device)
    total = Tensor.zeros(2, 3, device=device) * 2
    total.assign(source)  # one graph, and so one memory

    @TinyJit
    def step(a):
        a += source[[1, 1]]

    step(Tensor.ones(2, 3, device=device))
    for _ in range(2):
        step(total.flip(0))
    assert total.tolist() == (ROW + 2 * ROW[1]).tolist()
    assert source.tolist() == ROW.tolist()


def test_a_graph_that_a_function_makes_again_reads_what_was_assigned_since(device):
    zeros, source = Tensor.zeros(2, 3, device=device), Tensor(ROW, device=device).contiguous()

    @TinyJit
    def read(_):
        return source.roll(1, 0) + 1

    kept = [read(Tensor([0.0, 1.0], device=device)) for _ in range(2)]
    source.assign(zeros)
    assert read(Tensor([5.0, 5.0], device=device)).tolist() == [[1] * 3] * 2
    assert kept[0].tolist() == kept[1].tolist() == (ROW[::-1] + 1).tolist()


def test_two_tensors_for_what_was_one(device):
    one = Tensor.full((2, 2), 3.0, device=device)
    both = TinyJit(lambda a, b: (a, b.realize()))
    for _ in range(2):
        assert all(result is one for result in both(one, one))
    first, second = both(one + 1, one + 1)
    second[0:1, 1:2].assign(Tensor([[2.0]], device=device))
    assert first.tolist() == [[4, 4], [4, 4]]
    assert second.tolist() == [[4, 2], [4, 4]]


@pytest.mark.parametrize("index", [[0], 0, np.array([True, False, False])], ids=str)
def test_what_a_detached_view_shows_stays_detached_where_a_part_is_written(device, index):
    leaf = Tensor([1.0, 3.0, 4.0], device=device).requires_grad_()
    cut = (leaf * leaf).detach()
    kept = cut[...]
    cut[index] = 5
    (leaf * cut).sum().backward()
    assert leaf.grad.tolist() == [5, 9, 16]
    assert kept.tolist() == [1, 9, 16]


@pytest.mark.parametrize("index", [[0], 0, np.array([True, False, False])], ids=str)
def test_gradients_of_what_a_write_leaves_flow_on_once_it_is_computed(device, index):
    leaf = Tensor([1.0, 3.0, 4.0], device=device).requires_grad_()
    square = leaf * leaf
    square[index] = 5
    square.realize()
    square[1:2] = 7
    (square.realize() * 2).sum().backward()
    assert leaf.grad.tolist() == [0, 0, 16]


@pytest.mark.parametrize("axis", [0, 1, None])
def test_gradients_of_what_was_read_of_a_sharded_leaf_before_it_was_written(axis):
    devices = ("CPU", "CPU:1")
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    leaf = Tensor(values).shard(devices, axis).requires_grad_()
    other = Tensor([[1.0], [2.0], [3.0]]).shard(devices).requires_grad_()
    square = leaf * leaf
    with Tensor.no_grad():
        leaf[::-1] = 7.0
    (other * square).sum().backward()
    assert leaf.grad.tolist() == (2 * values * [[1], [2], [3]]).tolist()
    assert other.grad.tolist() == (values**2).sum(1, keepdims=True).tolist()
    assert leaf.tolist() == [[7] * 4] * 3


def test_what_a_leaf_showed_before_it_was_written_is_its_old_memory(device):
    leaf = Tensor([1.0, 2.0], device=device).requires_grad_()
    kept = leaf.detach()
    with Tensor.no_grad():
        leaf[0:] = 3.0
    assert leaf.tolist() == [3, 3]
    assert kept.tolist() == [1, 2]


def test_a_first_call_takes_an_argument_whose_memory_was_just_overwritten(device):
    @TinyJit
    def twice(a):
        return a.detach() + 1, a + 1  # one value, and one piece of memory

    @TinyJit
    def unchanged(a):
        return a + 0

    x = Tensor([6.0, 7.0], device=device) * 2
    first, second = twice(x.reshape(2))
    first.assign(x * 2)
    for _ in range(3):
        assert unchanged(second).tolist() == [13, 15]
    assert first.tolist() == [24, 28]


def test_a_captured_function_writes_to_what_gradients_have_come_to_flow_through(device):
    x = (Tensor.full((4, 4), 3.0, device=device) * 2).realize()
    w = Tensor([1.0, 2.0], device=device).requires_grad_()

    @TinyJit
    def last_row(a):
        x[3:].assign(-2)
        return a + 1

    for values in (ROW, ROW + 1):
        last_row(Tensor(values, device=device))
    x[2:, ::2] = w
    assert last_row(Tensor(ROW, device=device)).tolist() == (ROW + 1).tolist()
    assert x.tolist() == [[6] * 4] * 2 + [[1, 6, 2, 6], [-2] * 4]


@pytest.mark.parametrize("turn", range(4))  # it depended on when tensors are collected
def test_what_is_left_of_a_tensor_that_is_gone_reads_what_other_devices_parts_overwrite(turn):
    x = Tensor.full((3, 2), -3.0).shard(("CPU", "CPU:1"), 1).realize()

    @TinyJit
    def f(a, b):
        apart = -a
        apart[2] += 2.0
        b[::-1, ::-1] *= b.flip(1)

    f(x, x.flip(0))
    assert x.tolist() == [[9, 9]] * 3
