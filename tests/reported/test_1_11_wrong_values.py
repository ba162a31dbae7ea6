"""1.11: values that were wrong at the ends of their types, and at ties."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor, dtypes

INF = math.inf


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_1_11_fmod_of_the_smallest_integer_is_that_of_c(dtype, device):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([low, low, low, high, high, low, 7, -7], dtype)
    b = np.array([3, -3, low, low, -3, high, low, low], dtype)
    got = Tensor(a, device=device).fmod(Tensor(b, device=device))
    assert got.dtype.name == dtype
    wanted = [int(math.copysign(abs(int(x)) % abs(int(y)), int(x)))
              if abs(int(x)) < 2**53 else (abs(int(x)) % abs(int(y))) * (1 if x > 0 else -1)
              for x, y in zip(a, b, strict=True)]  # fmt: skip
    assert got.tolist() == wanted


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_1_11_gcd_with_the_smallest_integer_is_positive(dtype, device):
    low = int(np.iinfo(dtype).min)
    a, b = [low, low, 6, low, low], [-low // 2, 3, low, low + 1, 12]
    got = Tensor(np.array(a, dtype), device=device).gcd(Tensor(np.array(b, dtype), device=device))
    assert got.tolist() == [math.gcd(x, y) for x, y in zip(a, b, strict=True)]
    assert got.dtype.name == dtype


def test_1_11_ldexp_scales_in_the_inputs_dtype():
    assert Tensor([1.0], dtype=dtypes.float64).ldexp(150).tolist() == [2.0**150]
    assert Tensor([0.0, -0.0]).ldexp(128).tolist() == [0.0, -0.0]
    x = np.array([1.0, 1.5, 3e38, 1e-45, 1e-45, 3.0, 1.2e-38, -1.7], np.float32)
    by = np.array([-149, -149, -277, 276, 277, -150, -3, 127], np.int32)
    got = Tensor(x).ldexp(Tensor(by))
    with np.errstate(over="ignore"):
        assert np.array_equal(got.numpy(), np.ldexp(x, by))
    half = Tensor([1.5], dtype=dtypes.float16).ldexp(Tensor([3]))
    assert (half.dtype, half.tolist()) == (dtypes.float16, [12.0])
    np.testing.assert_allclose(Tensor([2.0]).ldexp(0.5).tolist(), [2.0 * 2.0**0.5], 1e-6)


def test_1_11_idiv_truncates_and_floor_division_rounds_down(device):
    a, b = [-4, 7, 5, 4, -7, 8, -128], [2, -3, 8, -2, 3, 0, -1]
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    assert x.idiv(y).tolist() == [-2, -2, 0, -2, -2, 0, 128]
    assert (x // y).tolist() == x.floor_divide(y).tolist() == [-2, -3, 0, -2, -3, 0, 128]
    assert Tensor([-7.0, 7.5], device=device).idiv(2).tolist() == [-3.0, 3.0]
    assert Tensor([1, 2], device=device).idiv(7, reverse=True).tolist() == [7, 3]


def test_1_11_a_variance_without_a_free_element_is_infinite():
    x = Tensor([1.0, 2.0, 4.0])
    for correction in (3, 4):
        assert x.var(correction=correction).item() == INF
        assert x.std(correction=correction).item() == INF
    assert math.isnan(Tensor([1.0]).var().item())  # 0 / 0
    assert Tensor.ones(2, 0).var(0, correction=5).shape == (0,)


def test_1_11_a_maximum_with_a_constant_shares_the_gradient_at_a_tie():
    for make in (lambda: 0, lambda: Tensor(0.0), lambda: Tensor([0.0, 0.0, 0.0])):
        x = Tensor([0.0, 1.0, -1.0], requires_grad=True)
        x.maximum(make()).sum().backward()
        assert x.grad.tolist() == [0.5, 1.0, 0.0]
        x = Tensor([0.0, 1.0, -1.0], requires_grad=True)
        x.minimum(make()).sum().backward()
        assert x.grad.tolist() == [0.5, 0.0, 1.0]
    x = Tensor(0.0, requires_grad=True)
    x.maximum(0).backward()
    assert x.grad.item() == 0.5


@pytest.mark.parametrize(
    ("name", "points"), [("relu", [0.0]), ("relu6", [0.0, 6.0]), ("hardtanh", [-1.0, 1.0])]
)
def test_1_11_activations_keep_the_gradient_0_at_their_corners(name, points):
    x = Tensor(points, requires_grad=True)
    getattr(x, name)().sum().backward()
    assert x.grad.tolist() == [0.0] * len(points)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_1_11_interpolate_keeps_bytes(mode):
    x = np.random.default_rng(0).integers(0, 256, (1, 2, 5, 6), np.uint8)
    got = Tensor(x).interpolate((9, 13), mode=mode)
    wanted = Tensor(x.astype(np.float32)).interpolate((9, 13), mode=mode).numpy()
    assert got.dtype is dtypes.uint8
    assert np.array_equal(got.numpy(), np.clip(np.floor(wanted + 0.5), 0, 255).astype(np.uint8))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_1_11_complex_roots_and_logarithms_near_the_largest_number_are_finite(dtype):
    most = np.finfo(dtype).max
    z = np.array([complex(most, most), complex(-most, most), complex(most / 2, -most)], dtype)
    for name in ("sqrt", "log"):
        np.testing.assert_allclose(getattr(Tensor(z), name)().numpy(), getattr(np, name)(z), 1e-6)


def test_1_11_the_sign_of_nan_is_nan(device):
    assert math.isnan(Tensor([math.nan], device=device).sign().item())
    assert math.isnan(Tensor(math.nan, device=device).sign().item())
