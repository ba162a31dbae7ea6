"""NaN on every device, and how far the transcendentals are from the truth."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes

from ..devices import has_float64

NAN, INF = np.nan, np.inf
LEFT = np.array([NAN, 1, NAN, INF, -INF, 0.0, -0.0, 2, -3, NAN, INF, 5], np.float32)
RIGHT = np.array([1, NAN, NAN, NAN, NAN, -0.0, 0.0, INF, -INF, -INF, INF, 5], np.float32)
CASES = [("float32", 11), ("float32", 128), ("float16", 128), ("float64", 12)]


def operands(name: str, size: int, device: str) -> tuple[np.ndarray, np.ndarray, Tensor, Tensor]:
    if name == "float64" and not has_float64(device):
        pytest.skip(f"{device} has no float64")
    a, b = (np.resize(x, size).astype(name) for x in (LEFT, RIGHT))
    return a, b, Tensor(a, device=device).realize(), Tensor(b, device=device).realize()


@pytest.mark.parametrize(("name", "size"), CASES)
def test_comparisons_with_nan_are_false_but_for_unequal(device, name, size):
    a, b, x, y = operands(name, size, device)
    for ours, want in (
        (x < y, a < b), (x <= y, a <= b), (x > y, a > b), (x >= y, a >= b), (x == y, a == b),
        (x != y, a != b), (x == x, a == a), (x != x, a != a),
    ):  # fmt: skip
        np.testing.assert_array_equal(ours.numpy(), want)


@pytest.mark.parametrize(("name", "size"), CASES)
def test_nan_and_infinity_are_recognised_and_passed_on(device, name, size):
    a, b, x, y = operands(name, size, device)
    np.testing.assert_array_equal(x.isnan().numpy(), np.isnan(a))
    np.testing.assert_array_equal(x.isinf().numpy(), np.isinf(a))
    np.testing.assert_array_equal(x.isfinite().numpy(), np.isfinite(a))
    np.testing.assert_array_equal(x.maximum(y).numpy(), np.maximum(a, b))
    np.testing.assert_array_equal(x.minimum(y).numpy(), np.minimum(a, b))
    np.testing.assert_array_equal(x.max().numpy(), a.max())
    np.testing.assert_array_equal(x.isnan().where(0, x).numpy(), np.where(np.isnan(a), 0, a))
    np.testing.assert_array_equal(x.isnan().where(0, x).min().numpy(), -INF)


@pytest.mark.parametrize("shape", [(4, 33), (2, 512)])
def test_a_row_with_nan_has_nan_for_its_extremes_and_sum(device, shape):
    rows = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    rows[0, shape[1] // 2] = NAN
    rows[1, 3] = INF
    ours = Tensor(rows, device=device).realize()
    np.testing.assert_array_equal(ours.max(axis=1).numpy(), rows.max(axis=1))
    np.testing.assert_array_equal(ours.min(axis=1).numpy(), rows.min(axis=1))
    assert np.isnan(ours.sum(axis=1).numpy()).tolist() == np.isnan(rows.sum(axis=1)).tolist()
    np.testing.assert_array_equal(ours.max(axis=0).numpy(), rows.max(axis=0))


# name, the function in float64, where, and the most units in the last place
FUNCTIONS = [
    ("exp", np.exp, (-80, 80), 2), ("exp2", np.exp2, (-120, 120), 2),
    ("log", np.log, (1e-30, 1e30), 3), ("log2", np.log2, (1e-30, 1e30), 3),
    ("sin", np.sin, (-100, 100), 3), ("cos", np.cos, (-100, 100), 3),
    ("tanh", np.tanh, (-9, 9), 4), ("sqrt", np.sqrt, (1e-30, 1e30), 2.5),
    ("rsqrt", lambda x: 1 / np.sqrt(x), (1e-30, 1e30), 4), ("sigmoid", lambda x: 1 / (1 + np.exp(
        -x)), (-30, 30), 6),
]  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case[0])
def test_transcendentals_are_near_the_truth(device, case):
    name, function, (low, high), most = case
    x = np.geomspace(low, high, 4096) if low > 0 else np.linspace(low, high, 4096)
    x = x.astype(np.float32)
    ours = getattr(Tensor(x, device=device), name)().numpy().astype(np.float64)
    truth = function(x.astype(np.float64))
    place = np.spacing(np.maximum(np.abs(truth), 1e-30).astype(np.float32)).astype(np.float64)
    if name in ("sin", "cos"):  # absolute near the zeros
        place = np.maximum(place, 2.0**-30)
    worst = np.max(np.abs(ours - truth) / place)
    assert worst <= most, f"{worst} units in the last place at {x[np.argmax(np.abs(ours - truth))]}"


def test_transcendentals_at_the_ends_of_their_ranges(device):
    x = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 200.0, -200.0], np.float32)
    ours = Tensor(x, device=device).realize()
    with np.errstate(all="ignore"):
        for name, function in (
            ("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("tanh", np.tanh),
        ):  # fmt: skip
            want = function(x.astype(np.float64)).astype(np.float32)
            got = getattr(ours, name)().numpy()
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)
    assert ours.dtype is dtypes.float32
