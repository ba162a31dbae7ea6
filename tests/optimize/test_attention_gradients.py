"""Gradients of attention on matrix units: no matrix of scores is stored, and values are right."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.counters import GlobalCounters
from treadle.engine.realized import current
from treadle.errors import DeviceError
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel, verify_linear
from treadle.lower.passes import lower
from treadle.optimize.carried_rows import CarryRows
from treadle.optimize.heuristic import optimize
from treadle.schedule.passes import schedule
from treadle.target import parse_target

from ..render.banks import ways_of
from .references import attention
from .test_attention import ON_DEVICES, heads

TARGET = parse_target("sm_80")


def given(*shape, keys=None, dtype=dtypes.bfloat16, device="CPU"):
    """q, k and v that want gradients, and what arrives at the result."""
    tensors = heads(*shape, keys=keys, dtype=dtype, device=device)
    arriving = (tensors[0].flip(-2) * 0.5).contiguous().realize()
    for tensor in tensors:
        tensor.requires_grad = True
    return *tensors, arriving


def results(q, k, v, arriving, **options):
    """The result of attention and the gradients of what wants one."""
    out = q.scaled_dot_product_attention(k, v, **options)
    out.backward(arriving)
    return out, *(t.grad for t in (q, k, v) if t.requires_grad)


def kernels(tensors, target=TARGET):
    return schedule(current([t.node for t in tensors])[0], "CPU", target)[0]


def expected_of(q, k, v, g, allowed=None):
    """Result and gradients in float64, by the formulas."""
    q, k, v, g = (t.detach().to("CPU").cast(dtypes.float64).numpy() for t in (q, k, v, g))
    scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.swapaxes(-2, -1) * scale
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = g @ v.swapaxes(-2, -1)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    turned = ds.swapaxes(-2, -1)
    return attention(q, k, v, allowed), ds @ k, turned @ q, p.swapaxes(-2, -1) @ g


def computes_scores_anew(kernel):
    return bool(optimize(kernel.ast, TARGET)[1].of_kind(CarryRows))


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_step_is_two_kernels_of_memory_that_is_linear_in_tokens(is_causal):
    amounts = []
    for tokens in (512, 1024):
        found = kernels(results(*given(2, tokens, 64), is_causal=is_causal))
        assert list(map(computes_scores_anew, found)) == [True] * 2
        buffers = {b for kernel in found for b in kernel.buffers}
        amounts.append(sum(math.prod(b.shape) * b.dtype.itemsize for b in buffers))
    assert amounts[1] == 2 * amounts[0]


def test_gradients_of_some_or_with_the_result_known_are_no_more():
    q, k, v, g = given(2, 512, 64)
    k.requires_grad = v.requires_grad = False
    assert len(kernels(results(q, k, v, g))) == 1
    q, k, v, g = given(2, 512, 64)
    out = q.scaled_dot_product_attention(k, v)
    out.backward(g)
    out.realize()
    assert len(kernels((q.grad, k.grad, v.grad))) == 2


# Every width and every architecture; with --full every pair of them.
PAIRS = [
    (arch, width)
    for i, arch in enumerate(("sm_80", "sm_89", "sm_90a"))
    for j, width in enumerate((16, 64, 80, 128))
    if (i + j) % 2 == 0 or "FULL_TESTS" in os.environ
]


@pytest.mark.parametrize(("arch", "width"), PAIRS)
def test_kernels_are_legal_keep_to_shared_memory_and_meet_in_no_bank(arch, width):
    target = parse_target(arch)
    for kernel in kernels(results(*given(512, width), is_causal=True), target):
        ast, _ = optimize(kernel.ast, target)
        verify_kernel(ast)
        (phase,) = lower(ast, len(kernel.buffers), target).phases
        verify_linear(phase.program)
        held = {n for n in phase.program.toposort() if n.op is Op.LOCAL}
        assert sum(n.arg.size * n.dtype.itemsize for n in held) <= target.workgroup.shared_bytes
        assert max(ways_of(phase)) == 1


def test_other_types_and_sizes_store_the_scores():
    for shape, dtype in (((64, 64), dtypes.float32), ((64, 40), dtypes.bfloat16)):
        found = kernels(results(*given(*shape, dtype=dtype)))
        assert not any(map(computes_scores_anew, found))


CASES = {
    "whole tiles": ((2, 128, 64), None, dtypes.bfloat16, False),
    "causal, with tails": ((2, 150, 64), None, dtypes.float16, True),
    "tails of rows and keys": ((3, 70, 48), 99, dtypes.float16, False),
    "wide and causal": ((130, 128), None, dtypes.bfloat16, True),
    "few keys": ((64, 16), 20, dtypes.float16, False),
}


@ON_DEVICES
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_float64(name, device):
    shape, keys, dtype, is_causal = CASES[name]
    try:
        q, k, v, g = given(*shape, keys=keys, dtype=dtype, device=device)
    except DeviceError as error:
        pytest.skip(str(error))
    ours = results(q, k, v, g, is_causal=is_causal)
    before = GlobalCounters.kernel_count
    Tensor.realize(*ours)
    assert GlobalCounters.kernel_count == before + 2
    allowed = np.tril(np.ones((shape[-2],) * 2, bool)) if is_causal else None
    for mine, wanted in zip(ours, expected_of(q, k, v, g, allowed), strict=True):
        error = np.linalg.norm(mine.detach().cast(dtypes.float64).numpy() - wanted)
        # Weights and results are rounded to 8 bits, or 11.
        assert error < (2**-8 if dtype is dtypes.bfloat16 else 2**-11) * np.linalg.norm(wanted)


@ON_DEVICES
def test_the_result_may_have_been_computed_before(device):
    try:
        q, k, v, g = given(2, 100, 64, device=device)
    except DeviceError as error:
        pytest.skip(str(error))
    out = q.scaled_dot_product_attention(k, v).realize()
    out.backward(g)
    Tensor.realize(q.grad, k.grad, v.grad)
    for mine, wanted in zip((q.grad, k.grad, v.grad), expected_of(q, k, v, g)[1:], strict=True):
        error = np.linalg.norm(mine.cast(dtypes.float64).numpy() - wanted)
        assert error < 2**-8 * np.linalg.norm(wanted)
