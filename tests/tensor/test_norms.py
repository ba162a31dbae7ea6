"""Norms and powers of matrices against PyTorch and NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor, dtypes, nn
from treadle.errors import DTypeError, LinAlgError, ShapeError

from .oracle import compare

RNG = np.random.default_rng(41)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("ord", [2, 1, 3, 1.5, 0.5, -1, math.inf])
def test_elements_of_0_get_the_gradient_0(ord):
    torch = pytest.importorskip("torch")
    x = np.array([[0, 0, 0], [1, 0, -2]], np.float32)
    compare(
        "CPU", lambda x: x.vector_norm(ord, -1), lambda x: torch.linalg.vector_norm(x, ord, -1),
        x, rtol=1e-4, atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("ord", [2, 1, 0, 3, 0.5, -1, math.inf, -math.inf])
@pytest.mark.parametrize(("dim", "keepdim"), [(None, False), (1, True), ((0, 2), False)])
def test_vector_norms_match_pytorch(ord, dim, keepdim):
    torch = pytest.importorskip("torch")
    compare(
        "CPU", lambda x: x.vector_norm(ord, dim, keepdim),
        lambda x: torch.linalg.vector_norm(x, ord, dim, keepdim), normal(2, 3, 4),
        grad=ord != 0, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("ord", ["fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf])
@pytest.mark.parametrize(("dim", "keepdim"), [((-2, -1), False), ((2, 0), True)])
def test_matrix_norms_match_pytorch(ord, dim, keepdim):
    torch = pytest.importorskip("torch")
    compare(
        "CPU", lambda x: x.matrix_norm(ord, dim, keepdim),
        lambda x: torch.linalg.matrix_norm(x, ord, dim, keepdim), normal(2, 3, 4),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_norm_is_that_of_all_elements(device):
    a = normal(2, 3)
    x = Tensor(a, device=device)
    for p in ("fro", 2, None):
        np.testing.assert_allclose(x.norm(p).numpy(), np.linalg.norm(a), rtol=1e-5)
    np.testing.assert_allclose(x.norm("nuc").numpy(), np.linalg.norm(a, "nuc"), rtol=1e-5)
    np.testing.assert_allclose(x.norm(1, dim=0).numpy(), np.abs(a).sum(0), rtol=1e-5)
    assert x.norm(dtype=dtypes.float16).dtype is dtypes.float16


def test_the_2_norm_has_the_gradient_0_at_0():
    x = Tensor([0.0, 0.0], requires_grad=True)
    x.norm().backward()
    assert x.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8, -1, -2])
def test_matrix_powers_match_numpy(device, n):
    a = normal(2, 3, 3) + 2 * np.eye(3, dtype=np.float32)
    got = Tensor(a, device=device).matrix_power(n)
    assert got.device == device
    np.testing.assert_allclose(
        got.numpy(), np.linalg.matrix_power(a.astype(np.float64), n), rtol=1e-3, atol=1e-4
    )


def test_integers_have_powers_but_no_inverse():
    x = Tensor([[1, 1], [1, 0]])
    assert x.matrix_power(10).tolist() == [[89, 55], [55, 34]]
    with pytest.raises(DTypeError, match=r"\[inv\] takes float32, .* numbers, not int32"):
        x.matrix_power(-1)
    with pytest.raises(LinAlgError):
        Tensor.zeros(2, 2).matrix_power(-2).numpy()


def test_mistakes_raise_at_once():
    x = Tensor.ones(2, 3)
    with pytest.raises(DTypeError, match=r"\[vector_norm\] takes floats or .*, not int32"):
        x.int().norm()
    with pytest.raises(ShapeError, match=r"ord 3 is not known; there are 'fro'"):
        x.matrix_norm(3)
    with pytest.raises(ShapeError, match=r"dim names two axes, not 1"):
        x.matrix_norm(dim=1)
    with pytest.raises(ShapeError, match=r"dim \(0, -2\) names no two axes of 2"):
        x.matrix_norm(dim=(0, -2))
    with pytest.raises(ShapeError, match=r"ord is a number, not 'max'"):
        x.vector_norm("max")
    with pytest.raises(ShapeError, match=r"square matrices, not shape \(2, 3\)"):
        x.matrix_power(2)
    with pytest.raises(ShapeError, match=r"the power is an integer, not 0.5"):
        Tensor.eye(2).matrix_power(0.5)


@pytest.mark.parametrize(
    "name", ["norm", "std", "layernorm", "normalize", "cosine_similarity", "batchnorm"]
)
def test_halves_whose_squares_overflow_have_norms_and_statistics(name, device):
    x = np.linspace(-500, 900, 64, dtype=np.float32).reshape(2, 32)

    def of(t):
        if name == "batchnorm":
            layer = nn.BatchNorm(32, affine=False, track_running_stats=False)
            return layer(Tensor.cat(t, t * 2, t + 100, dim=0))
        return t.cosine_similarity(t.flip(1)) if name == "cosine_similarity" else getattr(t, name)()

    half = of(Tensor(x, device=device).half())
    assert half.dtype is dtypes.float16
    np.testing.assert_allclose(half.float().numpy(), of(Tensor(x)).numpy(), rtol=0.01, atol=2e-3)


@pytest.mark.parametrize("name", ["fmod", "logaddexp", "xlogy", "ldexp", "softplus", "mish"])
def test_a_number_beside_halves_leaves_halves(name):
    x = Tensor([1.5, 2.0]).half()
    result = getattr(x, name)() if name in ("softplus", "mish") else getattr(x, name)(2.0)
    assert result.dtype is dtypes.float16
