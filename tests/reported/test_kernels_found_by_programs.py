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
