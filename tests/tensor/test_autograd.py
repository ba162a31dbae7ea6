"""`backward`, `gradient` and which tensors they reach."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import DTypeError, NoGradientWarning, ShapeError, UserError


def leaf(values, device):
    return Tensor(values, device=device, requires_grad=True)


def test_backward_adds_up_in_the_leaves(device):
    w, x = leaf([1.0, 2.0], device), Tensor([3.0, 4.0], device=device)
    loss = (w * x).sum()
    assert loss.backward() is loss
    assert w.grad.tolist() == [3, 4]
    (w * w).sum().backward()
    assert w.grad.tolist() == [5, 8]
    assert x.grad is None
    assert w.requires_grad is True
    assert w.is_param
    assert x.requires_grad is None
    assert (w * x).requires_grad is True


def test_a_leaf_may_be_computed_before_the_backward_pass(device):
    w = Tensor.uniform(3, device=device, requires_grad=True)
    loss = (w * w).sum()
    values = w.numpy()
    loss.realize()
    loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * values, rtol=1e-6)


def test_a_computed_tensor_in_the_middle_still_passes_gradients(device):
    w = leaf([1.0, 2.0], device)
    y = (w * 2).realize()
    (y * y).sum().backward()
    assert w.grad.tolist() == [8, 16]


def test_equal_leaves_have_gradients_of_their_own(device):
    a = Tensor.ones(2, device=device, requires_grad=True)
    b = Tensor.ones(2, device=device, requires_grad=True)
    (a * 2 + b * 3).sum().backward()
    assert a.grad.tolist() == [2, 2]
    assert b.grad.tolist() == [3, 3]
    scalar = Tensor(2.0, device=device, requires_grad=True)
    (scalar * scalar).backward()
    assert scalar.grad.item() == 4


def test_requires_grad_can_be_asked_for_later_and_taken_back(device):
    w = Tensor([1.0, 2.0], device=device)
    w.requires_grad = True
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3, 3]
    w.requires_grad_(False)
    w.grad = None
    with pytest.raises(DTypeError, match=r"\[requires_grad\] only floats"):
        Tensor([1]).requires_grad_()
    with pytest.warns(NoGradientWarning, match="nothing below this tensor requires gradients"):
        (w * 3).sum().backward()
    assert w.grad is None


def test_no_grad_and_detach_stop_gradients(device):
    w = leaf([1.0, 2.0], device)
    with Tensor.no_grad():
        stopped = w * 5
    assert stopped.requires_grad is None
    assert w.detach().requires_grad is False
    (w * stopped + w.detach() * w).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), [5 + 1, 10 + 2])

    @Tensor.no_grad()
    def scaled():
        return w * 2

    assert scaled().requires_grad is None
    assert not Tensor.no_grad


def test_training_mode_is_a_context_a_decorator_and_a_setting():
    assert Tensor.training is False
    with Tensor.train():
        assert Tensor.training is True
        with Tensor.train(False):
            assert Tensor.training is False

    @Tensor.train()
    def inside():
        return Tensor.training

    assert inside() is True
    Tensor.training = True
    try:
        assert Tensor.training is True
    finally:
        Tensor.training = False


def test_an_update_in_place_keeps_a_leaf_a_leaf(device):
    w = leaf([1.0, 2.0], device)
    for _ in range(3):
        w.grad = None
        (w * w).sum().backward()
        with Tensor.no_grad():
            w.assign(w - 0.25 * w.grad).realize()
    np.testing.assert_allclose(w.numpy(), [0.125, 0.25])
    with Tensor.no_grad():
        w -= 0.125
    np.testing.assert_allclose(w.numpy(), [0, 0.125])
    assert w.is_leaf


def test_assignments_pass_gradients_to_what_was_written(device):
    w, v = leaf([1.0, 2.0, 3.0], device), leaf([10.0], device)
    y = w * 2
    y[1:2] = v * 3
    (y * Tensor([1.0, 2.0, 4.0], device=device)).sum().backward()
    assert w.grad.tolist() == [2, 0, 8]
    assert v.grad.tolist() == [6]
    total = Tensor.zeros(3, device=device).contiguous().realize()
    w.grad = None
    total += w * w
    total.sum().backward()
    assert w.grad.tolist() == [2, 4, 6]


def test_gradient_gives_what_is_asked_for_and_can_be_repeated(device):
    x = leaf([1.0, 2.0, 3.0], device)
    y = x * x
    z = (y * x).sum()
    by_x, by_y = z.gradient(x, y)
    assert by_x.tolist() == [3, 12, 27]
    assert by_y.tolist() == [1, 2, 3]
    [second] = by_x.sum().gradient(x)
    assert second.tolist() == [6, 12, 18]
    assert x.grad is None
    [scaled] = y.gradient(x, gradient=Tensor([1.0, 0.0, 2.0], device=device))
    assert scaled.tolist() == [2, 0, 12]


def test_a_target_without_influence_is_an_error_or_zeros(device):
    x, other = leaf([1.0, 2.0], device), leaf([5.0], device)
    z = (x * x).sum()
    with pytest.raises(UserError, match=r"\[gradient\] targets \[1\] do not influence"):
        z.gradient(x, other)
    assert z.gradient(x, other, materialize_grads=True)[1].tolist() == [0]
    constant = Tensor.ones(2, device=device)
    assert (constant * 2).sum().gradient(constant)[0].tolist() == [2, 2]


def test_backward_refuses_what_has_no_single_gradient():
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ShapeError, match=r"\[backward\] shape \(2,\) is not one value"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"gradient has shape \(3,\), expected \(2,\)"):
        (x * 2).backward(Tensor([1.0, 2.0, 3.0]))
    with pytest.raises(DTypeError, match=r"\[backward\] only floats"):
        Tensor([1]).sum().backward()


def test_half_gradients_of_broadcasts_add_in_float32(device):
    x = Tensor([1.0], dtype="float16", device=device, requires_grad=True)
    x.expand(4096).sum().backward()
    assert x.grad.dtype == "float16"
    assert x.grad.item() == 4096
