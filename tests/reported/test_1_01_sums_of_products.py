"""Sums of products are right at every length of their products, and so are their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.errors import DeviceError
from treadle.ir.verify import verify_linear
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

from ..devices import has_float64

ROWS, COLUMNS = 64, 128
LENGTHS = (64, 192, 500, 1024)
LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
PROCESSORS = ("CPU", *(f"CPU:LLVM:{level}" for level in LEVELS), "CPU:CLANG")


@pytest.fixture(params=PROCESSORS)
def processor(request):
    """Each kind of processor whose instructions this one has, by the name of its device."""
    level = request.param.split(":")[-1]
    if level in LEVELS and parse_target(level).vector_bytes > parse_target("native").vector_bytes:
        pytest.skip(f"{request.param}: this processor's vectors are shorter")
    try:
        Tensor([1.0], device=request.param).add(1.0).realize()
    except DeviceError as error:
        pytest.skip(f"{request.param}: {error}")
    return request.param


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(found, expected, terms):
    """`found` is `expected` but for the rounding of sums of so many `terms` of size 1."""
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=4e-6 * terms**0.5)


@pytest.mark.parametrize("length", [192, 1024])
@pytest.mark.parametrize("count", [2, 3])
def test_1_01_sums_of_two_and_three_products(count, length, device):
    left = [random(n, ROWS, length) for n in range(count)]
    pairs = [(x, random(count + n, length, COLUMNS)) for n, x in enumerate(left)]
    expected = sum(x.astype(np.float64) @ y for x, y in pairs)
    products = [Tensor(x, device=device) @ Tensor(y, device=device) for x, y in pairs]
    close(sum(products[1:], products[0]), expected, count * length)


@pytest.mark.parametrize("length", LENGTHS)
def test_1_01_sums_of_products_on_every_processor(length, processor):
    # Ones are exact in every order of additions.
    x, y = Tensor.ones(ROWS, length), Tensor.ones(length, COLUMNS)
    x, y = (t.contiguous().to(processor).realize() for t in (x, y))
    z, w = (t.contiguous().realize() for t in (x + 1, y + 1))
    assert np.array_equal((x @ y + z @ w).numpy(), np.full((ROWS, COLUMNS), 5.0 * length))


@pytest.mark.parametrize("lengths", [(192, 1000), (1000, 192), (100, 300), (300, 100)])
def test_1_01_products_of_other_lengths(lengths, processor):
    one, other = lengths
    x, y = random(0, ROWS, one), random(1, one, COLUMNS)
    z, w = random(2, ROWS, other), random(3, other, COLUMNS)
    on = [Tensor(t, device=processor).realize() for t in (x, y, z, w)]
    expected = x.astype(np.float64) @ y + z.astype(np.float64) @ w
    close(on[0] @ on[1] + on[2] @ on[3], expected, one + other)
    close(on[0] @ on[1] + 1 + on[2] @ on[3], expected + 1, one + other)
    close((on[0] @ on[1] + on[2] @ on[3]).sum(0), expected.sum(0), (one + other) * ROWS)


@pytest.mark.parametrize("length", [192, 500])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_1_01_sums_of_products_of_mixed_types(dtype, length, device):
    if dtype == "float64" and not has_float64(device):
        pytest.skip(f"{device} has no float64")
    x, y = np.ones((ROWS, length), np.float32), np.ones((length, COLUMNS), np.float32)
    one = Tensor(x, device=device).cast(dtype) @ Tensor(y, device=device).cast(dtype)
    other = Tensor(x, device=device) @ Tensor(2 * y, device=device)
    assert np.array_equal((one.float() + other).numpy(), np.full((ROWS, COLUMNS), 3.0 * length))


@pytest.mark.parametrize("width", [192, 700])
def test_1_01_gradients_where_two_products_meet(width, device):
    # The gradient to x of x @ W1 + x @ W2, and of a gated MLP, is a sum of two products.
    x, up, gate = random(0, ROWS, COLUMNS), random(1, COLUMNS, width), random(2, COLUMNS, width)
    on = [Tensor(t, device=device, requires_grad=True) for t in (x, up, gate)]
    out = (on[0] @ on[1]).tanh() * (on[0] @ on[2])
    out.sum().backward()
    x, up, gate = (t.astype(np.float64) for t in (x, up, gate))
    held, through = np.tanh(x @ up), x @ gate
    towards = through * (1 - held**2)
    wanted = towards @ up.T + held @ gate.T, x.T @ towards, x.T @ held
    for tensor, expected in zip(on, wanted, strict=True):
        error = np.abs(tensor.grad.numpy() - expected).max()
        assert error < 1e-5 * np.abs(expected).max()


def test_1_01_gradient_of_attention_to_itself(device):
    tokens, width = 80, 256
    data, arriving = random(0, 1, 1, tokens, width), random(1, 1, 1, tokens, width)
    x = Tensor(data, device=device, requires_grad=True)
    out = x.scaled_dot_product_attention(x * 0.5, x)
    (out * Tensor(arriving, device=device)).sum().backward()
    q, g = data[0, 0].astype(np.float64), arriving[0, 0].astype(np.float64)
    scores = q @ (q * 0.5).T / width**0.5
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    towards = g @ q.T
    towards = weights * (towards - (weights * towards).sum(1, keepdims=True)) / width**0.5
    expected = weights.T @ g + towards @ q * 0.5 + towards.T @ q * 0.5
    np.testing.assert_allclose(x.grad.numpy()[0, 0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arch", LEVELS)
def test_1_01_parts_of_a_sum_begin_at_zero(arch):
    x, y = (Tensor(random(n, *s)).realize() for n, s in enumerate([(64, 256), (256, 128)]))
    z, w = (t.contiguous().realize() for t in (x + 1, y + 1))
    target = parse_target(arch)
    (kernel,) = scheduled([((x @ y + z @ w).node, x.device)])
    ast, _ = optimize(kernel.ast, target)
    phases = lower(ast, len(kernel.buffers), target).phases
    for phase in phases:
        verify_linear(phase.program)  # refuses any other start of a part
    registers = [n for n in phases[-1].program.src if n.op.name == "REGISTER"]
    assert any(register.arg.part is not None for register in registers)
