"""The same function in treadle and in PyTorch: results and gradients of both, by name.

    found = by_treadle(layer, state, inputs, slopes=1)
    exact = by_pytorch(module, inputs, torch.float64, slopes=1)

Each result is multiplied by fixed random numbers, and the sum of that is what gradients are of: to
the first `slopes` inputs, and to all parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from treadle import Tensor

__all__ = ["by_pytorch", "by_treadle", "given_to_treadle", "judged", "weights"]


def weights(shape: Sequence[int]) -> np.ndarray:
    """The random numbers by which a result of `shape` is multiplied."""
    return np.random.default_rng(9).standard_normal(tuple(shape))


def given_to_treadle(array: np.ndarray) -> Tensor:
    """An input: floats as float32."""
    return Tensor(array.astype(np.float32) if array.dtype == np.float64 else array)


def _flat(results: Any) -> list[Any]:
    if isinstance(results, (tuple, list)):
        return [part for item in results for part in _flat(item)]
    return [] if results is None else [results]


def by_treadle(
    function: Callable[..., Any], parameters: Mapping[str, Tensor], inputs: Sequence[np.ndarray],
    slopes: int,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Results and gradients, both in one realization."""
    tensors = [given_to_treadle(x) for x in inputs]
    targets = {f"input {n}": t for n, t in enumerate(tensors[:slopes])} | dict(parameters)
    for target in targets.values():
        target.requires_grad_()
    results = _flat(function(*tensors))
    arriving = [Tensor(weights(t.shape).astype(np.float32)) for t in results]
    loss = sum((t * g).sum() for t, g in zip(results, arriving, strict=True))
    found = loss.gradient(*targets.values()) if targets else []
    Tensor.realize(*results, *found)
    named = dict(zip(targets, found, strict=True))
    named |= {f"result {n}": t for n, t in enumerate(results)}
    return {name: tensor.numpy() for name, tensor in named.items()}


def by_pytorch(
    function: Callable[..., Any], inputs: Sequence[np.ndarray], dtype: torch.dtype, slopes: int
) -> dict[str, np.ndarray]:
    """The same in PyTorch, of a module's parameters in another dtype than its own too."""
    is_module = isinstance(function, torch.nn.Module)
    function = copy.deepcopy(function).to(dtype) if is_module else function
    tensors = [torch.from_numpy(x) for x in inputs]
    tensors = [t.to(torch.float32).to(dtype) if t.is_floating_point() else t for t in tensors]
    targets = {f"input {n}": t.requires_grad_() for n, t in enumerate(tensors[:slopes])}
    targets |= dict(function.named_parameters()) if is_module else {}
    results = _flat(function(*tensors))
    arriving = [torch.from_numpy(weights(t.shape)).to(torch.float32).to(dtype) for t in results]
    loss = sum((t * g).sum() for t, g in zip(results, arriving, strict=True))
    found = torch.autograd.grad(loss, list(targets.values())) if targets else []
    named = dict(zip(targets, found, strict=True))
    named |= {f"result {n}": t.detach() for n, t in enumerate(results)}
    return {name: tensor.numpy() for name, tensor in named.items()}


def judged(function: Callable[..., Any], inputs: Sequence[np.ndarray], slopes: int) -> Any:
    """PyTorch's own float32 values, and those of float64."""
    return tuple(by_pytorch(function, inputs, d, slopes) for d in (torch.float32, torch.float64))
