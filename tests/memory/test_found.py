"""What random programs of writing have found: the least program of each, with plain numbers."""

from __future__ import annotations

import numpy as np

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
