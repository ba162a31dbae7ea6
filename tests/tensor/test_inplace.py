"""Assignment, in-place operators, views and threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.memory import memory_of
from treadle.engine.realized import resolve
from treadle.errors import DTypeError, ShapeError


def test_assign_overwrites_the_memory_and_pending_reads_keep_the_old_values(device):
    x = Tensor([1.0, 2.0], device=device)
    pending, alias = x * 10, x.reshape(2, 1)
    x.assign(Tensor([5.0, 6.0], device=device)).realize()
    assert x.tolist() == [5, 6]
    assert pending.tolist() == [10, 20]
    assert alias.tolist() == [[1], [2]]


def test_several_pending_assignments_happen_in_order(device):
    x = Tensor([1.0, 2.0], device=device)
    between = []
    for _ in range(3):
        x.assign(x * 2)
        between.append(x + 0.5)
    assert x.tolist() == [8, 16]
    assert [t.tolist() for t in between] == [[2.5, 4.5], [4.5, 8.5], [8.5, 16.5]]


def test_a_view_keeps_its_values_until_it_is_written_through(device):
    x = Tensor([1.0, 2.0], device=device)
    y = x.reshape(1, 2)
    x += 1
    assert y.tolist() == [[1, 2]]
    y += 10
    assert y.tolist() == [[11, 12]]
    assert x.tolist() == [11, 12]


def test_assigning_to_a_view_writes_through_to_its_buffer(device):
    cache = Tensor.zeros(4, 2, device=device).contiguous().realize()
    earlier = cache * 1
    cache[1:3].assign(Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)).realize()
    cache.shrink(((0, 1), None)).assign(Tensor([[9.0, 9.0]], device=device))
    assert cache.tolist() == [[9, 9], [1, 2], [3, 4], [0, 0]]
    assert earlier.sum().item() == 0


def test_in_place_operators_change_the_tensor_itself(device):
    x = Tensor([4.0, 9.0], device=device)
    same = x
    x += 1
    x *= 2
    x -= 2
    x /= 4
    x **= 2
    assert same is x
    assert x.tolist() == [4.0, 20.25]
    n = Tensor([5, 7], device=device)
    n //= 2
    n <<= 2
    n |= 1
    n ^= 8
    n &= 7
    n >>= 1
    assert n.tolist() == [
        ((((5 // 2) << 2 | 1) ^ 8) & 7) >> 1,
        ((((7 // 2) << 2 | 1) ^ 8) & 7) >> 1,
    ]
    lazy = Tensor.ones(2, device=device) + 1
    lazy += 3
    assert lazy.tolist() == [5, 5]


def test_an_in_place_result_of_another_type_or_shape_is_refused():
    n = Tensor([1, 2])
    with pytest.raises(DTypeError, match=r"\[add_\] the result is float32"):
        n += 0.5
    with pytest.raises(DTypeError, match=r"\[add_\] the result is int32 \(3, 2\)"):
        n += Tensor.ones(3, 2, dtype=dtypes.int32)
    with pytest.raises(ShapeError, match=r"\[assign\] a value of shape \(3,\) does not fit \(2,\)"):
        n.assign(Tensor([1, 2, 3]))
    with pytest.raises(DTypeError, match=r"\[assign\] a float32 value does not fit a int32 tensor"):
        n.assign(Tensor([1.0, 2.0]))


def test_realize_computes_several_tensors_and_shares_their_work(device):
    x = Tensor([1.0, 2.0], device=device)
    a, b, again = x + 1, (x + 1) * 2, x + 1
    assert a.realize(b) is a
    assert a.is_realized
    assert b.is_realized
    assert again.is_realized  # the same graph: its memory is known
    assert b.tolist() == [4, 6]


def test_constants_realised_on_two_devices_stay_apart():
    ours, other = Tensor.zeros(2, device="CPU").realize(), Tensor.zeros(2, device="REF").realize()
    assert (ours + 1).tolist() == [1, 1]
    assert (other + 2).tolist() == [2, 2]


def test_a_tensor_moves_between_devices_with_its_gradient():
    x = Tensor([1.0, 2.0], device="CPU", requires_grad=True)
    y = x.to("REF")
    assert y.device == "REF"
    assert x.to("cpu:0") is x
    (y * 3).sum().to("CPU").backward()
    assert x.grad.device == "CPU"
    assert x.grad.tolist() == [3, 3]
    x.to_("REF")
    assert x.device == "REF"
    assert x.grad.device == "REF"
    assert (x * 2).tolist() == [2, 4]


def test_clone_and_contiguous_have_values_of_their_own(device):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    copy, turned = x.clone(), x.T.contiguous()
    x[0, 0] = 100
    assert copy.tolist() == [[1, 2], [3, 4]]
    assert turned.tolist() == [[1, 3], [2, 4]]


def test_replace_takes_the_graph_of_another_tensor(device):
    x, y = Tensor([1.0], device=device), Tensor([2.0], device=device) * 2
    assert x.replace(y) is x
    assert x.tolist() == [4]
    with pytest.raises(ShapeError, match=r"\[replace\]"):
        x.replace(Tensor([1.0, 2.0], device=device))


def test_tensors_are_usable_from_several_threads(device):
    shared = Tensor(np.arange(8, dtype=np.float32), device=device)
    results: dict[int, list[float]] = {}

    def work(number: int) -> None:
        for step in range(5):
            total = (shared * number + step).sum()
        results[number] = [total.item(), Tensor.rand(3, device=device).shape[0]]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [28 * n + 32, 3] for n in range(6)}


@pytest.mark.parametrize("device", ["CPU", "REF"])
def test_a_sum_of_old_and_new_values(device):
    a = np.arange(6, dtype=np.float32)
    x = Tensor(a, device=device).contiguous().realize()
    old = x.flip(0)
    x.assign(x * 2 + 1)
    middle = x + 0
    x.assign(x.flip(0) + 1)
    total = x + middle + old
    expected = (a * 2 + 1)[::-1] + 1 + (a * 2 + 1) + a[::-1]
    np.testing.assert_array_equal(total.numpy(), expected)
    np.testing.assert_array_equal(old.numpy(), a[::-1])


def test_assignments_that_need_each_other_and_what_was():
    a = np.arange(6, dtype=np.float32)
    x, y = Tensor(a).contiguous().realize(), Tensor(a).contiguous().realize()
    both = x + y
    x.assign(y * 2)
    y.assign(both * 3)
    later = (both + x + y).contiguous()
    later.assign(later + x)
    np.testing.assert_array_equal((later + both).numpy(), a * (2 + 2 + 6 + 2 + 2))


def test_a_matrix_that_is_assigned_to_stays_in_its_memory(device):
    x = Tensor(np.ones((3, 4), np.float32), device=device).realize()
    memory = memory_of(resolve(x.node).src[0].arg)
    for _ in range(3):
        x.assign(x * 2).realize()
        x[1] = x[0] + 1
        x.realize()
        assert memory_of(resolve(x.node).src[0].arg) is memory
    assert x.tolist() == [[8] * 4, [9] * 4, [8] * 4]
