"""PyTorch's values as treadle's and back: samples in, results out.

A transposed sample becomes a transposed view here too, an expanded one an expanded view: so lazy
views are under test wherever OpInfo gives arrays that are not contiguous.
"""

from __future__ import annotations

from typing import Any

import torch

from treadle import Tensor, dtypes

__all__ = ["flat", "floats", "inputs", "to_torch"]


def translated(value: Any, device: str, made: list[tuple[torch.Tensor, Tensor]]) -> Any:
    """`value` with tensors of treadle; those that need gradients are added to `made`, in pairs."""
    if isinstance(value, torch.Tensor):
        tensor = _view(value, device)
        if value.requires_grad:
            made.append((value, tensor))
        return tensor
    if isinstance(value, torch.dtype):
        return getattr(dtypes, str(value).removeprefix("torch."))
    if isinstance(value, dict):
        return {key: translated(item, device, made) for key, item in value.items()}
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(translated(item, device, made) for item in value)
    return tuple(value) if isinstance(value, torch.Size) else value


def _view(value: torch.Tensor, device: str) -> Tensor:
    shape = tuple(value.shape)
    repeated = [n > 1 and step == 0 for n, step in zip(shape, value.stride(), strict=True)]
    base = value[tuple(slice(0, 1) if again else slice(None) for again in repeated)]
    order = sorted(range(value.ndim), key=lambda axis: -base.stride(axis))
    dense = base.detach().permute(order).contiguous().resolve_conj().resolve_neg().numpy()
    own = Tensor(dense.copy(), device=device, requires_grad=value.requires_grad or None)
    back = own.permute([order.index(axis) for axis in range(value.ndim)])
    return back.expand(shape) if any(repeated) else back


def inputs(sample: Any, device: str) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
    """Arguments of a row for one sample, and the pairs of tensors that gradients go to."""
    made: list[tuple[torch.Tensor, Tensor]] = []
    args = tuple(translated(item, device, made) for item in (sample.input, *sample.args))
    return args, translated(sample.kwargs, device, made), made


def flat(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in flat(item)]
    return [result]


def floats(result: Any) -> list[Any]:
    """The tensors of floats in a result, in order."""
    leaves = flat(result)
    if isinstance(result, torch.Tensor) or any(isinstance(x, torch.Tensor) for x in leaves):
        return [x for x in leaves if isinstance(x, torch.Tensor) and x.is_floating_point()]
    return [x for x in leaves if isinstance(x, Tensor) and x.is_floating_point()]


def to_torch(tensor: Tensor) -> torch.Tensor:
    if tensor.dtype is dtypes.bfloat16:
        return torch.tensor(tensor.float().numpy()).bfloat16()
    return torch.tensor(tensor.numpy())
