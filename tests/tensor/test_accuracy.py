"""Functions of float32 are as exact as docs/devices.md says, compiled, for every input with --full.

Errors are against float64 (NumPy's and SciPy's functions, which mpmath checks here), in units in
the last place (ulp) of the float32 nearest to the exact value: what is rounded once is off by 0.5
at most. Signs of zeros, infinities and NaNs have to be right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from treadle import Context, Tensor

PAGE = Path(__file__).parents[2] / "docs" / "devices.md"
ROW = re.compile(r"^\| `(\w+)` \| (\d+\.\d+)\b", re.MULTILINE)
STATED = {name: float(bound) for name, bound in ROW.findall(PAGE.read_text("utf-8"))}
ULPS, ULPS_OF_FLOAT64 = 2.0, 4.0
SIGN = np.uint32(1 << 31)
BLOCK = 1 << 20  # elements a call
CACHED = 1 << 15  # elements whose float64 values stay in a core's cache
# by the exponent's bits: subnormals have that of the least normal, infinity has the largest
ULP = 2.0 ** (np.clip(np.arange(256), 1, 254) - 150.0)
THREADS = ThreadPoolExecutor(4)  # NumPy and SciPy compute without Python's lock


@dataclass(frozen=True)
class Function:
    """`name` of Tensor, what NumPy or SciPy has for it, and what mpmath has.

    `parity` is f(-x) / f(x) where that is one number: half of the exact values are enough then.
    """

    name: str
    reference: Callable[[np.ndarray], np.ndarray]
    exact: Callable[[Any], Any]
    parity: int = 0


def erfinv(x: np.ndarray) -> np.ndarray:
    """SciPy's, which takes a microsecond for each number that it has no value for."""
    beyond = np.where(np.abs(x) == 1, np.copysign(np.inf, x), np.nan)
    return np.where(np.abs(x) < 1, special.erfinv(np.where(np.abs(x) < 1, x, 0.0)), beyond)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


FUNCTIONS = (
    Function("exp", np.exp, mp.exp),
    Function("exp2", np.exp2, lambda x: mp.mpf(2) ** x),
    Function("log", np.log, mp.log),
    Function("log2", np.log2, lambda x: mp.log(x, 2)),
    Function("log10", np.log10, mp.log10),
    Function("log1p", np.log1p, mp.log1p),
    Function("expm1", np.expm1, mp.expm1),
    Function("sin", np.sin, mp.sin, -1),
    Function("cos", np.cos, mp.cos, 1),
    Function("tan", np.tan, mp.tan, -1),
    Function("asin", np.arcsin, mp.asin, -1),
    Function("acos", np.arccos, mp.acos),
    Function("atan", np.arctan, mp.atan, -1),
    Function("sinh", np.sinh, mp.sinh, -1),
    Function("cosh", np.cosh, mp.cosh, 1),
    Function("tanh", np.tanh, mp.tanh, -1),
    Function("asinh", np.arcsinh, mp.asinh, -1),
    Function("acosh", np.arccosh, mp.acosh),
    Function("atanh", np.arctanh, mp.atanh, -1),
    Function("erf", special.erf, mp.erf, -1),
    Function("erfc", special.erfc, mp.erfc),
    Function("erfinv", erfinv, mp.erfinv, -1),
    Function("sigmoid", sigmoid, lambda x: 1 / (1 + mp.exp(-x))),
    Function("rsqrt", lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x)),
    Function("sqrt", np.sqrt, mp.sqrt),
    Function("reciprocal", np.reciprocal, lambda x: 1 / x, -1),
)
PAIRS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
}


@pytest.fixture
def is_full(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--full", False) or os.environ.get("FULL_TESTS"))


def sizes(is_full: bool) -> Iterator[np.ndarray]:
    """Floats from 0 to infinity, and NaNs: all, or some of each binade and both its ends."""
    if is_full:
        yield from (np.arange(b, b + BLOCK, dtype=np.uint32) for b in range(0, 1 << 31, BLOCK))
        return
    ends = np.arange(0, 1 << 31, 1 << 23)[:, None] + np.arange(-300, 300)
    near_one = np.arange(-2000, 2000) * 7 + int(np.float32(1).view(np.uint32))
    some = np.concatenate([np.arange(0, 1 << 31, 1021), ends.ravel(), near_one])
    yield some[(some >= 0) & (some < 1 << 31)].astype(np.uint32)


def ulp(x: np.ndarray) -> np.ndarray:
    """The unit in the last place of each of some float32."""
    return ULP[x.view(np.uint32) >> 23 & 255]


def in_ulp(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How far `got` is from `exact`: infinitely where one is NaN, or the sign of a zero differs."""
    nearest = exact.astype(np.float32)
    error = np.abs(got - exact) / ulp(nearest)
    if got.all() and np.isfinite(error.max()):
        return error
    # what overflows is measured from where the numbers end, and has to be infinite beyond
    error = np.abs(got - np.clip(exact, -(2.0**128), 2.0**128)) / ulp(nearest)
    same = (got.view(np.uint32) == nearest.view(np.uint32)) | (np.isnan(got) & np.isnan(exact))
    wrong = np.isnan(error) | ((got == 0) & (nearest == 0))
    return np.where(same & ~np.isfinite(error), 0.0, np.where(wrong & ~same, np.inf, error))


def worst_of(x: np.ndarray, got: np.ndarray, exact: np.ndarray) -> tuple[float, float]:
    error = in_ulp(got, exact)
    worst = int(error.argmax())
    return float(error[worst]), float(x[worst])


def worst_of_both_signs(
    function: Function, values: list[np.ndarray], got: list[np.ndarray], begin: int
) -> tuple[float, float]:
    """The largest error of a few positive numbers and their negatives, and where it is."""
    part = slice(begin, begin + CACHED)
    (x, negative), (y, other) = ([each[part] for each in pair] for pair in (values, got))
    with np.errstate(all="ignore"):
        exact = function.reference(x.astype(np.float64))
        mirrored = function.parity * exact
        if not function.parity:
            mirrored = function.reference(negative.astype(np.float64))
        return max(worst_of(x, y, exact), worst_of(negative, other, mirrored))


def largest_error(function: Function, is_full: bool) -> tuple[float, float]:
    """The largest error in ulp, and the input that has it."""
    found = (0.0, 0.0)
    for size in sizes(is_full):
        values = [(size | sign).view(np.float32) for sign in (np.uint32(0), SIGN)]
        got = [getattr(Tensor(x, device="CPU"), function.name)().numpy() for x in values]
        parts = range(0, size.size, CACHED)
        found = max(found, *THREADS.map(partial(worst_of_both_signs, function, values, got), parts))
    return found


def pairs(is_full: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of all sizes, NaNs and infinities, and ones near 1 with others near them."""
    random = np.random.default_rng(5)
    for _ in range(64 if is_full else 2):
        bits = random.integers(0, 1 << 32, (2, BLOCK), np.uint32).view(np.float32)
        near = random.standard_normal((2, BLOCK), np.float32) * np.float32([[2], [20]])
        close = 1 + random.standard_normal((2, BLOCK), np.float32) * np.float32([[0.01], [0.3]])
        yield tuple(np.concatenate(part) for part in zip(bits, near, close, strict=True))


def test_the_references_are_what_mpmath_gives():
    random = np.random.default_rng(6)
    bits = random.integers(0, 1 << 32, 100, np.uint32).view(np.float32)
    x = np.concatenate([bits, random.normal(size=60) * 3, random.uniform(-1, 1, 60)])
    x = x.astype(np.float32).astype(np.float64)
    for function in FUNCTIONS:
        with np.errstate(all="ignore"):
            found = function.reference(x)
        normal = np.isfinite(found) & (np.abs(found) > 1e-300)
        assert normal.sum() > 40
        with mp.workprec(250):  # of large angles
            exact = np.array([float(function.exact(mp.mpf(float(v)))) for v in x[normal]])
        np.testing.assert_allclose(found[normal], exact, rtol=1e-13, err_msg=function.name)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_a_function_is_as_exact_as_its_page_says(function, is_full):
    error, at = largest_error(function, is_full)
    assert error <= STATED[function.name], at


@pytest.mark.parametrize(
    "function", [f for f in FUNCTIONS if STATED[f.name] <= ULPS], ids=lambda f: f.name
)
def test_no_function_needs_contraction(function):
    with Context(REPRODUCIBLE=1):
        error, at = largest_error(function, False)
    assert error <= ULPS, at


@pytest.mark.parametrize("is_reproducible", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_float64_is_within_four_ulp(function, is_reproducible):
    random = np.random.default_rng(8)
    near_one = 1 - 10.0 ** -random.uniform(1, 15, 30)
    normal = random.normal(size=(80, 1)) * [3, 1e-5, 300]
    x = np.concatenate([normal.ravel(), random.uniform(-1, 1, 80), near_one, [0.5, -0.5]])
    with Context(REPRODUCIBLE=int(is_reproducible)):
        got = getattr(Tensor(x, device="CPU"), function.name)().numpy()
    with np.errstate(all="ignore"):
        found = np.isfinite(function.reference(x))
    with mp.workprec(250):
        for value, ours in zip(x[found], got[found], strict=True):
            exact = function.exact(mp.mpf(float(value)))
            step = float(np.spacing(abs(float(exact))))
            assert abs(mp.mpf(float(ours)) - exact) <= ULPS_OF_FLOAT64 * mp.mpf(step), value


@pytest.mark.parametrize("name", PAIRS)
def test_a_function_of_two_is_as_exact_as_its_page_says(name, is_full):
    for x, y in pairs(is_full):
        got = getattr(Tensor(x, device="CPU"), name)(Tensor(y, device="CPU")).numpy()
        with np.errstate(all="ignore"):
            error = in_ulp(got, PAIRS[name](x.astype(np.float64), y.astype(np.float64)))
        worst = int(error.argmax())
        assert error[worst] <= STATED[name], (x[worst], y[worst])


def test_logaddexp_is_as_exact_as_its_arguments_are():
    """Where it crosses 0 nothing is exact in its own last place."""
    for x, y in pairs(False):
        x, y = (each[BLOCK:] for each in (x, y))  # without infinities
        got = Tensor(x, device="CPU").logaddexp(Tensor(y, device="CPU")).numpy()
        exact = np.logaddexp(x.astype(np.float64), y.astype(np.float64))
        largest = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.abs(got))
        assert (np.abs(got - exact) / ulp(largest)).max() <= STATED["logaddexp"]
