"""What PyTorch's pooling and attention mean, and their gradients: more rows of the table."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from ..tensor import Tensor
from .aten import means

__all__ = ["ONLY_IF"]

aten = torch.ops.aten

# -- pooling: the first argument says over how many axes ------------------------------------------


def _max_pool(
    rank: int, x: Tensor, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    shape = (*_windows(rank, kernel, stride), _each(rank, dilation), _each(rank, padding))
    return x.max_pool2d(*shape, ceil_mode, return_indices=True)


def _max_pool_backward(
    rank: int, gradient: Tensor, x: Tensor, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    return _added(rank, gradient, x, indices)


def _adaptive_max_pool(rank: int, x: Tensor, size: Sequence[int]) -> tuple[Tensor, Tensor]:
    return x.adaptive_max_pool2d(tuple(size), return_indices=True)


def _added(rank: int, gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    """What arrives at each maximum, added where it came from."""
    lines = (*x.shape[:-rank], math.prod(x.shape[-rank:]))
    zeros = Tensor.zeros(lines, dtype=x.dtype, device="CPU")
    places = indices.flatten(-rank), gradient.flatten(-rank)
    return zeros.scatter_reduce(-1, *places, "sum").reshape(x.shape)


def _avg_pool(
    rank: int, x: Tensor, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor: int | None = None,
) -> Tensor:  # fmt: skip
    shape = (*_windows(rank, kernel, stride), 1, _each(rank, padding))
    return x.avg_pool2d(*shape, ceil_mode, count_include_pad, divisor)


def _avg_pool_backward(rank: int, gradient: Tensor, x: Tensor, *how: Any) -> Tensor:
    return _avg_pool(rank, x, *how).gradient(x, gradient=gradient)[0]


def _adaptive_avg_pool(rank: int, x: Tensor, size: Sequence[int]) -> Tensor:
    return x.adaptive_avg_pool2d(tuple(size))


def _adaptive_avg_pool_backward(rank: int, gradient: Tensor, x: Tensor) -> Tensor:
    result = _adaptive_avg_pool(rank, x, gradient.shape[-rank:])
    return result.gradient(x, gradient=gradient)[0]


def _each(rank: int, value: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (value,) if isinstance(value, int) else tuple(value)
    return sizes if len(sizes) == rank else sizes * rank


def _windows(
    rank: int, kernel: Sequence[int], stride: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Kernel and stride, which is the kernel's size where it is not given."""
    return _each(rank, kernel), _each(rank, stride or kernel)


_POOLING = {
    "max_pool{}d_with_indices": _max_pool,
    "max_pool{}d_with_indices_backward": _max_pool_backward,
    "adaptive_max_pool{}d": _adaptive_max_pool,
    "adaptive_max_pool{}d_backward": _added,
    "avg_pool{}d": _avg_pool,
    "avg_pool{}d_backward": _avg_pool_backward,
    "_adaptive_avg_pool{}d": _adaptive_avg_pool,
    "_adaptive_avg_pool{}d_backward": _adaptive_avg_pool_backward,
}
for _name, _function in _POOLING.items():
    for _rank in (2, 3):
        means(getattr(aten, _name.format(_rank)).default)(functools.partial(_function, _rank))


# -- attention ------------------------------------------------------------------------------------

_FLASH = aten._scaled_dot_product_flash_attention_for_cpu.default
_MOST_WEIGHTS = 1 << 20  # as many as stay in a core's cache
_FLASH_BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default


@means(_FLASH)
def _attention(
    q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    groups = q.shape[-3] // k.shape[-3]  # above 1 where heads of the query share one of the keys
    result = q.scaled_dot_product_attention(
        k, v, is_causal=is_causal, scale=scale, enable_gqa=groups > 1
    )
    scores = _scores(q, k.repeat_interleave(groups, dim=-3), scale)
    if is_causal:
        scores = scores.masked_fill(_hidden(scores), -math.inf)
    return result, scores.logsumexp(-1)


@means(_FLASH_BACKWARD)
def _attention_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, result: Tensor, logsumexp: Tensor,
    dropout: float, is_causal: bool, *, attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients to query, keys and values, from the weights that `logsumexp` gives again."""
    groups = q.shape[-3] // k.shape[-3]
    keys, values = (t.repeat_interleave(groups, dim=-3).float() for t in (k, v))
    gradient, q = gradient.float(), q.float()
    scores = _scores(q, keys, scale)
    weights = (scores - logsumexp.unsqueeze(-1)).exp()
    if is_causal:
        weights = weights.masked_fill(_hidden(scores), 0.0)
    shift = (gradient * result).sum(-1, keepdim=True)
    to_scores = weights * (gradient @ values.mT - shift) * _scale(q, scale)
    to_keys, to_values = to_scores.mT @ q, weights.mT @ gradient
    if groups > 1:
        shape = (k.shape[-3], groups)
        to_keys, to_values = (t.unflatten(-3, shape).sum(-3) for t in (to_keys, to_values))
    return to_scores @ keys, to_keys, to_values


def _scores(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    return (q.float() @ k.float().mT) * _scale(q, scale)


def _scale(q: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _hidden(scores: Tensor) -> Tensor:
    """Where a key is behind the query."""
    rows, columns = scores.shape[-2:]
    return Tensor.ones((rows, columns), dtype="bool", device="CPU").triu(1)


def _is_plain_attention(node: torch.fx.Node) -> bool:
    """Without dropout, or masks: of rows that see nothing PyTorch makes 0, and treadle NaN."""
    return not any(node.args[3:4]) and node.kwargs.get("attn_mask") is None


def _is_small_gradient(node: torch.fx.Node) -> bool:
    """The same, and of few weights, which are all in memory here and never in PyTorch."""
    dropout = node.args[6]
    if dropout or node.kwargs.get("attn_mask") is not None:
        return False
    q, k = (given.meta["val"] for given in node.args[1:3] if isinstance(given, torch.fx.Node))
    count = math.prod((*q.shape[:-1], k.shape[-2]))
    return isinstance(count, int) and count <= _MOST_WEIGHTS


ONLY_IF = {_FLASH: _is_plain_attention, _FLASH_BACKWARD: _is_small_gradient}
