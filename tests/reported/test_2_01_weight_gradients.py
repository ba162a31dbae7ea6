"""Gradients of convolutions to their weights: every kernel is a program, and its values right."""

from __future__ import annotations

import random

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.verify import verify_linear
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

from ..complaints import complaint

# (batch, channels in, channels out, size) of a 1x1 convolution
REPORTED = [(2, 32, 16, 112), (4, 16, 24, 64), (8, 32, 16, 56)]
ARCHES = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "aarch64")


def sweep(count):
    """(batch, in, out, size, kernel, stride, groups, dilation), each with some of everything."""
    pick = random.Random(21)
    for _ in range(count):
        groups = pick.choice([1, 1, 1, 2])
        kernel, size = pick.choice([1, 1, 3, 5]), pick.choice([14, 28, 33, 56])
        channels = [groups * pick.choice([1, 3, 8, 16, 24]) for _ in range(2)]
        stride, dilation = pick.choice([1, 1, 2]), pick.choice([1, 1, 1, 2])
        yield pick.choice([1, 2, 4, 8]), *channels, size, kernel, stride, groups, dilation


def weight_gradient(image, arriving):
    """Of a 1x1 convolution: the sum of products over images and pixels."""
    (batch, inside, *size), outside = image.shape, arriving.shape[1]
    wide = arriving.reshape(batch, outside, 1, *size) * image.reshape(batch, 1, inside, *size)
    return wide.sum((0, 3, 4))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("sizes", REPORTED)
def test_2_01_hints_are_of_loops_that_are_open(sizes, arch):
    batch, inside, outside, size = sizes
    image = Tensor(np.ones((batch, inside, size, size), np.float32)).realize()
    arriving = Tensor(np.ones((batch, outside, size, size), np.float32)).realize()
    target = parse_target(arch)
    result = weight_gradient(image, arriving)
    for kernel in scheduled([(result.node, result.device)]):
        ast, _ = optimize(kernel.ast, target)
        for phase in lower(ast, len(kernel.buffers), target).phases:
            assert complaint(verify_linear, phase.program) == ""


@pytest.mark.parametrize("sizes", REPORTED)
def test_2_01_weight_gradients_of_1x1_convolutions(sizes):
    batch, inside, outside, size = sizes
    data = np.random.default_rng(0)
    x = data.standard_normal((batch, inside, size, size)).astype(np.float32)
    g = data.standard_normal((batch, outside, size, size)).astype(np.float32)
    expected = np.einsum("bohw,bihw->oi", g.astype(np.float64), x)
    found = weight_gradient(Tensor(x), Tensor(g)).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max(), rtol=1e-5)
    weight = Tensor(np.ones((outside, inside, 1, 1), np.float32), requires_grad=True)
    (Tensor(x).conv2d(weight) * Tensor(g)).sum().backward()
    found = weight.grad.numpy()[:, :, 0, 0]
    np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max(), rtol=1e-5)


@pytest.mark.parametrize("case", list(sweep(24)), ids=str)
def test_2_01_weight_gradients_of_convolutions(case):
    batch, inside, outside, size, kernel, stride, groups, dilation = case
    data = np.random.default_rng(1)
    x = data.standard_normal((batch, inside, size, size)).astype(np.float32)
    weight = Tensor(
        np.zeros((outside, inside // groups, kernel, kernel), np.float32), requires_grad=True
    )
    out = Tensor(x).conv2d(weight, stride=stride, groups=groups, dilation=dilation)
    g = data.standard_normal(out.shape).astype(np.float32)
    (out * Tensor(g)).sum().backward()
    expected = np.zeros(weight.shape)
    split = (batch, groups, -1)
    grouped = g.reshape(*split, *out.shape[2:]).astype(np.float64)
    for row in range(kernel):
        for column in range(kernel):
            rows = slice(row * dilation, row * dilation + stride * out.shape[2], stride)
            columns = slice(column * dilation, column * dilation + stride * out.shape[3], stride)
            seen = x.reshape(*split, size, size)[:, :, :, rows, columns]
            seen = seen[..., : out.shape[2], : out.shape[3]]
            total = np.einsum("bgohw,bgihw->goi", grouped, seen)
            expected[:, :, row, column] = total.reshape(outside, -1)
    found = weight.grad.numpy()
    np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max(), rtol=1e-5)
