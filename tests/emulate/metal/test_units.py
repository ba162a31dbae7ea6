"""Gradients at sizes where products are a simdgroup's matrices, forwards and backwards."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.backends.metal import METAL
from treadle.engine.devices import Device
from treadle.errors import DeviceError
from treadle.runtime.metal import MetalDevice

DEVICES = [name for names in METAL.tested_devices.values() for name in names]
HALF_STEP = {"float32": 2.0**-21, "float16": 2.0**-11, "bfloat16": 2.0**-8}  # float32: of a sum


@pytest.fixture(params=DEVICES)
def device(request):
    try:
        Device[request.param].synchronize()
    except DeviceError as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture
def units(monkeypatch):
    """units() tells of each kernel that was loaded since whether it has matrices."""
    texts, load = [], MetalDevice.load

    def spy(self, code, entries):
        texts.append(code)
        return load(self, code, entries)

    def found():
        taken = [b"simdgroup_multiply_accumulate(" in text for text in texts]
        texts.clear()
        return taken

    monkeypatch.setattr(MetalDevice, "load", spy)
    return found


def made(shape, seed, device, kind="float32"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Tensor(values, device=device).cast(getattr(dtypes, kind)).realize().requires_grad_(True)


def exact(tensor):
    return tensor.float().numpy().astype(np.float64)


def near(found, wanted, kind):
    step = HALF_STEP[kind]
    np.testing.assert_allclose(
        exact(found), wanted, rtol=step, atol=np.abs(wanted).max() * 2.0**-20
    )


@pytest.mark.parametrize("kind", HALF_STEP)
def test_products_of_matrices(device, units, kind):
    # Sizes of this test alone: what another has loaded would not be loaded again.
    m, k, n = 88 + 8 * DEVICES.index(device), 104, 72
    a, b = made((m, k), 1, device, kind), made((k, n), 2, device, kind)
    upstream = made((m, n), 3, device, kind)
    units()
    product = a @ b
    (product * upstream).sum().backward()
    Tensor.realize(product, a.grad, b.grad)
    assert sum(units()) == 3
    x, y, g = exact(a), exact(b), exact(upstream)
    near(product, x @ y, kind)
    near(a.grad, g @ y.T, kind)
    near(b.grad, x.T @ g, kind)


def test_convolutions(device, units):
    size = 12 + DEVICES.index(device)
    x, w = made((2, 16, size, size), 4, device), made((32, 16, 3, 3), 5, device)
    upstream = made((2, 32, size, size), 6, device)
    units()
    (x.conv2d(w, padding=1) * upstream).sum().backward()
    Tensor.realize(x.grad, w.grad)
    assert sum(units()) >= 2
    padded, g = np.pad(exact(x), ((0, 0), (0, 0), (1, 1), (1, 1))), exact(upstream)
    of_x, of_w = np.zeros_like(padded), np.zeros((32, 16, 3, 3))
    for i in range(3):
        for j in range(3):
            window = np.s_[:, :, i : i + size, j : j + size]
            of_w[:, :, i, j] = np.einsum("bohw,bchw->oc", g, padded[window])
            of_x[window] += np.einsum("bohw,oc->bchw", g, exact(w)[:, :, i, j])
    near(w.grad, of_w, "float32")
    near(x.grad, of_x[:, :, 1:-1, 1:-1], "float32")


def test_attention(device, units):
    length = 64 + 8 * DEVICES.index(device)
    q, k, v = (made((2, length, 32), seed, device, "float16") for seed in (7, 8, 9))
    upstream = made((2, length, 32), 10, device, "float16")
    units()
    (q.scaled_dot_product_attention(k, v) * upstream).sum().backward()
    Tensor.realize(q.grad, k.grad, v.grad)
    taken = units()
    assert taken
    assert all(taken)
    x, y, z, g = exact(q), exact(k), exact(v), exact(upstream)
    scores = x @ y.swapaxes(1, 2) / np.sqrt(32)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    weights /= weights.sum(2, keepdims=True)
    of_weights = g @ z.swapaxes(1, 2)
    of_scores = weights * (of_weights - (of_weights * weights).sum(2, keepdims=True))
    of_scores /= np.sqrt(32)
    for found, wanted in (
        (v.grad, weights.swapaxes(1, 2) @ g), (q.grad, of_scores @ y),
        (k.grad, of_scores.swapaxes(1, 2) @ x),
    ):  # fmt: skip
        # Weights are rounded to float16 before they are multiplied.
        np.testing.assert_allclose(exact(found), wanted, atol=4e-3 * np.abs(wanted).max())
