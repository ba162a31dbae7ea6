"""Scans and reductions of random matrices, fused with what is around them, and their gradients."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from treadle import GlobalCounters, Tensor

Array = npt.NDArray[np.float64]
FULL = bool(os.environ.get("FULL_TESTS"))


class Form(NamedTuple):
    """An operation of tensors, what it is in NumPy, and what arrives at its operand."""

    name: str
    of: Callable[[Tensor, int], Tensor]
    exact: Callable[[Array, int], Array]
    back: Callable[[Array, Array, int], Array]  # from the operand and what arrives at the result


def _reversed_sum(g: Array, axis: int) -> Array:
    return np.flip(np.cumsum(np.flip(g, axis), axis), axis)


BEFORE = [
    Form("x", lambda x, _: x, lambda x, _: x, lambda x, g, _: g),
    Form("-2x", lambda x, _: x * -2, lambda x, _: -2 * x, lambda x, g, _: -2 * g),
    Form("x * x", lambda x, _: x * x, lambda x, _: x * x, lambda x, g, _: 2 * x * g),
    Form("exp", lambda x, _: x.exp(), lambda x, _: np.exp(x), lambda x, g, _: np.exp(x) * g),
    Form("flip", lambda x, a: x.flip(a), np.flip, lambda x, g, a: np.flip(g, a)),
    Form("transpose", lambda x, _: x.T, lambda x, _: x.T, lambda x, g, _: g.T),
]
TOTALS = [
    Form("cumsum", Tensor.cumsum, np.cumsum, lambda x, g, a: _reversed_sum(g, a)),
    Form(
        "sum",
        lambda x, a: x.sum(a, keepdim=True),
        lambda x, a: x.sum(a, keepdims=True),
        lambda x, g, a: np.broadcast_to(g, x.shape),
    ),
    Form(
        "cummax",
        lambda x, a: x.cummax(a)[0],
        np.maximum.accumulate,
        lambda x, g, a: _of_extremes(x, g, a),
    ),
]
AFTER = [
    Form("y", lambda y, _: y, lambda y, _: y, lambda y, g, _: g),
    Form("3y + 1", lambda y, _: y * 3 + 1, lambda y, _: y * 3 + 1, lambda y, g, _: 3 * g),
]


def _of_extremes(x: Array, g: Array, axis: int) -> Array:
    """What arrives at each running maximum goes to the element that it is."""
    is_new = x >= np.maximum.accumulate(x, axis)
    steps = np.expand_dims(np.arange(x.shape[axis]), 1 - axis)
    places = np.maximum.accumulate(np.where(is_new, steps, 0), axis)
    found = np.zeros_like(x)
    other = np.indices(x.shape)[1 - axis]
    np.add.at(found, (places, other) if axis == 0 else (other, places), g)
    return found


@pytest.mark.parametrize("seed", range(60 if FULL else 6))
def test_values_and_gradients_are_those_of_float64(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = sorted(int(n) for n in rng.integers([500, 1000], [1000, 4100]))
    shape = (rows, columns) if rng.random() < 0.5 else (columns, rows)
    axis = int(rng.integers(2))
    before, after = (forms[rng.integers(len(forms))] for forms in (BEFORE, AFTER))
    total = TOTALS[seed % len(TOTALS)]
    x = rng.standard_normal(shape).astype(np.float32)
    exact = x.astype(np.float64)
    y = before.exact(exact, axis)
    z = total.exact(y, axis)
    arrives = rng.standard_normal(z.shape).astype(np.float32)
    wanted = after.back(z, arrives.astype(np.float64), axis)
    wanted = before.back(exact, total.back(y, wanted, axis), axis)

    own = Tensor(x, device="CPU").realize()
    out = after.of(total.of(before.of(own, axis), axis), axis)
    (gradient,) = out.gradient(own, gradient=Tensor(arrives, device="CPU"))
    size = np.abs(y).sum(axis).max() if total.name != "cummax" else np.abs(y).max()
    np.testing.assert_allclose(out.numpy(), after.exact(z, axis), rtol=1e-6, atol=1e-6 * size)
    most = np.abs(wanted).max()
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-5, atol=1e-5 * most)


@pytest.mark.parametrize("axis", [0, 1])
def test_scans_of_what_no_cache_holds_are_one_kernel_and_right(axis: int) -> None:
    random = np.random.default_rng(axis)
    values, weights = random.standard_normal((2, 600, 4001)).astype(np.float32)
    x, w = Tensor(values, device="CPU").realize().requires_grad_(), Tensor(weights, device="CPU")
    before = GlobalCounters.kernel_count
    most, places = x.cummax(axis)
    sums, halves = x.cumsum(axis), x.half().cumsum(axis)
    Tensor.realize(most, places, sums, halves)
    assert GlobalCounters.kernel_count - before == 1
    found = np.maximum.accumulate(values, axis)
    np.testing.assert_array_equal(most.numpy(), found)
    np.testing.assert_array_equal(np.take_along_axis(values, places.numpy(), axis), found)
    wide = values.astype(np.float64)
    np.testing.assert_allclose(sums.numpy(), wide.cumsum(axis), atol=1e-4)
    rounded = values.astype(np.float16).astype(np.float64).cumsum(axis)
    np.testing.assert_allclose(halves.numpy(), rounded, rtol=1e-3, atol=1e-3)
    (grad,) = ((most + sums) * w).sum().gradient(x)
    later = np.flip(np.flip(weights.astype(np.float64), axis).cumsum(axis), axis)
    first = np.zeros_like(wide)  # a running maximum's weights go to the place that it is of
    at = list(np.indices(values.shape))
    at[axis] = places.numpy()
    np.add.at(first, tuple(at), weights)
    np.testing.assert_allclose(grad.numpy(), later + first, atol=2e-3)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "distance", "product under a mask"])
@pytest.mark.parametrize("is_beside", [False, True])
def test_scans_of_reductions_so_long_that_they_are_stored(kind, axis, is_beside):
    rng = np.random.default_rng(axis)
    a, b = rng.standard_normal((64, 1, 40)), rng.standard_normal((1, 300, 40))
    mask, weights = np.arange(40) % 5 > 0, rng.standard_normal((64, 300))
    x, y = (Tensor(each.astype(np.float32), requires_grad=True) for each in (a, b))
    if kind == "sum":
        made, exact, slopes = (x + y).sum(-1), (a + b).sum(-1), (a * 0 + b * 0 + 1,) * 2
    elif kind == "distance":
        made, exact = (x - y).abs().sum(-1), np.abs(a - b).sum(-1)
        slopes = np.sign(a - b), np.sign(b - a)
    else:
        made, exact = Tensor(mask).where(x * y, 0.0).sum(-1), (a * b * mask).sum(-1)
        slopes = a * 0 + b * mask, b * 0 + a * mask
    scanned = made.cumsum(axis) + (made * 2 if is_beside else 0)
    right = exact.cumsum(axis) + (exact * 2 if is_beside else 0)
    (scanned * Tensor(weights.astype(np.float32))).sum().backward()
    np.testing.assert_allclose(scanned.numpy(), right, rtol=0, atol=2e-6 * np.abs(right).max())
    arriving = np.flip(np.flip(weights, axis).cumsum(axis), axis) + 2 * is_beside * weights
    for grad, slope, over in zip((x.grad, y.grad), slopes, (1, 0), strict=True):
        expected = (arriving[..., None] * slope).sum(over, keepdims=True)
        np.testing.assert_allclose(
            grad.numpy(), expected, rtol=0, atol=3e-6 * np.abs(expected).max()
        )
