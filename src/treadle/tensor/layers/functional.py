"""What neural networks are made of: linear layers, normalisation, attention.

x.linear(weight, bias).relu().layernorm()
query.scaled_dot_product_attention(key, value)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from ...dtype import dtypes, least_upper_dtype
from ...errors import DTypeError, ShapeError
from ...ir.op import Op
from ..basis import Basis
from ..checks import check_attention, check_vectors
from ..shapes import broadcast_shapes, resolve_axes
from ..types import Axes, DTypeLike
from .dropout import dropped

__all__ = ["Functional"]

T = TypeVar("T", bound=Basis)


class Functional(Basis):
    """Layers that take their weights as arguments."""

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

    def sequential(self, ll: Sequence[Callable[[Self], Self]]) -> Self:
        """Each callable in turn, on the result of the one before; the last one's shape
        and dtype.
        """
        return functools.reduce(lambda x, f: f(x), ll, self)

    def layernorm(self, axis: Axes = -1, eps: float = 1e-05) -> Self:
        """Mean 0 and variance 1 over some axes, the last one by default; the shape stays, integers
        give floats.

        Raises IndexOutOfRange, and DTypeError for complex numbers.
        """
        self._check_real("layernorm")
        resolve_axes("layernorm", axis, self.ndim)
        x = self._wide()  # squares of halves soon overflow
        centred = x.sub(x.mean(axis, keepdim=True))
        scale = centred.square().mean(axis, keepdim=True).add(eps).rsqrt()
        return centred.mul(scale).cast(self._float().dtype)

    def batchnorm(
        self, weight: Self | None, bias: Self | None, mean: Self, invstd: Self, axis: Axes = 1
    ) -> Self:
        """`(self - mean) * weight * invstd + bias`, each a vector along `axis`; dtypes promote.

        The shape stays. Raises ShapeError, IndexOutOfRange, and DTypeError for bools and complex
        numbers.
        """
        self._check_real("batchnorm")
        axes = resolve_axes("batchnorm", axis, self.ndim)
        given = {"mean": mean, "weight": weight, "bias": bias}
        vectors = {name: t.shape for name, t in given.items() if t is not None}
        check_vectors("batchnorm", self.shape, axes, vectors)
        shape = tuple(n if i in axes else 1 for i, n in enumerate(self.shape))
        x = self.sub(mean.reshape(shape))
        if weight is not None:
            x = x.mul(weight.reshape(shape))
        scale = invstd.reshape(shape) if invstd.ndim == len(axes) else invstd
        x = x.mul(scale)
        return x if bias is None else x.add(bias.reshape(shape))

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


def _weights(scores: T) -> T:
    """softmax(-1), but 0 in rows of -inf alone, which a mask leaves without anything."""
    most = scores.max(-1, keepdim=True).detach()
    exps = scores.sub(most.eq(-math.inf).where(0.0, most)).exp()
    total = exps.sum(-1, keepdim=True)
    return exps.div(total.eq(0.0).where(1.0, total))
