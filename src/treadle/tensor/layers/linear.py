"""Layers that are products, mostly, with weights that are arguments: linear ones, attention, bags.

x.linear(weight, bias), x.bilinear(y, weight)
query.scaled_dot_product_attention(key, value)
index.embedding_bag(weight, offsets)         the sum or mean of rows, bag by bag
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from ...dtype import dtypes, least_upper_dtype, sum_acc_dtype
from ...errors import DTypeError, ShapeError
from ...ir.op import Op
from ..basis import Basis
from ..checks import check_attention
from ..searching import bin_sums, searchsorted
from ..shapes import broadcast_shapes
from ..types import DTypeLike
from .dropout import dropped

__all__ = ["Linear"]

T = TypeVar("T", bound=Basis)


class Linear(Basis):
    """Products with weights, and layers made of little else."""

    __slots__ = ()

    def linear(
        self, weight: Self, bias: Self | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """`self @ weight + bias`: (.., k) with (k, n) to (.., n); a 1-D weight multiplies element
        by element.

        `bias` is (n,). Dtypes promote, or all are converted to `dtype` first. Raises ShapeError.
        """
        if dtype is not None:
            casted = None if bias is None else bias.cast(dtype)
            return self.cast(dtype).linear(weight.cast(dtype), casted)
        x = self.mul(weight) if weight.ndim == 1 else self.dot(weight)
        return x if bias is None else x._binary(Op.ADD, "linear", bias)

    def bilinear(self, other: Self, weight: Self, bias: Self | None = None) -> Self:
        """self W other + bias: (.., m) and (.., n) with a weight (out, m, n) give (.., out).

        Dtypes promote. Raises ShapeError.
        """
        if weight.ndim != 3 or (self.shape[-1:], other.shape[-1:], self.shape[:-1]) != (
            weight.shape[1:2], weight.shape[2:], other.shape[:-1],
        ):  # fmt: skip
            raise ShapeError(
                f"[bilinear] shapes {self.shape} and {other.shape} do not fit a weight of "
                f"{weight.shape}: expected (.., m), (.., n) and (out, m, n)"
            )
        result = type(self).einsum("...m,omn,...n->...o", self, weight, other)
        return result if bias is None else result.add(bias)

    def sequential(self, ll: Sequence[Callable[[Self], Self]]) -> Self:
        """Each callable in turn, on the result of the one before; the last one's shape
        and dtype.
        """
        return functools.reduce(lambda x, f: f(x), ll, self)

    def scaled_dot_product_attention(
        self, key: Self, value: Self, attn_mask: Self | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, enable_gqa: bool = False, scale: float | None = None,
    ) -> Self:  # fmt: skip
        """softmax(self @ key.T * scale + mask) @ value, on the last two axes.

        Query (.., L, E), key (.., S, E) and value (.., S, Ev) give (.., L, Ev); dtypes promote. A
        mask broadcasts to (.., L, S): bool ones are true where attention is allowed, floats are
        added to the scores. A row that is allowed nothing gives 0. `scale` is 1 / sqrt(E) by
        default. `enable_gqa` repeats the heads (axis -3) of key and value to those of the query.
        Raises ShapeError, and DTypeError for what are no floats.
        """
        name = "scaled_dot_product_attention"
        check_attention(name, self.shape, key.shape, value.shape, bool(enable_gqa))
        for what, given in (("query", self), ("key", key), ("value", value)):
            if not given.dtype.is_float:
                raise DTypeError(f"[{name}] the {what} is {given.dtype.name}, not a float; cast it")
        if enable_gqa:
            groups = self.shape[-3] // key.shape[-3]
            key, value = (t._repeated(groups, t.ndim - 3) for t in (key, value))
        wide = least_upper_dtype(self.dtype, key.dtype, dtypes.float32)
        scale = 1 / math.sqrt(self.shape[-1]) if scale is None else scale
        scores = self.dot(key.transpose(-2, -1), dtype=wide).mul(scale)
        if is_causal:
            if attn_mask is not None:
                raise ShapeError(f"[{name}] give attn_mask or is_causal, not both")
            attn_mask = scores._triangle("attention", 1).logical_not()
        if attn_mask is not None:
            broadcast_shapes(name, scores.shape, attn_mask.shape)
            if attn_mask.dtype.is_bool:
                attn_mask = attn_mask.where(0.0, -math.inf)
            scores = scores.add(attn_mask)
        weights = scores.softmax(-1) if attn_mask is None or is_causal else _weights(scores)
        return dropped("dropout", weights.cast(self.dtype), scores.shape, dropout_p).dot(value)

    def newton_schulz(self, steps: int, params: Sequence[float], eps: float = 1.0e-7) -> Self:
        """The nearest orthogonal matrices, approximately: X (p0 + p1 XᵀX + p2 (XᵀX)² + ...).

        `params` are the coefficients of one step, used `steps` times (Muon: 3.4445, -4.7750,
        2.0315) on the last two axes divided by their Frobenius norm plus `eps`. The shape stays,
        integers give floats. Raises ShapeError.
        """
        if self.ndim < 2 or not params:
            raise ShapeError(
                f"[newton_schulz] needs matrices and coefficients, not shape {self.shape} and "
                f"{len(params)} of them"
            )
        length = self.square().sum((-2, -1), keepdim=True).sqrt()
        x = self.div(length.add(eps))
        tall = isinstance(x.shape[-2], int) and x.shape[-2] > x.shape[-1]
        x = x.mT if tall else x
        for _ in range(steps):
            square, power = x.dot(x.mT), x
            total = x.mul(params[0])
            for factor in params[1:]:
                power = square.dot(power)
                total = total.add(power.mul(factor))
            x = total
        return x.mT if tall else x

    def channel_shuffle(self, groups: int) -> Self:
        """Channels (axis 1) of `groups` groups in turn: one of each, then the next of each.

        Shape and dtype stay. Raises ShapeError.
        """
        if self.ndim < 3 or groups < 1 or self.shape[1] % groups:
            raise ShapeError(f"[channel_shuffle] shape {self.shape} has no {groups} equal groups")
        n, c, *spatial = self.shape
        parted = self.reshape((n, groups, c // groups, *spatial))
        return parted.transpose(1, 2).reshape(self.shape)

    def embedding_bag(
        self, weight: Self, offsets: Self | None = None, mode: str = "mean",
        per_sample_weights: Self | None = None, padding_idx: int | None = None,
        include_last_offset: bool = False,
    ) -> Self:  # fmt: skip
        """The "sum", "mean" or "max" of rows of `weight` (rows, width): (bags, width).

        This tensor holds integers, numbers of rows: (bags, n), or a vector in which bag i begins at
        offsets[i]; with `include_last_offset` the last offset is the end. `per_sample_weights`
        multiply the rows of a sum, `padding_idx` is left out. Empty bags are 0. The result has the
        dtype of `weight`, floats if that holds integers. Raises ShapeError, DTypeError.
        """
        name = "embedding_bag"
        if not self.dtype.is_int or weight.ndim != 2:
            raise DTypeError(
                f"[{name}] takes integers and a weight of two axes, not {self.dtype.name} and "
                f"shape {weight.shape}"
            )
        if mode not in ("sum", "mean", "max"):
            raise ShapeError(f'[{name}] mode is "sum", "mean" or "max", not {mode!r}')
        if (self.ndim == 1) == (offsets is None) or self.ndim not in (1, 2):
            raise ShapeError(f"[{name}] a vector needs offsets, (bags, n) has none: {self.shape}")
        if per_sample_weights is not None and (
            mode != "sum" or per_sample_weights.shape != self.shape
        ):
            raise ShapeError(
                f"[{name}] per_sample_weights are for a sum, of shape {self.shape}, not for a "
                f"{mode} and of {per_sample_weights.shape}"
            )
        flat = self.flatten()
        bag, bags = self._bags(offsets, include_last_offset)
        if padding_idx is not None:
            last = weight.shape[0]
            bag = flat.ne(padding_idx + last if padding_idx < 0 else padding_idx).where(bag, -1)
        rows = weight[flat]
        if per_sample_weights is not None:
            rows = rows.mul(per_sample_weights.reshape((-1, 1)))
        if mode == "mean":
            rows = rows._as(sum_acc_dtype(rows.dtype))
        start = rows._filled(rows.dtype.min if mode == "max" else 0)
        start = start.expand((bags, weight.shape[1]))
        total = start._put(0, bag, rows, Op.MAX if mode == "max" else Op.ADD)
        if mode == "sum":
            return total
        count = bin_sums(bag, bags, bag._filled(1).expand(bag.shape)).unsqueeze(1)
        if mode == "max":
            return count.gt(0).where(total, 0.0)
        return total.div(count.maximum(1))._as(weight.dtype)

    def _bags(self, offsets: Self | None, has_end: bool) -> tuple[Self, int]:
        """The bag of each of the flat elements, and how many bags there are."""
        if offsets is None:
            return self._places(0).flatten(), self.shape[0]
        if offsets.ndim != 1 or not offsets.dtype.is_int:
            raise ShapeError(
                f"[embedding_bag] offsets are a vector of integers, not {offsets.dtype.name} of "
                f"shape {offsets.shape}"
            )
        bags = offsets.shape[0] - (1 if has_end else 0)
        starts = offsets._slice(0, 0, bags)
        places = self._places(0).cast(starts.dtype)
        return searchsorted(starts, places, behind=True).sub(1), bags


def _weights(scores: T) -> T:
    """softmax(-1), but 0 in rows of -inf alone, which a mask leaves without anything."""
    most = scores.max(-1, keepdim=True).detach()
    exps = scores.sub(most.eq(-math.inf).where(0.0, most)).exp()
    total = exps.sum(-1, keepdim=True)
    return exps.div(total.eq(0.0).where(1.0, total))
