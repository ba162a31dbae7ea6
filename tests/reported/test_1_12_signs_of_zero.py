"""1.12: constants and kernels that disagreed. tests/tensor/test_folding.py has every operation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor

INF, NAN = math.inf, math.nan
# a, b, a % b, a // b: the Array API's, which are Python's but for infinities
DIVISIONS = [
    (0.0, 1.0, 0.0, 0.0), (-0.0, 1.0, 0.0, -0.0), (0.0, -1.0, -0.0, -0.0), (-0.0, -1.0, -0.0, 0.0),
    (3.0, 1.5, 0.0, 2.0), (-3.0, 1.5, 0.0, -2.0), (3.0, -1.5, -0.0, -2.0), (-3.0, -1.5, -0.0, 2.0),
    (1.0, 2.0, 1.0, 0.0), (-1.0, -2.0, -1.0, 0.0), (1.0, -2.0, -1.0, -1.0), (-1.0, 2.0, 1.0, -1.0),
    (1.0, INF, 1.0, 0.0), (-1.0, INF, INF, -0.0), (1.0, -INF, -INF, -0.0), (-1.0, -INF, -1.0, 0.0),
    (INF, 2.0, NAN, INF), (-INF, 2.0, NAN, -INF), (INF, -2.0, NAN, -INF), (INF, INF, NAN, NAN),
    (1.0, 0.0, NAN, INF), (-1.0, 0.0, NAN, -INF), (1.0, -0.0, NAN, -INF), (0.0, 0.0, NAN, NAN),
    (NAN, 1.0, NAN, NAN), (1.0, NAN, NAN, NAN),
]  # fmt: skip


def check(got, want):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def folded(function, *columns):
    return [function(*map(Tensor, row)).item() for row in zip(*columns, strict=True)]


def run(function, device, *columns):
    return function(*(Tensor(list(column), device=device) for column in columns)).tolist()


@pytest.mark.parametrize("where", ["folded", "run"])
def test_1_12_rests_and_floored_quotients_have_the_signs_of_the_standard(where, device):
    a, b, rests, quotients = zip(*DIVISIONS, strict=True)
    for function, want in ((lambda x, y: x % y, rests), (lambda x, y: x // y, quotients)):
        check(folded(function, a, b) if where == "folded" else run(function, device, a, b), want)


def test_1_12_fmod_has_the_sign_of_the_dividend(device):
    a, b, want = (
        [-0.0, 0.0, -3.0, 3.0, -1.0],
        [3.0, -3.0, 1.5, -1.5, 3.0],
        [-0.0, 0.0, -0.0, 0.0, -1.0],
    )
    check(folded(lambda x, y: x.fmod(y), a, b), want)
    check(run(lambda x, y: x.fmod(y), device, a, b), want)


def test_1_12_powers_of_minus_zero(device):
    a = [-0.0, -0.0, -0.0, -0.0, -0.0, -INF, 0.0]
    b = [-1.0, -3.0, 3.0, 0.5, -2.0, 0.5, -0.5]
    want = [-INF, -INF, -0.0, 0.0, INF, INF, INF]
    check(folded(lambda x, y: x.pow(y), a, b), want)
    check(run(lambda x, y: x.pow(y), device, a, b), want)
    for base, exponent, value in zip(a, b, want, strict=True):
        check(Tensor([base], device=device).pow(exponent).tolist(), [value])


def test_1_12_of_equal_zeros_the_extremes_are_the_first(device):
    a, b = [0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0]
    for function in (lambda x, y: x.maximum(y), lambda x, y: x.minimum(y)):
        check(folded(function, a, b), a)
        check(run(function, device, a, b), a)
    check([Tensor(-0.0).relu().item(), *Tensor([-0.0, NAN], device=device).relu().tolist()],
          [-0.0, -0.0, NAN])  # fmt: skip
    full = Tensor.full((2,), 0.0, device=device)  # a constant on the left
    check(full.maximum(Tensor([-0.0, NAN], device=device)).tolist(), [0.0, NAN])


def test_1_12_the_sign_of_a_nan_constant_is_nan():
    check([Tensor(NAN).sign().item(), Tensor([NAN]).sign().item()], [NAN, NAN])
