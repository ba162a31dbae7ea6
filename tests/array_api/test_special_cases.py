"""The standard's special cases of complex functions (2024.12), as a table, and its symmetries.

Real ones are compared with the reference in test_elementwise.py; `//` and `%` here too.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor, array_api

INF, NAN, PI = math.inf, math.nan, math.pi
ANY = (0.0, 2.0, -2.5)  # finite numbers
NONZERO = (2.0, -2.5)
POSITIVE = (0.5, 2.0, 3.0)
ENDLESS = (INF, -INF)
ZEROS = (0.0, -0.0)


class Unsigned(float):
    """A value whose sign the standard leaves open."""


U0, UINF = Unsigned(0.0), Unsigned(INF)


def cis(size):
    """`size` times cos(b) + i sin(b), as a function of b."""
    return lambda b: (size * math.cos(b), size * math.sin(b))


# (real part or parts, imaginary part or parts) -> the result, or a function of the imaginary part
LOGARITHMS = [
    (ANY, INF, (INF, PI / 2)), (-INF, POSITIVE, (INF, PI)), (INF, POSITIVE, (INF, 0.0)),
    (-INF, INF, (INF, 3 * PI / 4)), (INF, INF, (INF, PI / 4)), (ENDLESS, NAN, (INF, NAN)),
    (ANY, NAN, (NAN, NAN)), (NAN, ANY, (NAN, NAN)), (NAN, INF, (INF, NAN)), (NAN, NAN, (NAN, NAN)),
]  # fmt: skip
CASES = {
    "exp": [
        (ZEROS, 0.0, (1.0, 0.0)), (ANY, INF, (NAN, NAN)), (ANY, NAN, (NAN, NAN)),
        (INF, 0.0, (INF, 0.0)), (-INF, ANY, cis(0.0)), (INF, NONZERO, cis(INF)),
        (-INF, INF, (U0, U0)), (INF, INF, (UINF, NAN)), (-INF, NAN, (U0, U0)),
        (INF, NAN, (UINF, NAN)), (NAN, 0.0, (NAN, 0.0)), (NAN, NONZERO, (NAN, NAN)),
        (NAN, INF, (NAN, NAN)), (NAN, NAN, (NAN, NAN)),
    ],
    "expm1": [
        (ZEROS, 0.0, (U0, 0.0)), (ANY, INF, (NAN, NAN)), (ANY, NAN, (NAN, NAN)),
        (INF, 0.0, (INF, 0.0)), (-INF, ANY, lambda b: (-1.0, 0.0 * math.sin(b))),
        (INF, NONZERO, cis(INF)), (-INF, INF, (-1.0, U0)), (INF, INF, (UINF, NAN)),
        (-INF, NAN, (-1.0, U0)), (INF, NAN, (UINF, NAN)), (NAN, 0.0, (NAN, 0.0)),
        (NAN, NONZERO, (NAN, NAN)), (NAN, INF, (NAN, NAN)), (NAN, NAN, (NAN, NAN)),
    ],
    "sinh": [
        (0.0, 0.0, (0.0, 0.0)), (0.0, INF, (U0, NAN)), (0.0, NAN, (U0, NAN)),
        (NONZERO, INF, (NAN, NAN)), (NONZERO, NAN, (NAN, NAN)), (INF, 0.0, (INF, 0.0)),
        (INF, POSITIVE, cis(INF)), (INF, INF, (UINF, NAN)), (INF, NAN, (UINF, NAN)),
        (NAN, 0.0, (NAN, 0.0)), (NAN, NONZERO, (NAN, NAN)), (NAN, NAN, (NAN, NAN)),
    ],
    "cosh": [
        (0.0, 0.0, (1.0, 0.0)), (0.0, INF, (NAN, U0)), (0.0, NAN, (NAN, U0)),
        (NONZERO, INF, (NAN, NAN)), (NONZERO, NAN, (NAN, NAN)), (INF, 0.0, (INF, 0.0)),
        (INF, NONZERO, cis(INF)), (INF, INF, (UINF, NAN)), (INF, NAN, (INF, NAN)),
        (NAN, ZEROS, (NAN, U0)), (NAN, NONZERO, (NAN, NAN)), (NAN, NAN, (NAN, NAN)),
    ],
    "tanh": [
        (0.0, 0.0, (0.0, 0.0)), (NONZERO, INF, (NAN, NAN)), (0.0, INF, (0.0, NAN)),
        (25.0, INF, (NAN, NAN)), (NONZERO, NAN, (NAN, NAN)), (25.0, NAN, (NAN, NAN)),
        (0.0, NAN, (0.0, NAN)), (INF, 0.5, (1.0, 0.0)), (INF, INF, (1.0, U0)),
        (INF, NAN, (1.0, U0)), (NAN, 0.0, (NAN, 0.0)), (NAN, NONZERO, (NAN, NAN)),
        (NAN, NAN, (NAN, NAN)),
    ],
    "log": [(-0.0, 0.0, (-INF, PI)), (0.0, 0.0, (-INF, 0.0)), *LOGARITHMS],
    "log1p": [(-1.0, 0.0, (-INF, 0.0)), *LOGARITHMS],
    "sqrt": [
        (ZEROS, 0.0, (0.0, 0.0)), ((*ANY, *ENDLESS, NAN), INF, (INF, INF)), (ANY, NAN, (NAN, NAN)),
        (-INF, POSITIVE, (0.0, INF)), (INF, POSITIVE, (INF, 0.0)), (-INF, NAN, (NAN, UINF)),
        (INF, NAN, (INF, NAN)), (NAN, ANY, (NAN, NAN)), (NAN, NAN, (NAN, NAN)),
    ],
    "acos": [
        (ZEROS, 0.0, (PI / 2, -0.0)), (ZEROS, NAN, (PI / 2, NAN)), (ANY, INF, (PI / 2, -INF)),
        (NONZERO, NAN, (NAN, NAN)), (-INF, POSITIVE, (PI, -INF)), (INF, POSITIVE, (0.0, -INF)),
        (-INF, INF, (3 * PI / 4, -INF)), (INF, INF, (PI / 4, -INF)), (ENDLESS, NAN, (NAN, UINF)),
        (NAN, ANY, (NAN, NAN)), (NAN, INF, (NAN, -INF)), (NAN, NAN, (NAN, NAN)),
    ],
    "acosh": [
        (ZEROS, 0.0, (0.0, PI / 2)), (ANY, INF, (INF, PI / 2)), (NONZERO, NAN, (NAN, NAN)),
        (0.0, NAN, (NAN, Unsigned(PI / 2))), (-INF, POSITIVE, (INF, PI)),
        (INF, POSITIVE, (INF, 0.0)), (-INF, INF, (INF, 3 * PI / 4)), (INF, INF, (INF, PI / 4)),
        (ENDLESS, NAN, (INF, NAN)), (NAN, ANY, (NAN, NAN)), (NAN, INF, (INF, NAN)),
        (NAN, NAN, (NAN, NAN)),
    ],
    "asinh": [
        (0.0, 0.0, (0.0, 0.0)), (POSITIVE, INF, (INF, PI / 2)), (ANY, NAN, (NAN, NAN)),
        (INF, POSITIVE, (INF, 0.0)), (INF, INF, (INF, PI / 4)), (INF, NAN, (INF, NAN)),
        (NAN, 0.0, (NAN, 0.0)), (NAN, NONZERO, (NAN, NAN)), (NAN, INF, (UINF, NAN)),
        (NAN, NAN, (NAN, NAN)),
    ],
    "atanh": [
        (0.0, 0.0, (0.0, 0.0)), (0.0, NAN, (0.0, NAN)), (1.0, 0.0, (INF, 0.0)),
        (POSITIVE, INF, (0.0, PI / 2)), (NONZERO, NAN, (NAN, NAN)), (INF, POSITIVE, (0.0, PI / 2)),
        (INF, INF, (0.0, PI / 2)), (INF, NAN, (0.0, NAN)), (NAN, ANY, (NAN, NAN)),
        (NAN, INF, (U0, PI / 2)), (NAN, NAN, (NAN, NAN)),
    ],
    "sign": [(ZEROS, 0.0, (0.0, 0.0)), (ANY, NAN, (NAN, NAN)), (NAN, ANY, (NAN, NAN))],
}  # fmt: skip
# f(z) is made of these by g(iz), so what holds for them holds for it
TURNED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh", "cos": "cosh"}
ODD = ("sinh", "tanh", "asinh", "atanh", "sin", "tan", "asin", "atan")
EVEN = ("cosh", "cos")
MIRRORED = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "exp", "expm1", "log",
            "log1p", "log2", "log10", "sinh", "sqrt", "tanh")  # fmt: skip
EDGES = np.array([complex(a, b) for a in (0.0, -0.0, 1.0, -2.5, 1000.0, INF, -INF, NAN)
                  for b in (0.0, -0.0, 0.5, -2.0, INF, -INF, NAN)])  # fmt: skip


def listed(part):
    return part if isinstance(part, tuple) else (part,)


def rows(name):
    """Each number of the table, and its result."""
    found = []
    for real, imaginary, result in CASES[name]:
        for a in listed(real):
            found += [(complex(a, b), result(b) if callable(result) else result)
                      for b in listed(imaginary)]  # fmt: skip
    return found


def is_right(got, want, digits):
    if math.isnan(want):
        return math.isnan(got)
    if isinstance(want, Unsigned):
        got = abs(got)
    if want == 0 or math.isinf(want):
        return got == want and math.copysign(1, got) == math.copysign(1, want)
    return math.isclose(got, want, rel_tol=digits)


def agree(a, b):
    """Whether all are equal, NaN to NaN too; zeros of either sign."""
    return np.array_equal(a.real, b.real, equal_nan=True) and np.array_equal(
        a.imag, b.imag, equal_nan=True
    )


def value(name, numbers, device):
    return getattr(array_api, name)(Tensor(numbers, device=device)).numpy()


@pytest.mark.parametrize("device", ["REF", "CPU"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_complex_special_cases_are_those_of_the_standard(name, dtype, device):
    numbers, results = zip(*rows(name), strict=True)
    got = value(name, np.array(numbers, dtype), device)
    digits = 1e-6 if dtype == "complex64" else 1e-14
    wrong = [
        (number, complex(z), want) for number, z, want in zip(numbers, got, results, strict=True)
        if not (is_right(z.real, want[0], digits) and is_right(z.imag, want[1], digits))
    ]  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("name", MIRRORED)
def test_conjugates_have_conjugate_results(name):
    assert agree(value(name, EDGES.conj(), "REF"), value(name, EDGES, "REF").conj())


@pytest.mark.parametrize("name", [*ODD, *EVEN])
def test_odd_and_even_functions_are(name):
    turned = value(name, -EDGES, "REF")
    assert agree(-turned if name in ODD else turned, value(name, EDGES, "REF"))


@pytest.mark.parametrize("name", TURNED)
def test_circular_functions_are_hyperbolic_ones_turned(name):
    times_i = np.array([complex(-z.imag, z.real) for z in EDGES])
    other = value(TURNED[name], times_i, "REF")
    if name != "cos":
        other = np.array([complex(z.imag, -z.real) for z in other])
    assert agree(value(name, EDGES, "REF"), other)


@pytest.mark.parametrize("name", ["log2", "log10"])
def test_logarithms_to_a_base_are_those_of_the_formula(name):
    got, log = value(name, EDGES, "REF"), value("log", EDGES, "REF")
    base = math.log(2 if name == "log2" else 10)
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(got, part), getattr(log, part) / base, 1e-14)


def test_the_magnitude_is_infinite_where_a_part_is():
    size = value("abs", EDGES, "REF")
    endless = np.isinf(EDGES.real) | np.isinf(EDGES.imag)
    assert np.all(size[endless] == INF)
    assert np.all(np.isnan(size[~endless]) == np.isnan(EDGES[~endless]))


def test_the_operators_have_the_special_cases_of_the_functions(on_the_interpreter):
    numbers = [0.0, -0.0, 1.0, -1.0, 2.5, INF, -INF, NAN]
    a, b = (array_api.asarray(grid.reshape(-1)) for grid in np.meshgrid(numbers, numbers))
    for got, want in ((a // b, array_api.floor_divide(a, b)), (a % b, array_api.remainder(a, b))):
        got, want = got.numpy(), want.numpy()
        np.testing.assert_array_equal(got, want)
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def test_the_sign_of_a_nan_is_seen():
    nan = math.copysign(NAN, -1)
    assert bool(array_api.signbit(array_api.asarray(nan)))
    assert not bool(array_api.signbit(array_api.asarray(NAN)))
