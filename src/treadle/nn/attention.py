"""Attention as a layer: projections around `Tensor.scaled_dot_product_attention`.

    MultiheadAttention(64, 8, batch_first=True)(x)[0]      # (batch, time, 64), of itself
    MultiheadAttention(64, 8, num_kv_heads=2)(x, memory, is_causal=True)

Parameters have PyTorch's names and shapes. As there, and unlike in the tensor's method, a bool mask
is true where attention is NOT allowed.
"""

from __future__ import annotations

import math

from ..errors import DTypeError, ShapeError
from ..tensor import Tensor
from ..tensor.shapes import aligned
from .init import check_sizes
from .layer import Layer
from .linear import Linear

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Layer):
    """Scaled dot-product attention of several heads, each over a part of `embed_dim`.

    Query (time, batch, embed_dim), key (source, batch, kdim), value (source, batch, vdim) to the
    shape of the query; with `batch_first` the batch comes first, and it may be left out.
    `num_kv_heads` below `num_heads` is grouped-query attention: neighbouring query heads share a
    head of keys and values. Parameters are float32; dtypes promote. Raises ShapeError for sizes
    that do not divide or fit, DTypeError for a mask that is neither bool nor float.
    """

    embed_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    kdim: int
    vdim: int
    dropout: float
    batch_first: bool
    in_proj_weight: Tensor  # query, key and value below each other, where kdim and vdim fit
    q_proj_weight: Tensor  # (embed_dim, embed_dim), and so on, where they do not
    k_proj_weight: Tensor
    v_proj_weight: Tensor
    in_proj_bias: Tensor | None
    out_proj: Linear

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        num_kv_heads: int | None = None,
    ) -> None:
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_sizes(self, embed_dim=embed_dim, num_heads=num_heads)
        self._check_heads()
        self.head_dim = embed_dim // num_heads
        self.dropout, self.batch_first = dropout, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        shared = self.num_kv_heads * self.head_dim
        self._rows = (embed_dim, shared, shared)
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Tensor.glorot_uniform(sum(self._rows), embed_dim).contiguous()
        else:
            self.q_proj_weight = Tensor.glorot_uniform(embed_dim, embed_dim).contiguous()
            self.k_proj_weight = Tensor.glorot_uniform(shared, self.kdim).contiguous()
            self.v_proj_weight = Tensor.glorot_uniform(shared, self.vdim).contiguous()
        self.in_proj_bias = Tensor.zeros(sum(self._rows)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = Tensor.zeros(embed_dim)

    def _check_heads(self) -> None:
        if self.num_heads < 1 or self.embed_dim % self.num_heads:
            raise ShapeError(
                f"[MultiheadAttention] num_heads={self.num_heads} must divide "
                f"embed_dim={self.embed_dim}"
            )
        if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise ShapeError(
                f"[MultiheadAttention] num_kv_heads={self.num_kv_heads} must divide "
                f"num_heads={self.num_heads}"
            )

    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(the attended values in the layout of `query`, the weights (batch, time, source)).

        `key` is `query` by default, `value` is `key`. `key_padding_mask` (batch, source) and
        `attn_mask` (time, source) or (batch * num_heads, time, source) are bool, true where nothing
        is attended to, or floats to add to the scores; `is_causal` hides what comes later, and may
        be given beside them. Weights are computed only if they are used: None without
        `need_weights`, of each head (batch, num_heads, ..) without `average_attn_weights`, and
        before dropout. Raises ShapeError, DTypeError.
        """
        key = query if key is None else key
        value = key if value is None else value
        self._check(query, key, value)
        batched = query.ndim == 3
        q, k, v = self._heads(*(self._batch_first(t) for t in (query, key, value)))
        mask = self._mask(q, k, attn_mask, key_padding_mask, is_causal)
        causal = is_causal and mask is None
        mixed = q.scaled_dot_product_attention(
            k, v, mask, self.dropout, causal, enable_gqa=self.num_kv_heads != self.num_heads
        )
        out = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if not batched:
            out = out.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return out, None
        if causal:
            mask = self._mask(q, k, _later(q, k), None, False)
        weights = self._weights(q, k, mask)
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights if batched else weights.squeeze(0)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        sizes = (self.embed_dim, self.kdim, self.vdim)
        shapes = [query.shape, key.shape, value.shape]
        wrong = [
            {len(shape) - 1} if shape and shape[-1] != size else set[int]()
            for shape, size in zip(shapes, sizes, strict=True)
        ]
        fits = not any(wrong) and all(len(shape) == query.ndim for shape in shapes)
        fits = fits and query.ndim in (2, 3) and key.shape[:-1] == value.shape[:-1]
        batch = 0 if self.batch_first else 1
        if not fits or (query.ndim == 3 and query.shape[batch] != key.shape[batch]):
            raise ShapeError(
                f"[MultiheadAttention] query {query.shape}, key {key.shape}, value {value.shape} "
                f"do not fit\n{aligned(shapes, wrong)}\nexpected last axes {sizes}, two or three "
                f"axes each, one batch size (axis {batch}), and key and value of the same length"
            )

    def _batch_first(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Projected query, key and value, each (batch, heads, length, head_dim)."""
        if self.kdim == self.vdim == self.embed_dim:
            weights = self.in_proj_weight.split(self._rows)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        bias = self.in_proj_bias
        biases = (None,) * 3 if bias is None else bias.split(self._rows)
        projected = [
            x.linear(weight.transpose(), part)
            for x, weight, part in zip((query, key, value), weights, biases, strict=True)
        ]
        return [x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for x in projected]

    def _mask(
        self,
        q: Tensor,
        k: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool,
    ) -> Tensor | None:
        """What is added to the scores (batch or 1, heads or 1, time or 1, source), or None."""
        batch, source = q.shape[0], k.shape[2]
        parts: list[Tensor] = []
        if attn_mask is not None:
            per_head = (batch * self.num_heads, q.shape[2], source)
            _check_mask("attn_mask", attn_mask, (per_head[1:], per_head))
            three = attn_mask.ndim == 3
            parts.append(attn_mask.unflatten(0, (batch, -1)) if three else attn_mask)
        if key_padding_mask is not None:
            _check_mask("key_padding_mask", key_padding_mask, ((batch, source), (source,)))
            parts.append(key_padding_mask.reshape(-1, 1, 1, source))
        if is_causal and parts:
            parts.append(_later(q, k))
        if not parts:
            return None
        first, *rest = (p.where(-math.inf, 0.0) if p.dtype.is_bool else p for p in parts)
        return sum(rest, first)

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        k = k.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        return (scores if mask is None else scores + mask).softmax(-1)


def _later(q: Tensor, k: Tensor) -> Tensor:
    """True where a key comes after the query: bool (time, source)."""
    rows = Tensor.arange(q.shape[2], device=q.device).unsqueeze(1)
    return Tensor.arange(k.shape[2], device=q.device) > rows


def _check_mask(name: str, mask: Tensor, shapes: tuple[tuple[int, ...], ...]) -> None:
    if mask.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ShapeError(f"[MultiheadAttention] {name} has shape {mask.shape}, expected {expected}")
    if not (mask.dtype.is_bool or mask.dtype.is_float):
        raise DTypeError(
            f"[MultiheadAttention] {name} must be bool, true where nothing is attended to, or "
            f"float, to be added; not {mask.dtype.name}"
        )
