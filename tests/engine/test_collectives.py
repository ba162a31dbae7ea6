"""Calls of groups that are not captured: what is made where it is written, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, func
from treadle.distributed import group as group_module
from treadle.distributed.group import Group
from treadle.engine.collectives import used
from treadle.engine.realized import is_backed, resolve
from treadle.errors import DistributedError
from treadle.runtime.communicator import Alone


@pytest.fixture(autouse=True)
def in_a_group(monkeypatch):
    monkeypatch.setattr(used, "is_used", True)


def test_a_gradient_of_one_operation_is_no_call():
    x = Tensor([1.0, 2.0]).realize().requires_grad_(True)
    y, seed = Tensor([3.0, 4.0]).realize(), Tensor([5.0, 6.0]).realize()
    (x * y).backward(seed)
    assert x.grad is not None
    assert x.grad.tolist() == [15.0, 24.0]


def test_a_gradient_that_is_in_memory_is_no_call():
    x = Tensor([1.0, 2.0]).realize().requires_grad_(True)
    seed = Tensor([5.0, 6.0]).realize()
    (x + 1).backward(seed)
    assert x.grad is not None
    assert x.grad.tolist() == [5.0, 6.0]


def test_results_of_transforms_stay_graphs():
    x = Tensor([1.0, 2.0]).realize()
    result = func.vmap(lambda t: t * 2)(x)
    assert not is_backed(resolve(result.node))
    assert result.tolist() == [2.0, 4.0]


def test_a_loss_is_computed_with_the_gradients_that_are_exchanged():
    """What it is computed from is there then; for the loss alone it would be computed again."""
    group = Group(Alone())
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((64, 300)), rng.integers(0, 10, 64)
    w = rng.standard_normal((300, 10)) / 20
    parameter = Tensor(w.astype(np.float32)).realize().requires_grad_(True)
    scores = Tensor(x.astype(np.float32)).realize() @ parameter
    loss = scores.cross_entropy(Tensor(labels).realize())
    row = parameter[0] + 0  # of what is in memory: nothing of it would be computed again
    other = (scores.exp() @ Tensor.ones(10, 2000).contiguous()).sum()  # more work than that
    loss.backward()
    assert parameter.grad is not None
    total = group.allreduce(parameter.grad)
    assert is_backed(resolve(total.node))
    assert is_backed(resolve(loss.node))
    assert not is_backed(resolve(other.node))
    assert not is_backed(resolve(row.node))
    assert is_backed(resolve(scores.node))  # 2,560 bytes
    e = np.exp(x @ w)
    p = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(loss.item(), -np.log(p[np.arange(64), labels]).mean(), rtol=1e-5)
    p[np.arange(64), labels] -= 1
    np.testing.assert_allclose(total.numpy(), x.T @ p / 64, rtol=1e-4, atol=1e-6)


def test_gradients_are_still_there_after_an_exchange_that_fails(monkeypatch):
    class Two(Alone):
        size = 2

    def fail(calls: object) -> None:
        raise DistributedError("[distributed] process 1 has ended")

    parameter = Tensor([1.0, 2.0]).realize().requires_grad_()
    parameter.square().sum().backward()
    before = parameter.grad
    monkeypatch.setattr(group_module, "issue", fail)
    with pytest.raises(DistributedError, match="has ended"):
        Group(Two()).average_gradients([parameter])
    assert parameter.grad is before
    assert before.tolist() == [2.0, 4.0]
