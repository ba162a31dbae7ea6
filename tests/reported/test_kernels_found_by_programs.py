"""Kernels that generated programs found wrong, or that could not be built."""

from __future__ import annotations

import numpy as np

from treadle import Tensor


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_product_is_not_moved_into_a_scatter():
    # The gradient of rows that are picked scatters what it alone reads: a sum of two products.
    x, weight = random(0, 244, 310), random(1, 218, 310) / 18
    rows = np.random.default_rng(2).integers(0, 244, 64)
    on = [Tensor(a, requires_grad=True) for a in (x, weight)]
    picked = on[0][Tensor(rows)]
    out = (picked.T @ picked.relu()) @ on[1].T
    arriving = random(3, 310, 218)
    (out * Tensor(arriving)).sum().backward()
    Tensor.realize(out, on[0].grad, on[1].grad)
    some, wide = x[rows].astype(np.float64), arriving.astype(np.float64)
    towards = wide @ weight
    held = np.maximum(some, 0)
    expected = np.zeros((244, 310))
    np.add.at(expected, rows, held @ towards.T + (some > 0) * (some @ towards))
    for tensor, exact in ((on[0], expected), (on[1], wide.T @ (some.T @ held))):
        error = np.abs(tensor.grad.numpy() - exact).max()
        assert error < 1e-5 * np.abs(exact).max()


def test_a_vector_of_one_lane_is_a_number():
    # The gradient of a 5x5 convolution of one channel behind a gate of its own means.
    x, weight, down = random(0, 2, 1, 56, 56), random(1, 4, 1, 5, 5), random(2, 4, 1)
    on = Tensor(weight / 5, requires_grad=True)
    inner = Tensor(x).conv2d(on)
    gate = (inner.mean((2, 3)) @ Tensor(down)).tanh().sigmoid()
    out = (inner * gate.reshape(2, 1, 1, 1)).sum()
    out.backward()
    numbers = weight.astype(np.float64) / 5
    direction = random(3, *weight.shape).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x[:, 0].astype(np.float64), (5, 5), (1, 2))

    def value(kernels):
        inside = np.einsum("bhwij,oij->bohw", windows, kernels[:, 0])
        held = 1 / (1 + np.exp(-np.tanh(inside.mean((2, 3)) @ down)))
        return (inside * held[:, :, None, None]).sum()

    step = 1e-6
    expected = (value(numbers + step * direction) - value(numbers - step * direction)) / (2 * step)
    found = float((on.grad.numpy() * direction).sum())
    assert abs(found - expected) < 1e-4 * max(1.0, abs(expected))


def close(found, exact):
    np.testing.assert_allclose(found.numpy(), exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_a_running_sum_of_sums_down_columns():
    x = random(0, 257, 256)
    close(Tensor(x).sum(0).cumsum(0), x.astype(np.float64).sum(0).cumsum())
    close(Tensor(x).max(0).cumsum(0), x.max(0).astype(np.float64).cumsum())


def test_a_running_sum_of_variances_of_what_no_memory_holds():
    x, y = random(0, 100, 1), random(1, 1, 65)
    found = (Tensor(x) * Tensor(y)).tanh().var(0).sqrt().cumsum(0)
    close(found, np.tanh(x.astype(np.float64) * y).std(0, ddof=1).cumsum())


def test_the_place_of_an_extreme_that_is_rounded_twice():
    x = random(0, 640, 130)
    on = Tensor(x)
    scaled = (on - on.mean(0)) / (on.var(0) + 0.1).sqrt()
    assert (scaled.argmax(0).numpy() == x.argmax(0)).all()


def test_rows_of_attention_whose_features_are_summed():
    x = random(0, 257, 8)
    q = Tensor(x).reshape(1, 1, 257, 8)
    found = (q * 0.3).scaled_dot_product_attention(q, q + 1, is_causal=True).reshape(257, 8).sum(-1)
    scores = np.where(np.tri(257, dtype=bool), x @ x.T.astype(np.float64) * 0.3 / 8**0.5, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    close(found, (weights / weights.sum(1, keepdims=True) @ (x + 1)).sum(1))


def test_columns_that_are_computed_anew_are_kept_for_one_lane_or_for_none():
    x, y, arriving = random(0, 64, 1), random(1, 1, 8), random(2, 64, 8)
    on = [Tensor(a, requires_grad=True) for a in (x, y)]
    inner = (on[0] * on[1]).tanh()
    out = (inner - inner.mean(0)) / (inner.var(0) + 0.1).sqrt()
    (out * Tensor(arriving)).sum().backward()
    Tensor.realize(out, on[0].grad, on[1].grad)

    def value(row):
        wide = np.tanh(x.astype(np.float64) * row)
        return (wide - wide.mean(0)) / np.sqrt(wide.var(0, ddof=1) + 0.1)

    close(out, value(y))
    step = 1e-6
    slopes = [
        ((value(y + step * one) - value(y - step * one)) * arriving).sum() / (2 * step)
        for one in np.eye(8)[:, None]
    ]
    np.testing.assert_allclose(on[1].grad.numpy()[0], slopes, rtol=1e-4)


def test_sorted_rows_that_are_turned_and_summed():
    x = random(0, 64, 256)
    close(Tensor(x).sort(-1)[0].T.contiguous().sum(-1), np.sort(x.astype(np.float64)).sum(0))
