"""What is computed on the way into a chain of products is computed for each row of its own."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.verify import verify_loops
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

from ..complaints import complaint

ARCHES = ("x86-64-v4", "x86-64-v3", "x86-64-v2")


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(q, k, v, is_causal):
    """On arrays of float64: (tokens, width)."""
    scores = q @ k.T / q.shape[1] ** 0.5
    if is_causal:
        scores = np.where(np.tri(len(q), dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


def close(found, expected, within=1e-5):
    error = np.abs(found - expected).max()
    assert error < within * np.abs(expected).max()


def numeric_gradient(function, *arrays):
    """The directional derivative of a sum, along random directions, by central differences."""
    directions = [random(7 + n, *a.shape).astype(np.float64) for n, a in enumerate(arrays)]
    step = 1e-6
    ahead = function(*(a + step * d for a, d in zip(arrays, directions, strict=True)))
    behind = function(*(a - step * d for a, d in zip(arrays, directions, strict=True)))
    return (ahead - behind) / (2 * step), directions


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("steps", "tokens", "width"), [(2, 640, 250), (3, 433, 96), (8, 100, 64)])
def test_1_16_attention_over_a_product_that_is_not_in_memory(steps, tokens, width, is_causal):
    a, w = random(0, steps, tokens), random(1, steps, width)
    x = (Tensor(a).T @ Tensor(w)) * 0.7
    q = x.reshape(tokens, 1, width).transpose(0, 1).unsqueeze(0)
    found = q.scaled_dot_product_attention(q * 0.5, q, is_causal=is_causal).numpy()[0, 0]
    exact = a.T.astype(np.float64) @ w * 0.7
    close(found, attention(exact, exact * 0.5, exact, is_causal), 2e-5)


def test_1_16_attention_before_a_chain_of_products():
    x, y = random(0, 300, 64), random(1, 200, 64)
    q = Tensor(x).reshape(1, 1, 300, 64)
    attended = q.scaled_dot_product_attention(q * 0.5, q).reshape(300, 64)
    found = ((attended @ Tensor(y).T) * 0.1).tanh() @ Tensor(y)
    exact = x.astype(np.float64)
    exact = attention(exact, exact * 0.5, exact, is_causal=False)
    close(found.numpy(), np.tanh(exact @ y.T * 0.1) @ y)


def test_1_16_three_products_of_one_matrix_before_a_chain():
    x, y = random(0, 250, 40) / 4, random(1, 160, 40)
    one = Tensor(x)
    square = one.T @ one * 0.1
    found = (((one @ square) @ square.T @ Tensor(y).T) * 0.1).tanh() @ Tensor(y)
    exact = x.astype(np.float64)
    middle = exact.T @ exact * 0.1
    close(found.numpy(), np.tanh(exact @ middle @ middle.T @ y.T * 0.1) @ y, 2e-5)


@pytest.mark.parametrize("tokens", [30, 32, 64, 100])
@pytest.mark.parametrize("width", [2, 4, 16])
def test_1_16_gradients_of_short_rows_under_a_mask(tokens, width):
    # Rows of 32 are one step of vectors: all of it is read, so all of it has to be filled.
    arrays = [random(n, tokens, width) for n in range(3)]
    on = [Tensor(a.reshape(1, 1, tokens, width), requires_grad=True) for a in arrays]
    out = on[0].scaled_dot_product_attention(on[1], on[2], is_causal=True)
    arriving = random(5, tokens, width)
    (out * Tensor(arriving.reshape(out.shape))).sum().backward()
    wide = [a.astype(np.float64) for a in arrays]
    value = lambda *qkv: float((attention(*qkv, True) * arriving).sum())
    expected, directions = numeric_gradient(value, *wide)
    found = [t.grad.numpy()[0, 0] for t in on]
    along = sum(float((g * d).sum()) for g, d in zip(found, directions, strict=True))
    assert abs(along - expected) < 1e-4 * max(1.0, abs(expected))
    close(out.numpy()[0, 0], attention(*wide, True))


def test_1_16_the_gradient_of_a_wide_middle_whose_factor_lies_across():
    # The middle, (433, 772), is kept row by row, and multiplied by a transposed matrix in chunks.
    x, up, down = random(0, 433, 8), random(1, 8, 772) / 3, random(2, 772, 8) / 28
    on = [Tensor(a, requires_grad=True) for a in (x, up, down)]
    out = ((on[0] * 1.0) @ on[1]).tanh() @ on[2]
    arriving = random(3, 433, 8)
    (out * Tensor(arriving)).sum().backward()
    x, up, down = (a.astype(np.float64) for a in (x, up, down))
    middle = np.tanh(x @ up)
    towards = arriving @ down.T * (1 - middle**2)
    close(out.numpy(), middle @ down)
    for tensor, expected in zip(
        on, (towards @ up.T, x.T @ towards, middle.T @ arriving), strict=True
    ):
        close(tensor.grad.numpy(), expected)


@pytest.mark.parametrize("arch", ARCHES)
def test_1_16_no_row_is_shared_by_lanes(arch):
    a, w = Tensor(random(0, 2, 640)).realize(), Tensor(random(1, 2, 250)).realize()
    q = ((a.T @ w) * 0.7).reshape(1, 1, 640, 250)
    result = q.scaled_dot_product_attention(q * 0.5, q, is_causal=True)
    for kernel in scheduled([(result.node, result.device)]):
        ast, _ = optimize(kernel.ast, parse_target(arch))
        assert complaint(verify_loops, ast) == ""
