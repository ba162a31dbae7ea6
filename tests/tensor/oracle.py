"""Comparison with PyTorch: the same function on the same data, values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from treadle import Tensor


def compare(
    device: str,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    *arrays: np.ndarray,
    grad: bool = True,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Check the value and, with `grad`, the gradient of every float input against PyTorch's."""
    torch = pytest.importorskip("torch")
    floats = [a.dtype.kind == "f" and grad for a in arrays]
    mine = [
        Tensor(a, device=device, requires_grad=True if f else None)
        for a, f in zip(arrays, floats, strict=True)
    ]
    other = [torch.tensor(a, requires_grad=f) for a, f in zip(arrays, floats, strict=True)]
    got, want = ours(*mine), theirs(*other)
    assert got.shape == tuple(want.shape)
    assert got.device == device
    np.testing.assert_allclose(got.numpy(), want.detach().numpy(), rtol=rtol, atol=atol)
    if not any(floats):
        return
    weights = np.random.default_rng(0).normal(size=got.shape).astype(np.float32)
    want.backward(torch.tensor(weights).to(want.dtype))
    got.backward(Tensor(weights, device=device))
    for f, a, b in zip(floats, mine, other, strict=True):
        if f and b.grad is not None:
            mine_grad = np.zeros(b.shape) if a.grad is None else a.grad.numpy()
            np.testing.assert_allclose(mine_grad, b.grad.numpy(), rtol=rtol, atol=atol)


def compare_twice(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    *arrays: np.ndarray,
    device: str = "CPU",
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Check the gradient of a sum of squared gradients, all inputs float, against PyTorch's."""
    torch = pytest.importorskip("torch")
    mine = [Tensor(a, device=device, requires_grad=True) for a in arrays]
    other = [torch.tensor(a, requires_grad=True) for a in arrays]
    weights = np.random.default_rng(1).normal(size=ours(*mine).shape).astype(arrays[0].dtype)
    first = ours(*mine).mul(Tensor(weights, device=device)).sum().gradient(*mine)
    loss = theirs(*other).mul(torch.tensor(weights)).sum()
    wanted = torch.autograd.grad(loss, other, create_graph=True)
    total = first[0].square().sum()
    for part in first[1:]:
        total = total.add(part.square().sum())
    got = total.gradient(*mine, materialize_grads=True)
    want = torch.autograd.grad(sum((g * g).sum() for g in wanted), other, allow_unused=True)
    for a, b, source in zip(got, want, other, strict=True):
        expected = np.zeros(source.shape) if b is None else b.numpy()
        np.testing.assert_allclose(a.numpy(), expected, rtol=rtol, atol=atol)
