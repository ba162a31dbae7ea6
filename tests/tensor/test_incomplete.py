"""The incomplete gamma functions against mpmath's digits and PyTorch's edges and gradients."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import ShapeError

torch = pytest.importorskip("torch")

# around the top of the integrand, far on both sides of it, and where series change
A = np.array([1e-3, 0.1, 0.7, 1.0, 2.9, 3.1, 9.9, 10.1, 60.0, 311.25, 2e3])
RATIOS = np.array([1e-3, 0.2, 0.8, 0.99, 1.0, 1.01, 1.3, 2.0])
PAIRS = np.stack([np.repeat(A, len(RATIOS)), np.outer(A, RATIOS).ravel()]).astype(np.float32)
PAIRS = np.concatenate([PAIRS, [[1e-3, 0.5, 0.5, 4.0, 30.0], [1.0, 0.9, 40.0, 90.0, 2.0]]], axis=1)
PAIRS = PAIRS.astype(np.float32)
EDGES = np.array(
    [(0, 0), (0, 1), (1, 0), (-1, 1), (1, -1), (np.inf, 1), (1, np.inf), (np.inf, np.inf),
     (0, np.inf), (np.nan, 1), (1, np.nan)], np.float32,
).T  # fmt: skip


@functools.cache
def exact(name: str) -> np.ndarray:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(70):
        pairs = [(mpmath.mpf(float(a)), mpmath.mpf(float(x))) for a, x in PAIRS.T]
        lower = [mpmath.gammainc(a, 0, x, regularized=True) for a, x in pairs]
        found = lower if name == "igamma" else [1 - p for p in lower]
        return np.array([float(value) for value in found])


@pytest.mark.parametrize("name", ["igamma", "igammac"])
@pytest.mark.parametrize(
    ("dtype", "close", "absolute"), [("float32", 2e-5, 5e-7), ("float64", 1e-12, 2e-14)]
)
def test_values_are_those_of_70_digits(name, dtype, close, absolute):
    a, x = PAIRS.astype(dtype)
    got = getattr(Tensor(a), name)(Tensor(x)).numpy().astype(np.float64)
    assert np.abs(got - exact(name)).max() < absolute
    is_integrated = (x <= np.maximum(a, 1)) == (name == "igamma")
    is_normal = is_integrated & (exact(name) > 1e-30)
    assert is_normal.sum() > 20
    np.testing.assert_allclose(got[is_normal], exact(name)[is_normal], rtol=close)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_edges_are_those_of_pytorch(name, device):
    a, x = EDGES
    got = getattr(Tensor(a, device=device), name)(Tensor(x, device=device)).numpy()
    np.testing.assert_array_equal(got, getattr(torch, name)(torch.tensor(a), torch.tensor(x)))


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_first_and_second_derivatives_are_those_of_pytorch(name):
    a, x = np.random.default_rng(3).uniform([[0.2], [0.1]], [[40.0], [60.0]], (2, 64))
    theirs = torch.tensor(x, requires_grad=True)
    value = getattr(torch, name)(torch.tensor(a), theirs)
    (first,) = torch.autograd.grad(value.sum(), theirs, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), theirs)
    mine = Tensor(x, requires_grad=True)
    [ours] = getattr(Tensor(a), name)(mine).sum().gradient(mine)
    np.testing.assert_allclose(ours.numpy(), first.detach().numpy(), rtol=1e-9, atol=1e-14)
    [again] = ours.sum().gradient(mine)
    np.testing.assert_allclose(again.numpy(), second.numpy(), rtol=1e-9, atol=1e-14)


def test_the_derivative_for_the_exponent_is_there_where_pytorch_has_none():
    a, x, step = np.array([0.4, 2.5, 30.0]), np.array([0.7, 2.0, 33.0]), 1e-4
    mine = Tensor(a, requires_grad=True)
    got = mine.igamma(Tensor(x)).sum().gradient(mine)[0].numpy()
    values = [torch.igamma(torch.tensor(a + d), torch.tensor(x)).numpy() for d in (step, -step)]
    np.testing.assert_allclose(got, (values[0] - values[1]) / (2 * step), rtol=1e-6)


def test_types_and_shapes_are_those_of_elementwise_functions():
    half = Tensor([2.0], dtype=dtypes.float16)
    assert half.igamma(half).dtype == dtypes.float16
    assert Tensor([[1], [2]]).igamma(Tensor([1, 2, 3])).shape == (2, 3)
    np.testing.assert_allclose(
        Tensor([1.0, 2.0]).igammac(1.0).numpy(), [np.exp(-1), 2 * np.exp(-1)], rtol=1e-6
    )
    with pytest.raises(ShapeError, match=r"\[igamma\]"):
        Tensor.ones(2).igamma(Tensor.ones(3))
