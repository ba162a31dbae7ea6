"""Products that move into the kernel that reads them, and those that better stay where they are."""

import numpy as np
import pytest

from treadle import Tensor
from treadle.ir.op import Op

ROWS, STEPS, WIDTH = 8, 32, 48


def filled(*shape, seed=0):
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Tensor(data, device="CPU").realize()


def gates(blocks=4, seed=0):
    """The blocks of columns of one product."""
    return (filled(ROWS, STEPS, seed=seed) @ filled(STEPS, blocks * WIDTH, seed=seed + 1)).chunk(
        blocks, dim=1
    )


def sums(kernels):
    """How many sums each kernel holds."""
    return [len({n for n in k.ast.toposort() if n.op is Op.REDUCE}) for k in kernels]


def assert_same(tensor, expected):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_all_gates_of_a_cell_are_computed_in_its_kernel():
    enter, forget, candidate, out = gates()
    old = filled(ROWS, WIDTH, seed=5)
    cell = forget.sigmoid() * old + enter.sigmoid() * candidate.tanh()
    hidden = out.sigmoid() * cell.tanh()
    assert sums(cell.schedule(hidden)) == [4]
    Tensor.realize(cell, hidden)
    sigmoid = lambda a: 1 / (1 + np.exp(-a))
    i, f, g, o = (part.numpy() for part in gates())
    expected = sigmoid(f) * old.numpy() + sigmoid(i) * np.tanh(g)
    assert_same(cell, expected)
    assert_same(hidden, sigmoid(o) * np.tanh(expected))


def test_a_sum_of_two_products_is_one_kernel():
    a, b = gates(1)[0], gates(1, seed=7)[0]
    expected = a.numpy() + b.numpy() + 1
    total = gates(1)[0] + 1 + gates(1, seed=7)[0]
    assert sums(total.schedule()) == [2]
    assert_same(total, expected)


def test_blocks_that_nobody_reads_are_not_computed():
    first, _, third = gates(3)
    assert sums((first * third).schedule()) == [2]


@pytest.mark.parametrize("what", ["output", "overlap", "rows", "many", "short", "reduced"])
def test_a_product_is_stored_where_it_would_be_computed_twice_or_in_no_tiles(what):
    product = filled(ROWS, STEPS) @ filled(STEPS, 8 * WIDTH, seed=1)
    parts = product.chunk(8, dim=1)
    wanted = {
        "output": [parts[0] * parts[1], product],
        "overlap": [parts[0] * product[:, 7 : 7 + WIDTH]],
        "rows": [parts[0] * parts[1].flip(0)],
        "many": [parts[0] * parts[1] + parts[2] * parts[3] + parts[4] * parts[5]],
        "short": [product[:, :8] * product[:, 8:16]],
        "reduced": [(parts[0] * parts[1]).sum(1)],
    }[what]
    kernels = wanted[0].schedule(*wanted[1:])
    assert len(kernels) == 2
    assert sums(kernels)[0] == 1
    x, w = filled(ROWS, STEPS).numpy(), filled(STEPS, 8 * WIDTH, seed=1).numpy()
    p = x @ w
    cols = np.split(p, 8, axis=1)
    expected = {
        "output": cols[0] * cols[1],
        "overlap": cols[0] * p[:, 7 : 7 + WIDTH],
        "rows": cols[0] * cols[1][::-1],
        "many": cols[0] * cols[1] + cols[2] * cols[3] + cols[4] * cols[5],
        "short": p[:, :8] * p[:, 8:16],
        "reduced": (cols[0] * cols[1]).sum(1),
    }[what]
    assert_same(wanted[0], expected)


def test_what_a_kernel_overwrites_is_multiplied_before():
    """Its rows are read again and again: they must be there until the last tile is done."""
    w = filled(WIDTH, 2 * WIDTH, seed=1)
    state = filled(ROWS, WIDTH)
    first, second = np.split(state.numpy() @ w.numpy(), 2, axis=1)
    a, b = (state @ w).chunk(2, dim=1)
    state.assign(a * b)
    assert_same(state, first * second)


def test_what_a_product_reads_may_be_overwritten_after_the_kernel_that_holds_it():
    x, w = filled(ROWS, STEPS), filled(STEPS, 2 * WIDTH, seed=1)
    first, second = np.split(x.numpy() @ w.numpy(), 2, axis=1)
    a, b = (x @ w).chunk(2, dim=1)
    result = a * b
    x.assign(x + 1)
    Tensor.realize(result, x)
    assert_same(result, first * second)
    assert_same(x, filled(ROWS, STEPS).numpy() + 1)
