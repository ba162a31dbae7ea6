"""Results of chains of products in any order: stored with the columns innermost, then turned."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from treadle import Tensor
from treadle.ir.choices import observing
from treadle.ir.op import Op

HEADS, LONG, WIDTH = 3, 200, 24


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


ARRAYS = [numbers(seed, HEADS, LONG, WIDTH) for seed in range(3)]


def attention():
    """The result on the processor, and in float64."""
    q, k, v = (Tensor(a, device="CPU").realize() for a in ARRAYS)
    wide = [a.astype(np.float64) for a in ARRAYS]
    scores = wide[0] @ wide[1].swapaxes(1, 2) / np.sqrt(WIDTH)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights / weights.sum(-1, keepdims=True) @ wide[2]
    return q.scaled_dot_product_attention(k, v), exact


def chains(kernels):
    """How many reductions each kernel has."""
    return [sum(n.op is Op.REDUCE for n in kernel.ast.toposort()) for kernel in kernels]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_a_result_in_any_order(order):
    result, exact = attention()
    turned = result.permute(order).contiguous()
    products = chains(turned.schedule())
    assert len(products) == (1 if order[-1] == 2 else 2)
    assert not any(products[1:])  # a copy
    with observing() as seen:
        found = turned.numpy()
    np.testing.assert_allclose(found, exact.transpose(order), rtol=0, atol=2e-6)
    assert ("columns_last" in seen.reached()) == (order[-1] != 2)


def test_a_result_that_is_assigned_to_memory_of_another_order():
    result, exact = attention()
    memory = Tensor.zeros(HEADS, WIDTH, LONG, device="CPU").contiguous().realize()
    memory.assign(result.transpose(1, 2) + 1).realize()
    np.testing.assert_allclose(memory.numpy(), exact.swapaxes(1, 2) + 1, rtol=0, atol=2e-6)


def test_a_result_that_is_wanted_in_two_orders():
    result, exact = attention()
    both = [result.contiguous(), result.transpose(1, 2).contiguous()]
    Tensor.realize(*both)
    np.testing.assert_allclose(both[0].numpy(), exact, rtol=0, atol=2e-6)
    np.testing.assert_allclose(both[1].numpy(), exact.swapaxes(1, 2), rtol=0, atol=2e-6)


@pytest.mark.parametrize("orders", [(True, False), (False, True), (True, True)])
def test_products_of_the_same_rows_in_different_orders(orders):
    """One kernel stores both, though one or both of them are turned behind it."""
    q, k, v = (Tensor(a, device="CPU").realize() for a in ARRAYS)
    weights = (q @ k.transpose(1, 2)).softmax(-1)
    wide = [a.astype(np.float64) for a in ARRAYS]
    scores = wide[0] @ wide[1].swapaxes(1, 2)
    exact = np.exp(scores - scores.max(-1, keepdims=True))
    exact /= exact.sum(-1, keepdims=True)
    turned = lambda x, is_turned: x.transpose(1, 2).contiguous() if is_turned else x
    found = [turned(weights @ x, one) for x, one in zip((v, q), orders, strict=True)]
    Tensor.realize(*found)
    for got, x, is_turned in zip(found, (wide[2], wide[0]), orders, strict=True):
        right = exact @ x
        right = right.swapaxes(1, 2) if is_turned else right
        np.testing.assert_allclose(got.numpy(), right, rtol=0, atol=4e-6)


def test_a_chain_without_a_softmax():
    a, b, c = (Tensor(x, device="CPU").realize() for x in ARRAYS)
    turned = ((a @ b.transpose(1, 2)).relu() @ c).transpose(1, 2).contiguous()
    wide = [x.astype(np.float64) for x in ARRAYS]
    exact = np.maximum(wide[0] @ wide[1].swapaxes(1, 2), 0) @ wide[2]
    allowed = 2e-6 * np.abs(exact).max()
    np.testing.assert_allclose(turned.numpy(), exact.swapaxes(1, 2), rtol=0, atol=allowed)


def test_results_of_plain_products_keep_their_order():
    a, b = (Tensor(x, device="CPU").realize() for x in ARRAYS[:2])
    with observing() as seen:
        (a @ b.transpose(1, 2)).transpose(1, 2).contiguous().realize()
    assert "columns_last" not in seen.reached()
