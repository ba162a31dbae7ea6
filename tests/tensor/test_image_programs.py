"""Drawn programs with IMAGE=1: what they compute with images is what they compute without.

A program is a row of steps over one tensor, each of which may keep its result. The first FEW run by
default, all with `--full`.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from treadle import Context, Tensor
from treadle.engine.devices import Device
from treadle.errors import DeviceError

PROGRAMS = 300
FEW = 2
ACCURACY = {0: 2e-4, 1: 4e-2}  # halves have 11 bits, and errors grow from step to step


@pytest.fixture(scope="module", params=["CL", "QCOM"])
def home(request):
    """A device with images."""
    try:
        target = Device[request.param].target
    except DeviceError as error:
        pytest.skip(f"{request.param}: {error}")
    if target.max_image is None:
        pytest.skip(f"{target.name} has no textures")
    return request.param


class Drawn:
    """A program of so many steps, which `steps` describes."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self.sizes = [self._size() for _ in range(self._random.randrange(2, 4))]
        self.data = self._array(*self.sizes)
        sizes, self.steps = list(self.sizes), []
        for _ in range(self._random.randrange(3, 7)):
            step, sizes = self._step(sizes)
            self.steps.append((step, self._random.random() < 0.7))

    def _size(self):
        return self._random.choice([1, 2, 3, 4, 5, 7, 8, 12, 16, 20])

    def _array(self, *sizes):
        return self._numbers.uniform(-1, 1, sizes).astype(np.float32)

    def _step(self, sizes):
        axis = self._random.randrange(len(sizes))
        kind = self._random.choice(
            ["product", "scale", "relu", "softmax", "sum", "swap", "flip", "pad", "part", "twice",
             "convolution"]
        )  # fmt: skip
        if kind == "product":
            width = self._size()
            weight = self._array(sizes[-1], width)
            return (lambda x: x @ Tensor(weight, device=x.device)), [*sizes[:-1], width]
        if kind == "scale":
            weight = self._array(*sizes)
            return (lambda x: x * Tensor(weight, device=x.device) + 0.5), sizes
        if kind == "relu":
            return (lambda x: x.relu()), sizes
        if kind == "softmax":
            return (lambda x: x.softmax(axis)), sizes
        if kind == "sum":
            return (lambda x: x - x.mean(axis, keepdim=True)), sizes
        if kind == "swap":
            return (lambda x: x.transpose(0, -1)), [sizes[-1], *sizes[1:-1], sizes[0]]
        if kind == "flip":
            return (lambda x: x.flip(axis)), sizes
        if kind == "pad":
            around = [(0, 0)] * len(sizes)
            around[axis] = (1, 2)
            new = [size + 3 * (n == axis) for n, size in enumerate(sizes)]
            return (lambda x: x.pad(tuple(around))), new
        if kind == "part" and sizes[axis] > 2:
            new = [size - 1 * (n == axis) for n, size in enumerate(sizes)]
            parts = tuple(slice(1, None) if n == axis else slice(None) for n in range(len(sizes)))
            return (lambda x: x[parts]), new
        if kind == "convolution":
            weight = self._array(3, 1, 3, 3)
            whole = sizes

            def convolve(x):
                image = x.reshape(1, 1, -1, whole[-1])
                y = image.conv2d(Tensor(weight, device=x.device), padding=1)
                return y.mean(1).reshape(*whole)

            return convolve, sizes
        return (lambda x: x.cat(x * 0.5, dim=axis)), [
            size * (2 if n == axis else 1) for n, size in enumerate(sizes)
        ]

    def run(self, device):
        """The result on a device. What is kept is needed twice, so that it is stored."""
        x = Tensor(self.data, device=device)
        kept = []
        for step, is_kept in self.steps:
            x = step(x)
            if is_kept:
                x = x.contiguous()
                kept.append(x.sum())
        return sum(kept, x).numpy()


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("seed", range(PROGRAMS if "FULL_TESTS" in os.environ else FEW))
def test_programs_compute_with_images_what_they_do_without(home, seed, half):
    program = Drawn(seed)
    expected = program.run("CPU")
    with Context(IMAGE=1, FLOAT16=half):
        found = program.run(home)
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found / size, expected / size, rtol=0, atol=ACCURACY[half])
