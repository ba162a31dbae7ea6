"""Inverse functions of complex numbers: values, sides of cuts, gradients on both sides of them."""

import math

import mpmath
import numpy as np
import pytest

from treadle import Tensor

NAMES = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
PARTS = [
    0.0, -0.0, 1e-12, 0.3, -0.5, 0.999999999, 1.0, -1.0, 1.0000001, 2.0, -5.0, -3e9, 3e11, 1e200,
    -1.5e308, math.inf, -math.inf,
]  # fmt: skip
PLANE = np.array([complex(x, y) for x in PARTS for y in PARTS])
INNER = np.array([complex(x, y) for x in (-1.7, -0.4, 0.6, 3.0) for y in (-1.1, 0.2, 1e-5, 4e5)])


@pytest.mark.parametrize("name", NAMES)
def test_values_and_signs_of_zeros_are_those_of_c99_everywhere(name):
    got = getattr(Tensor(PLANE, device="REF"), name)().numpy()
    with np.errstate(all="ignore"):
        want = NAMES[name](PLANE)
    for mine, theirs in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(mine, theirs, rtol=2e-15, atol=1e-300)
        assert np.array_equal(np.signbit(mine), np.signbit(theirs))


@pytest.mark.parametrize("name", NAMES)
def test_both_parts_are_exact_to_a_few_roundings(name):
    near = np.array([1 + 1e-9j, -1 + 1e-300j, 1 - 1e-12, 1e-9 + 1j, 0.5 - 1e-200j, 1e-20 + 1e-30j])
    z = np.concatenate([INNER, near])
    got = getattr(Tensor(z, device="REF"), name)().numpy()
    with mpmath.workdps(400):
        want = [complex(getattr(mpmath, name)(mpmath.mpc(v))) for v in z]
    np.testing.assert_allclose(got.real, np.real(want), rtol=3e-15)
    np.testing.assert_allclose(got.imag, np.imag(want), rtol=3e-15)


def test_on_every_device(device):
    z = INNER.astype(np.complex64)
    x = Tensor(z, device=device)
    for name in ("asin", "acos", "atanh"):  # the others are these, turned
        np.testing.assert_allclose(getattr(x, name)().numpy(), NAMES[name](z), rtol=3e-6)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_two_orders_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    z = np.concatenate([INNER, [0.5j, 0.25, 1e12 + 1e11j]])
    x, other = Tensor(z, device="REF", requires_grad=True), torch.tensor(z, requires_grad=True)
    loss = lambda v: (v.real + v.imag * 2).sum()
    (first,) = loss(getattr(x, name)()).gradient(x)
    (wanted,) = torch.autograd.grad(loss(getattr(other, name)()), other, create_graph=True)
    (second,) = loss(first).gradient(x)
    (again,) = torch.autograd.grad(loss(wanted), other)
    np.testing.assert_allclose(first.numpy(), wanted.detach().resolve_conj().numpy(), rtol=2e-12)
    np.testing.assert_allclose(second.numpy(), again.resolve_conj().numpy(), rtol=1e-8, atol=1e-18)


def test_gradients_on_a_cut_are_those_of_its_side():
    x = Tensor(np.array([2 + 0j, complex(2, -0.0), 0j]), requires_grad=True)
    x.asin().imag.sum().backward()
    slope = 1 / math.sqrt(3)
    np.testing.assert_allclose(x.grad.numpy(), [slope, -slope, 1j], rtol=1e-14)
