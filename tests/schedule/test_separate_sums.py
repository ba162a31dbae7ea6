"""With REPRODUCIBLE=1 a sum has the same bits in whatever kernels the graph around it is cut."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit

FULL = "FULL_TESTS" in os.environ
SIZES, SMALL = [48, 96, 192, 256, 333], [17, 32, 48]  # of processors, and of emulated devices

Cut = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, Tensor, Tensor, Cut], Tensor]

# Of x (rows, width), a weight (width, width) and a row, each as wide as what it was given.
STEPS: dict[str, Step] = {
    "product": lambda x, w, b, cut: cut(x @ w) * 0.05,
    "transposed product": lambda x, w, b, cut: cut(x @ w.T).tanh(),
    "product of rows": lambda x, w, b, cut: x + cut(x.T @ x)[:1] / x.shape[0],
    "biased": lambda x, w, b, cut: cut(x.linear(w, b)).gelu() * 0.1,
    "norm": lambda x, w, b, cut: cut(x.layernorm()) * b,
    "softmax": lambda x, w, b, cut: cut((x + b).softmax(-1)) * 30,
    "centred": lambda x, w, b, cut: cut(x) - cut(x.mean(0)),
    "energy": lambda x, w, b, cut: x / (cut(x.square().mean(-1, keepdim=True)) + 1).sqrt(),
    "total": lambda x, w, b, cut: x - cut((x * b).sum()) / x.numel(),
    "running": lambda x, w, b, cut: cut((x * b).cumsum(-1)) * 0.02,
    "running down": lambda x, w, b, cut: cut(x.cumsum(0)) * 0.02,
    "attention": lambda x, w, b, cut: x + cut(
        cut((x @ x.T) * 0.05).softmax(-1) @ cut(x * b)
    ),
    "windows": lambda x, w, b, cut: cut(
        x.reshape(1, 1, *x.shape).conv2d(w[:3, :3].reshape(1, 1, 3, 3), padding=1)
    ).reshape(x.shape),
    "pooled": lambda x, w, b, cut: x - cut(
        x.reshape(1, 1, *x.shape).avg_pool2d(3, stride=1, padding=1)
    ).reshape(x.shape),
    "elements": lambda x, w, b, cut: cut((x * b).exp().minimum(3.0)) - 1,
}  # fmt: skip


@pytest.fixture
def place(device: str) -> str:
    """A device that computes by kernels."""
    if device == "REF":
        pytest.skip(
            "REF: it computes operation by operation, by NumPy, whose sums depend on strides"
        )
    return device


def program(seed: int, sizes: list[int]) -> tuple[list[np.ndarray], list[Step], str]:
    """Inputs and steps, and what they are called."""
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    rows, width = chance.choice(sizes), chance.choice(sizes)
    shapes = (rows, width), (width, width), (width,)
    names = chance.choices([*STEPS], k=chance.randint(1, 4))
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return given, [STEPS[name] for name in names], f"{rows} x {width}: {', '.join(names)}"


def results(given: list[np.ndarray], steps: list[Step], device: str, cut: Cut) -> list[np.ndarray]:
    """The value and the gradients."""
    x, w, b = (Tensor(array, device=device).requires_grad_() for array in given)
    found = x
    for step in steps:
        found = cut(step(found, w, b, cut))
    gradients = cut((found * found).mean()).gradient(x, w, b, materialize_grads=True)
    Tensor.realize(found, *gradients)
    return [value.numpy() for value in (found, *gradients)]


@pytest.mark.parametrize("seed", range(400 if FULL else 8))
def test_random_sums_have_the_same_bits_in_random_kernels(place, seed):
    given, steps, name = program(seed, SIZES if place.startswith("CPU") else SMALL)
    chance = random.Random(seed)
    ways: dict[str, Cut] = {
        "each operation alone": lambda x: x.realize(),
        "some stored": lambda x: x.contiguous() if chance.random() < 0.5 else x,
    }
    with Context(REPRODUCIBLE=1):
        expected = results(given, steps, place, lambda x: x)
        for way, cut in ways.items():
            for found, right in zip(results(given, steps, place, cut), expected, strict=True):
                np.testing.assert_array_equal(found, right, err_msg=f"{name}; {way}")


@pytest.mark.parametrize("size", [(7, 1000), (1000, 7), (192, 333), (3, 5, 513), (2, 20_000)])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_a_sum_has_the_bits_of_its_elements_alone(place, size, axis):
    rng = np.random.default_rng(5)
    one, other = (Tensor(rng.standard_normal(size).astype(np.float32), device=place) for _ in "ab")
    with Context(REPRODUCIBLE=1):
        expected = (one * other).contiguous().realize().sum(axis).numpy()
        product = one * other
        beside = product.sum(axis), product.exp().sum(axis), product.amax(axis), product + 1
        Tensor.realize(*beside)
        turned = (one.T.contiguous().realize().T * other).sum(axis).realize()
    np.testing.assert_array_equal(beside[0].numpy(), expected)
    np.testing.assert_array_equal(turned.numpy(), expected)


def test_a_replay_with_weights_that_last_has_the_bits_of_each_call():
    rng = np.random.default_rng(1)
    x, w = (Tensor(rng.standard_normal(s).astype(np.float32)) for s in ((70, 3000), (3000, 256)))
    with Context(REPRODUCIBLE=1):
        expected = (x @ w).numpy()
        run = TinyJit(lambda x: (x @ w).realize())
        for _ in range(4):
            np.testing.assert_array_equal(run(x.realize()).numpy(), expected)
