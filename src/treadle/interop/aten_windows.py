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

# Its gradient stays PyTorch's: in a graph of its own ours computes more anew, and was slower.
_FLASH = aten._scaled_dot_product_flash_attention_for_cpu.default


@means(_FLASH)
def _attention(
    q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    groups = q.shape[-3] // k.shape[-3]  # above 1 where heads of the query share one of the keys
    result = q.scaled_dot_product_attention(
        k, v, is_causal=is_causal, scale=scale, enable_gqa=groups > 1
    )
    k = k.repeat_interleave(groups, dim=-3)
    scores = (q.float() @ k.float().mT) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        rows, columns = scores.shape[-2:]
        hidden = Tensor.ones((rows, columns), dtype="bool", device="CPU").triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return result, scores.logsumexp(-1)


def _is_plain_attention(node: torch.fx.Node) -> bool:
    """Without dropout, or masks: of rows that see nothing PyTorch makes 0, and treadle NaN."""
    return not any(node.args[3:4]) and node.kwargs.get("attn_mask") is None


ONLY_IF = {_FLASH: _is_plain_attention}
