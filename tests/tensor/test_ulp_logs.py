"""Inverse hyperbolic functions, and those of exponentials and errors, are within 2 ulp in float32.

References are float64, and mpmath where NumPy has none. `tests/lower/test_math.py` looks at the
formulas, contracted and not, `test_accuracy.py` at all inputs of the CPU's kernels; this at other
devices, half types, constants, and logit.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.ir.elementwise import erfinv

ULP = 2.0
REFERENCES = {
    "log1p": np.log1p, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "erfinv": np.vectorize(erfinv, otypes=[np.float64]),
    "logit": lambda p: np.where(p < 0.25, np.log(p) - np.log1p(-p), 2 * np.arctanh(2 * p - 1)),
    "expm1": np.expm1, "sinh": np.sinh, "cosh": np.cosh, "log10": np.log10,
}  # fmt: skip
OPERATIONS = ("log10", "log1p", "asinh", "acosh", "atanh", "erfc", "erfinv")
# where formulas change, and where results leave a type's range
EDGES = [
    0.25, 0.5, 0.625, 0.75, 1.0, 2.0, 3.0, 10.05, 2.0**24, 2.0**28, 88.7, 89.4, 1e9, 1e19, 0.99663,
    math.sqrt(0.5), math.sqrt(2.0), math.sqrt(2.0) - 1, 1 - math.sqrt(0.5),
]  # fmt: skip
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, 1.17549435e-38, 3.4028235e38]
INNER = {
    "log10": (0.0, math.inf),
    "acosh": (1.0, math.inf),
    "atanh": (-1.0, 1.0),
    "erfinv": (-1.0, 1.0),
}


def samples(name: str) -> np.ndarray:
    """Some of every binade of both signs, beside every edge, and of where the function is tame."""
    rng = np.random.default_rng(5)
    exponents = np.repeat(np.arange(256, dtype=np.uint32), 60) << 23
    bits = exponents | rng.integers(0, 1 << 23, exponents.size, dtype=np.uint32)
    near = np.concatenate([np.float32(e).view(np.uint32) + np.arange(-40, 40) for e in EDGES])
    known = np.concatenate([bits, near]).astype(np.uint32).view(np.float32)
    size = np.concatenate([known, np.array(SPECIAL, np.float32)])
    uniform = [rng.uniform(-1, 1, 20_000), rng.uniform(-4, 4, 20_000), rng.uniform(1, 12, 20_000)]
    apart = 2.0 ** rng.uniform(-24, 0, 5000)
    beside = np.concatenate([*uniform, 1 + apart, 1 - apart]).astype(np.float32)
    x = np.concatenate([size, -size, beside])
    if name == "erfinv":  # its reference is slow
        x = x[rng.permutation(x.size)[: x.size // 3]]
    return x


def errors_in_ulp(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        step = np.spacing(np.abs(nearest)).astype(np.float64)
        step = np.where(np.isfinite(step), step, 2.0**104)
        error = np.abs(got.astype(np.float64) - np.clip(exact, -(2.0**128), 2.0**128)) / step
    same = (got == nearest) | (np.isnan(got) & np.isnan(exact))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def exact_values(name: str, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return REFERENCES[name](x.astype(np.float64))


def test_logit_is_within_two_ulp():
    x = samples("logit")
    got, exact = Tensor(x, device="CPU").logit().numpy(), exact_values("logit", x)
    error = errors_in_ulp(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= ULP, f"logit({x[worst]!r}) = {got[worst]!r}, not {exact[worst]!r}"
    assert np.isfinite(exact).sum() > 3000


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_within_two_ulp_on_every_device(device, name):
    """Of normal numbers: a device may take smaller ones for 0."""
    low, high = INNER.get(name, (-1.0 if name == "log1p" else -8.0, 8.0))
    rng = np.random.default_rng(6)
    size = 2.0 ** rng.uniform(-30, 3, 3000) * rng.choice([-1, 1], 3000)
    x = np.concatenate([size, 1 + 2.0 ** rng.uniform(-24, 6, 500), rng.uniform(-1, 1, 2000)])
    x = x.astype(np.float32)
    x = x[(x > low) & (x < high)]
    error = errors_in_ulp(
        getattr(Tensor(x, device=device), name)().numpy(), exact_values(name, x)
    )  # fmt: skip
    worst = int(np.argmax(error))
    assert error[worst] <= ULP, f"{name}({x[worst]!r}) is off by {error[worst]} ulp"


@pytest.mark.parametrize("name", OPERATIONS)
def test_half_types_are_rounded_once_from_float32(name):
    x = samples(name)[::7]
    x = np.concatenate([x, 1 + np.abs(x[np.abs(x) < 100])])
    half = Tensor(x, device="CPU").cast(dtypes.float16)
    wide = getattr(half.float(), name)().cast(dtypes.float16)
    np.testing.assert_array_equal(getattr(half, name)().numpy(), wide.numpy())


@pytest.mark.parametrize("name", OPERATIONS)
def test_constants_are_folded_to_the_same_numbers(name):
    for value in (0.0, 0.3, -0.7, 1.0, -1.0, 2.5, 30.0, math.inf, -math.inf, math.nan):
        folded = getattr(Tensor(value), name)().item()
        computed = getattr(Tensor(np.array([value], np.float32)), name)().item()
        assert folded == pytest.approx(computed, rel=2e-7, nan_ok=True)


def test_the_reference_of_erfinv_is_exact_to_a_few_ulp_of_float64():
    rng = np.random.default_rng(7)
    y = np.concatenate([rng.uniform(-1, 1, 200), 1 - 2.0 ** -rng.uniform(1, 53, 200),
                        2.0 ** -rng.uniform(1, 1000, 200)])  # fmt: skip
    with mp.workdps(60):
        for value in y[np.abs(y) < 1]:
            exact = mp.erfinv(mp.mpf(float(value)))
            assert abs(mp.mpf(erfinv(float(value))) / exact - 1) < 2e-15, value
