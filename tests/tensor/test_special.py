"""Special functions against PyTorch, NumPy and SciPy's numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import DTypeError

from .oracle import compare, compare_twice

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(31)
SIGNED = np.array([-3.7, -1.2, -0.4, -1e-4, 1e-4, 0.3, 0.9, 1.6, 4.2, 11.0], np.float32)
POSITIVE = np.abs(SIGNED)
INSIDE = np.array([-0.99, -0.5, -1e-3, 1e-3, 0.2, 0.7, 0.95], np.float32)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan], np.float32)

UNARY = {
    "log1p": (POSITIVE, torch.log1p),
    "expm1": (SIGNED, torch.expm1),
    "log10": (POSITIVE, torch.log10),
    "erfc": (SIGNED, torch.erfc),
    "erfinv": (INSIDE, torch.erfinv),
    "lgamma": (np.concatenate([SIGNED, [13.5, 40.0]]).astype(np.float32), torch.lgamma),
    "digamma": (np.concatenate([SIGNED, [13.5, 40.0]]).astype(np.float32), torch.digamma),
    "logit": ((INSIDE + 1) / 2, torch.logit),
    "sinc": (np.delete(SIGNED, (3, 4)), torch.sinc),
    "deg2rad": (SIGNED, torch.deg2rad),
    "rad2deg": (SIGNED, torch.rad2deg),
    "frac": (SIGNED, torch.frac),
    "nan_to_num": (SIGNED, torch.nan_to_num),
}

LINEAR = ("frac", "nan_to_num", "deg2rad", "rad2deg")


@pytest.mark.parametrize("name", UNARY)
def test_a_special_function_matches_pytorch_in_value_and_gradient(device, name):
    x, theirs = UNARY[name]
    compare(device, lambda x: getattr(x, name)(), theirs, x, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", [n for n in UNARY if n not in LINEAR])
def test_a_special_function_has_second_derivatives(name):
    x, theirs = UNARY[name]
    compare_twice(
        lambda x: getattr(x, name)(), theirs, x.astype(np.float64), rtol=1e-6, atol=1e-6
    )  # fmt: skip


def test_the_slope_of_sinc_keeps_its_digits_near_0():
    """A quotient's does not: PyTorch's in float32 is three times too large at 1e-4."""
    x = Tensor(np.array([-0.31, -0.29, -0.01, -1e-4, 0.0, 1e-7, 1e-3], np.float32))
    y = math.pi * x.numpy().astype(np.float64)
    series = -(y / 3) * (1 - y**2 / 10 * (1 - y**2 / 28 * (1 - y**2 / 54 * (1 - y**2 / 88))))
    [found] = x.sinc().sum().gradient(x)
    np.testing.assert_allclose(found.numpy(), math.pi * series, rtol=3e-6)


@pytest.mark.parametrize("name", ["log1p", "expm1", "erfc", "erfinv", "lgamma", "log10", "sinc"])
def test_a_special_function_is_exact_in_float64(name):
    x = RNG.uniform(-0.99, 0.99, 400) if name == "erfinv" else RNG.uniform(0.001, 25, 400)
    got = getattr(Tensor(x), name)().numpy()
    np.testing.assert_allclose(got, getattr(torch, name)(torch.tensor(x)).numpy(), 1e-12, 1e-14)


@pytest.mark.parametrize("name", ["log1p", "expm1", "erfc", "erfinv", "lgamma"])
def test_a_special_function_keeps_infinities_and_nan(device, name):
    if device == "WEBGPU":
        pytest.skip("WGSL has no infinities of its own")
    want = getattr(torch, name)(torch.tensor(SPECIAL)).numpy()
    np.testing.assert_allclose(getattr(Tensor(SPECIAL, device=device), name)().numpy(), want, 1e-5)


def test_small_and_tiny_results_are_not_rounded_away():
    assert Tensor([1e-20]).log1p().item() == np.float32(1e-20)
    assert Tensor([-1e-20]).expm1().item() == np.float32(-1e-20)
    np.testing.assert_allclose(Tensor([9.0]).erfc().item(), math.erfc(9.0), rtol=1e-6)
    np.testing.assert_allclose(
        Tensor([1.0 + 2**-20]).lgamma().item(), math.lgamma(1 + 2**-20), atol=1e-7
    )


def test_angles_and_lengths_match_numpy_at_all_corners():
    y, x = (part.ravel() for part in np.meshgrid(SPECIAL, SPECIAL))
    got = Tensor(y).atan2(Tensor(x)).numpy()
    np.testing.assert_allclose(got, np.arctan2(y, x), rtol=1e-6)
    np.testing.assert_array_equal(Tensor(y).hypot(Tensor(x)).numpy(), np.hypot(y, x))
    big = np.float32(3e38)
    assert Tensor([big]).hypot(Tensor([big / 2])).isfinite().item() is True


BINARY = {
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "fmod": torch.fmod,
    "logaddexp2": torch.logaddexp2,
    "ldexp": torch.ldexp,
}


@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_matches_pytorch(device, name):
    a, b = RNG.normal(size=(5, 4)).astype(np.float32), RNG.normal(size=4).astype(np.float32)
    compare(device, lambda a, b: getattr(a, name)(b), BINARY[name], a, b, rtol=1e-4, atol=1e-5)
    compare_twice(
        lambda a, b: getattr(a, name)(b), BINARY[name], a.astype(np.float64), b.astype(np.float64)
    )  # fmt: skip


def test_xlogy_is_zero_where_its_first_argument_is(device):
    x = np.array([0.0, 0.0, 2.0, 0.5], np.float32)
    y = np.array([0.0, 3.0, 5.0, 0.1], np.float32)
    compare(device, lambda x, y: x.xlogy(y), torch.xlogy, x, y, grad=False)
    compare(device, lambda x, y: x.xlogy(y), torch.xlogy, x[2:], y[2:])


def test_neighbours_and_signs_match_numpy():
    x, y = (part.ravel() for part in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        want = np.nextafter(x, y)
    np.testing.assert_array_equal(Tensor(x).nextafter(Tensor(y)).numpy(), want)
    np.testing.assert_array_equal(Tensor(SPECIAL[:-1]).signbit().numpy(), np.signbit(SPECIAL[:-1]))
    assert Tensor([-1, 0]).signbit().tolist() == [True, False]
    x = Tensor([1.0, 2.0, 0.0], requires_grad=True)  # where it is moved, it moves along
    (x.nextafter(Tensor([2.0, 2.0, -1.0])) * Tensor([3.0, 4.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [3.0, 0.0, 5.0]
    with pytest.raises(DTypeError, match=r"\[nextafter\] needs floats"):
        Tensor([1]).nextafter(Tensor([2]))


def test_integers_become_floats_and_rests_stay_integers():
    assert Tensor([1, 2]).log1p().dtype is dtypes.float32
    rest = Tensor([-7, 7, -7]).fmod(Tensor([3, -3, -3]))
    assert rest.dtype is dtypes.int32
    assert rest.tolist() == [-1, 1, -1]
    assert Tensor([True, False]).logical_xor(Tensor([True, True])).tolist() == [False, True]


def test_nan_and_infinities_are_replaced(device):
    x = Tensor([np.nan, np.inf, -np.inf, 2.0], device=device)
    assert x.nan_to_num(7.0, posinf=8.0, neginf=9.0).tolist() == [7, 8, 9, 2]
    assert x.nan_to_num().tolist()[1] == float(np.finfo(np.float32).max)
    assert x.isposinf().tolist() == [False, True, False, False]
    assert x.isneginf().tolist() == [False, False, True, False]


def test_odd_functions_keep_the_sign_of_zero_and_do_not_overflow(device):
    x = Tensor(np.array([-0.0, 0.0, -1e30, 1e30, 2.0], np.float32), device=device)
    signs = slice(2 if device == "WEBGPU" else 0, None)  # WGSL need not know -0
    np.testing.assert_array_equal(np.signbit(x.abs().numpy())[signs], False)
    for name in ("asinh", "atan"):
        got, want = getattr(x, name)().numpy(), getattr(np, f"arc{name[1:]}")(x.numpy())
        np.testing.assert_allclose(got, want, rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(got)[signs], np.signbit(want)[signs])
    np.testing.assert_allclose(x[3:].acosh().numpy(), np.arccosh(x[3:].numpy()), rtol=1e-6)


def test_gradients_of_the_inverse_hyperbolic_functions_are_finite_everywhere():
    x = Tensor([-1e30, -2.0, 0.0, 1e-3, 5.0, 1e30], requires_grad=True)
    got = x.asinh().sum().gradient(x)[0].numpy()
    np.testing.assert_allclose(got, 1 / np.hypot(1, x.numpy().astype(np.float64)), rtol=1e-5)
    y = Tensor([1.5, 1e30], requires_grad=True)
    got = y.acosh().sum().gradient(y)[0].numpy()
    np.testing.assert_allclose(got, [1 / np.sqrt(1.25), 1e-30], rtol=1e-5)


def test_angles_of_float64_are_exact_to_float64():
    y, x = np.array([0.0, -0.0, 1.0, -3.0, -0.0]), np.array([-1.0, -1.0, 0.0, -4.0, 0.0])
    np.testing.assert_allclose(Tensor(y).atan2(Tensor(x)).numpy(), np.arctan2(y, x), rtol=1e-15)
