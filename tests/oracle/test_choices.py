"""Gradients of generated programs: within four times float32 PyTorch's error against float64."""

from __future__ import annotations

import os
import random
import zlib
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install treadle[oracle]")

from tests.choices.operations import OfTensor  # noqa: E402
from tests.choices.recipes import RECIPES  # noqa: E402

from treadle import Tensor  # noqa: E402

SEEDS = range(40 if os.environ.get("FULL_TESTS") else 1)
ERRORS = 4  # times PyTorch's
SMOOTH = [
    "linear", "large_product", "product_of_columns", "sum_of_products", "gated", "cell",
    "residual_block", "attention", "causal_attention", "self_attention", "attention_then_product",
    "strided_convolution", "pointwise_convolution", "convolution_of_small_images",
    "softmax_of_rows", "normalised_rows", "cross_entropy", "sums_down_columns",
    "variance_of_columns", "long_sum", "scan_of_rows", "shifted", "embedded", "composed",
]  # fmt: skip


class OfTorch:
    """The operations of PyTorch; what has the same name and meaning there comes from `__getattr__`.

    Axes that are reduced are kept, as in tests/choices/operations.py.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def sum(self, x: Any, axis: Any = None) -> Any:
        return x.sum() if axis is None else x.sum(axis, keepdim=True)

    def mean(self, x: Any, axis: Any = None) -> Any:
        return x.mean() if axis is None else x.mean(axis, keepdim=True)

    def max(self, x: Any, axis: int) -> Any:
        return x.amax(axis, keepdim=True)

    def var(self, x: Any, axis: int) -> Any:
        return x.var(axis, keepdim=True)

    def softmax(self, x: Any) -> Any:
        return x.softmax(-1)

    def transpose(self, x: Any, *order: int) -> Any:
        return x.permute(*order)

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(*shape)

    def flip(self, x: Any, axis: int) -> Any:
        return x.flip(axis)

    def pad(self, x: Any, before: int, after: int) -> Any:
        return torch.nn.functional.pad(x, (before, after))

    def rows(self, x: Any, places: Any) -> Any:
        return x[places.long()]

    def attend(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def loss(self, x: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(x, labels.long())

    def conv(self, x: Any, w: Any, stride: int, padding: int) -> Any:
        return torch.nn.functional.conv2d(x, w, stride=stride, padding=padding)


def _torch_gradients(recipe: Any, weights: np.ndarray, dtype: torch.dtype) -> list[np.ndarray]:
    inputs = [torch.from_numpy(x.copy()) for x in recipe.inputs]
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    for x in inputs[: recipe.graded]:
        x.requires_grad_()
    (recipe.run(OfTorch(), *inputs) * torch.from_numpy(weights).to(dtype)).sum().backward()
    graded = inputs[: recipe.graded]
    return [(torch.zeros_like(x) if x.grad is None else x.grad).double().numpy() for x in graded]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_within_four_times_the_error_of_pytorch(name: str) -> None:
    for seed in SEEDS:
        recipe = RECIPES[name](random.Random(zlib.crc32(name.encode()) + seed), 1.0)
        tensors = [Tensor(x).realize() for x in recipe.inputs]
        for tensor in tensors[: recipe.graded]:
            tensor.requires_grad_()
        result = recipe.run(OfTensor(), *tensors)
        shape = result.shape
        weights = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        (result * Tensor(weights)).sum().backward()
        right = _torch_gradients(recipe, weights, torch.float64)
        single = _torch_gradients(recipe, weights, torch.float32)
        for number, (tensor, exact, theirs) in enumerate(
            zip(tensors[: recipe.graded], right, single, strict=True)
        ):
            least = np.finfo(np.float32).eps * np.sqrt((exact**2).mean())
            own = np.sqrt(((theirs - exact) ** 2).mean())
            found = np.zeros(exact.shape) if tensor.grad is None else tensor.grad.numpy()
            ours = np.sqrt(((found - exact) ** 2).mean())
            assert ours <= ERRORS * max(own, least), f"input {number} of {name}, seed {seed}"
