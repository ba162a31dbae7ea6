"""Bessel functions and functions of probability against 40 digits, at edges and as gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import ShapeError

from .oracle import compare_twice

mp = pytest.importorskip("mpmath")
torch = pytest.importorskip("torch")
rng = np.random.default_rng(2)
WIDE, RIGHT = rng.uniform(-40, 40, 48), rng.uniform(0, 40, 48)
SHARES = np.concatenate([rng.uniform(0, 1, 24), 10 ** rng.uniform(-37, 0, 24)])
BOTH = np.concatenate([rng.uniform(0.01, 30, 24), rng.uniform(-6, 0, 24)])


def tail(x):
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def quantile(p):
    start = mp.sqrt(2) * mp.erfinv(2 * p - 1) if p > 0.3 else -mp.sqrt(-2 * mp.log(p))
    return mp.findroot(lambda x: tail(x) - mp.log(p), start)


# name, places, what it is, arguments, errors beside the result
FUNCTIONS = [
    ("i0", WIDE, lambda x: mp.besseli(0, x), (), 0),
    ("i0e", WIDE, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), (), 0),
    ("i1", WIDE, lambda x: mp.besseli(1, x), (), 0),
    ("i1e", WIDE, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), (), 0),
    ("bessel_k0", RIGHT, lambda x: mp.besselk(0, x), (), 0),
    ("bessel_k1", RIGHT, lambda x: mp.besselk(1, x), (), 0),
    ("scaled_bessel_k0", RIGHT, lambda x: mp.exp(x) * mp.besselk(0, x), (), 0),
    ("scaled_bessel_k1", RIGHT, lambda x: mp.exp(x) * mp.besselk(1, x), (), 0),
    ("bessel_j0", WIDE, lambda x: mp.besselj(0, x), (), 1),
    ("bessel_j1", WIDE, lambda x: mp.besselj(1, x), (), 1),
    ("bessel_y0", RIGHT, lambda x: mp.bessely(0, x), (), 1),
    ("bessel_y1", RIGHT, lambda x: mp.bessely(1, x), (), 1),
    ("spherical_bessel_j0", WIDE, mp.sinc, (), 0.1),
    ("erfcx", WIDE / 5, lambda x: mp.exp(x * x) * mp.erfc(x), (), 0),
    ("ndtr", WIDE / 4, lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, (), 0),
    ("log_ndtr", np.minimum(WIDE, 8), tail, (), 0),
    ("ndtri", SHARES, quantile, (), 0.1),
    ("entr", RIGHT, lambda x: -x * mp.log(x), (), 0.1),
    ("polygamma", BOTH, lambda x: mp.polygamma(1, x), (1,), 0),
    ("polygamma", BOTH, lambda x: mp.polygamma(4, x), (4,), 1),
    ("zeta", RIGHT + 1.05, lambda s: mp.zeta(s, 2.5), (2.5,), 0),
    ("multigammaln", RIGHT + 1.5, lambda x: sum(
        mp.loggamma(x - mp.mpf(j) / 2) for j in range(3)) + 1.5 * mp.log(mp.pi), (3,), 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "places", "meaning", "args", "floor"),
    FUNCTIONS,
    ids=[f"{name}{args}" for name, _, _, args, _ in FUNCTIONS],
)
@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 2e-6), (np.float64, 1e-13)])
def test_a_function_keeps_its_stated_accuracy(name, places, meaning, args, floor, dtype, most):
    x = places.astype(dtype)
    found = getattr(Tensor(x, device="CPU"), name)(*args).numpy()
    assert found.dtype == dtype
    with mp.workdps(60):
        wanted = [meaning(mp.mpf(float(at))) for at in x]
        for at, mine, exact in zip(x, found, wanted, strict=True):
            if abs(exact) > float(np.finfo(dtype).max) or abs(exact) < np.finfo(dtype).tiny:
                continue
            error = abs(mp.mpf(float(mine)) - exact) / max(abs(exact), floor)
            assert error < most, f"{name}({at}) is {mine}, not {mp.nstr(exact, 20)}"


EDGES = {
    "i0": [1.0, math.inf, math.inf, math.nan], "i0e": [1.0, 0.0, 0.0, math.nan],
    "i1": [0.0, math.inf, -math.inf, math.nan], "i1e": [0.0, 0.0, 0.0, math.nan],
    "bessel_k0": [math.inf, 0.0, math.nan, math.nan],
    "scaled_bessel_k1": [math.inf, 0.0, math.nan, math.nan],
    "bessel_j0": [1.0, 0.0, 0.0, math.nan], "bessel_j1": [0.0, 0.0, 0.0, math.nan],
    "bessel_y0": [-math.inf, 0.0, math.nan, math.nan],
    "bessel_y1": [-math.inf, 0.0, math.nan, math.nan],
    "spherical_bessel_j0": [1.0, 0.0, 0.0, math.nan], "erfcx": [1.0, 0.0, math.inf, math.nan],
    "ndtr": [0.5, 1.0, 0.0, math.nan], "log_ndtr": [math.log(0.5), 0.0, -math.inf, math.nan],
    "ndtri": [-math.inf, math.nan, math.nan, math.nan],
    "entr": [0.0, -math.inf, -math.inf, math.nan],
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_what_functions_are_at_0_infinity_and_nan(name):
    x = np.array([0.0, math.inf, -math.inf, math.nan], np.float32)
    found = getattr(Tensor(x, device="CPU"), name)().numpy()
    np.testing.assert_allclose(found, EDGES[name], rtol=1e-6)


def test_poles_of_zeta_and_polygamma():
    assert Tensor([2.0, 1.0, 0.5, 2.0], device="CPU").zeta(
        Tensor([-3.0, 2.0, 2.0, -0.5], device="CPU")
    ).tolist()[:2] == [math.inf, math.inf]  # fmt: skip
    assert Tensor([0.0, -2.0], device="CPU").polygamma(1).tolist() == [math.inf] * 2
    assert Tensor([0.0, math.inf], device="CPU").polygamma(2).tolist() == [-math.inf, 0.0]
    with pytest.raises(ShapeError, match=r"\[polygamma\]"):
        Tensor([1.0]).polygamma(-1)
    with pytest.raises(ShapeError, match=r"\[multigammaln\]"):
        Tensor([1.0]).multigammaln(0)


@pytest.mark.parametrize("name", ["i0", "i1e", "erfcx", "log_ndtr", "ndtri"])
def test_functions_have_second_derivatives(name):
    x = np.array([0.03, 0.2, 0.4, 0.7, 0.99])
    x = x if name == "ndtri" else x * 9 - 2
    compare_twice(
        lambda x: getattr(x, name)(), getattr(torch.special, name), x, rtol=1e-8, atol=1e-8
    )
