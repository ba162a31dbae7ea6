"""What neural networks are made of: linear layers, normalisation, attention, losses.

x.linear(weight, bias).relu().layernorm()
logits.sparse_categorical_crossentropy(labels)   -> a scalar to call .backward() on
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from ..dtype import DType, dtypes, least_upper_dtype
from ..errors import ArgumentError, DTypeError, ShapeError
from ..ir.op import Op
from ..ir.shape import Shape
from .checks import check_attention, check_labels, check_targets, check_vectors
from .losses import reduced
from .shapes import broadcast_shapes, resolve_axes
from .subscript import check_places
from .synonyms import Synonyms
from .types import Axes, DTypeLike

__all__ = ["Functional"]

T = TypeVar("T", bound=Synonyms)


class Functional(Synonyms):
    """Layers and losses on top of everything else."""

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

    def dropout(self, p: float = 0.5) -> Self:
        """While training, each element 0 with probability `p`, the others scaled by 1 / (1 - p).

        Shape and dtype stay, integers give floats then; when not training the values stay, too.
        Raises ArgumentError for a `p` outside 0 to 1.
        """
        return self._dropped("dropout", self.shape, p)

    def _dropped(self, name: str, shape: Shape, p: float) -> Self:
        """`dropout` with one random number for each element of `shape`, which broadcasts."""
        if not 0 <= p <= 1:
            raise ArgumentError(f"[{name}] p is a probability, not {p}")
        if not type(self).training or p == 0:
            return self._again()
        if p == 1:
            return self.mul(0)
        kept = type(self).rand(*shape, device=self.device, dtype=dtypes.float32).ge(p)
        return kept.where(self, 0).div(1.0 - p)

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
            key, value = (t.repeat_interleave(groups, dim=-3) for t in (key, value))
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
        return weights.cast(self.dtype).dropout(dropout_p).dot(value)

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

    # -- losses -------------------------------------------------------------------------------

    def binary_crossentropy(
        self, Y: Self, reduction: str = "mean", weight: Self | None = None
    ) -> Self:
        """-(Y log(self) + (1 - Y) log(1 - self)) for probabilities; logs stop at -100.

        `Y` has this shape. `weight` broadcasts, and multiplies the losses before `reduction`:
        "mean" or "sum" to a scalar, "none" keeps them. Dtypes promote, integers give floats. Raises
        ShapeError, DTypeError for complex numbers, ArgumentError for another reduction.
        """
        check_targets("binary_crossentropy", self.shape, Y.shape)
        yes = self.log().clamp(min_=-100.0)
        no = self.neg().add(1.0).log().clamp(min_=-100.0)
        rows = Y.mul(yes).add(Y.neg().add(1).mul(no)).neg()
        return reduced(rows if weight is None else rows.mul(weight), reduction)

    def binary_crossentropy_logits(
        self, Y: Self, reduction: str = "mean", pos_weight: Self | None = None,
        weight: Self | None = None,
    ) -> Self:  # fmt: skip
        """`binary_crossentropy` of the sigmoid of each element, without overflow.

        `Y` has this shape, `weight` broadcasts, `pos_weight` multiplies what Y = 1 costs.
        `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape. Dtypes promote, integers
        give floats. Raises ShapeError, DTypeError for complex numbers, ArgumentError for another
        reduction.
        """
        check_targets("binary_crossentropy_logits", self.shape, Y.shape)
        yes, no = self.logsigmoid(), self.neg().logsigmoid()
        positive = Y.mul(yes) if pos_weight is None else Y.mul(yes).mul(pos_weight)
        rows = positive.add(Y.neg().add(1).mul(no)).neg()
        return reduced(rows if weight is None else rows.mul(weight), reduction)

    def sparse_categorical_crossentropy(
        self, Y: Self, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: str = "mean"
    ) -> Self:
        """Cross entropy of logits (.., classes) with integer labels (..).

        Rows whose label is `ignore_index` count for nothing. `reduction`: "mean" or "sum" to a
        scalar, "none" keeps (..). Integers give floats. Raises ShapeError, DTypeError for complex
        numbers, ArgumentError for another reduction.
        """
        check_labels("sparse_categorical_crossentropy", self.shape, Y.shape, self.ndim - 1)
        logs = self.log_softmax(-1)
        return _of_labels(logs, Y, self.ndim - 1, None, ignore_index, label_smoothing, reduction)

    def cross_entropy(
        self, Y: Self, reduction: str = "mean", label_smoothing: float = 0.0,
        weight: Self | None = None, ignore_index: int = -100,
    ) -> Self:  # fmt: skip
        """Cross entropy of logits (N, classes, ...) with integer labels (N, ...) or probabilities.

        Probabilities have the shape of the logits. `weight` (classes,) is what each class counts
        for, and with labels the mean is over these weights. Rows whose label is `ignore_index`
        count for nothing. `reduction`: "mean" or "sum" to a scalar, "none" keeps (N, ...). Integers
        give floats. Raises ShapeError where shapes do not fit, DTypeError for complex numbers,
        ArgumentError for another reduction or a `label_smoothing` that is not from 0 to 1.
        """
        axis = 1 if self.ndim > 1 else 0
        if not 0 <= label_smoothing <= 1:
            raise ArgumentError(
                f"[cross_entropy] label_smoothing is a part of 1, not {label_smoothing}"
            )
        if Y.dtype.is_float:
            check_targets("cross_entropy", self.shape, Y.shape)
        else:
            check_labels("cross_entropy", self.shape, Y.shape, axis)
        if weight is not None and weight.shape != (self.shape[axis],):
            raise ShapeError(
                f"[cross_entropy] weight has shape {weight.shape}, expected one for each of the "
                f"{self.shape[axis]} classes: ({self.shape[axis]},)"
            )
        logs = self.log_softmax(axis)
        if not Y.dtype.is_float:
            return _of_labels(logs, Y, axis, weight, ignore_index, label_smoothing, reduction)
        if weight is not None:
            logs = logs.mul(weight.reshape((-1, *(1,) * (self.ndim - 1 - axis))))
        target = Y.mul(1.0 - label_smoothing).add(label_smoothing / self.shape[axis])
        return reduced(logs.mul(target).sum(axis).neg(), reduction)

    def nll_loss(
        self, Y: Self, weight: Self | None = None, ignore_index: int | None = None,
        reduction: str = "mean",
    ) -> Self:  # fmt: skip
        """-self[n, Y[n]] for log-probabilities (N, classes, ...) and integer labels (N, ...).

        `weight` has one number a class; labels of `ignore_index` count for nothing. `reduction`:
        "mean" or "sum" to a scalar, "none" gives (N, ...). Integers give floats. Raises ShapeError,
        ArgumentError for another reduction.
        """
        check_labels("nll_loss", self.shape, Y.shape, 1)
        counted = Y.ne(ignore_index) if ignore_index is not None else Y.eq(Y)
        safe = counted.where(Y, 0)
        factors = counted.cast(self.dtype) if weight is None else counted.where(weight[safe], 0)
        rows = self.gather(1, safe.unsqueeze(1)).squeeze(1).mul(factors).neg()
        return rows.sum().div(factors.sum()) if reduction == "mean" else reduced(rows, reduction)


def _of_labels(
    logs: T, labels: T, axis: int, weight: T | None, ignored: int, smoothing: float, reduction: str
) -> T:
    """Cross entropy of log-probabilities along `axis` with the labels of all but that axis."""
    counted = labels.ne(ignored) if _holds(labels.dtype, ignored) else labels.eq(labels)
    unused = ignored if _holds(labels.dtype, ignored) else None
    labels = labels._result(check_places("loss", labels, axis, logs.shape[axis], 0, unused))
    factors = counted
    if weight is not None:
        factors = counted.where(weight._pick(0, counted.where(labels, 0)), 0)
        logs = logs.mul(weight.reshape((-1, *(1,) * (logs.ndim - 1 - axis))))
    rows = _at_labels(logs, labels, axis).mul(1.0 - smoothing)
    if smoothing:
        rows = rows.add(logs.mean(axis).mul(smoothing))
    rows = counted.where(rows, 0.0).neg()
    return rows.sum().div(factors.sum()) if reduction == "mean" else reduced(rows, reduction)


def _holds(dtype: DType, value: int) -> bool:
    return dtype.min <= value <= dtype.max


def _at_labels(logs: T, labels: T, axis: int) -> T:
    """The entry of each row (along `axis`) that its label names; 0 for labels out of range.

    A masked sum, not a gather: it joins the loops of the softmax, and so does its gradient.
    """
    classes = type(logs).arange(logs.shape[axis], dtype=labels.dtype, device=logs.device)
    shape = [1] * logs.ndim
    shape[axis] = logs.shape[axis]
    return labels.unsqueeze(axis).eq(classes.reshape(*shape)).where(logs, 0.0).sum(axis)


def _weights(scores: T) -> T:
    """softmax(-1), but 0 in rows of -inf alone, which a mask leaves without anything."""
    most = scores.max(-1, keepdim=True).detach()
    exps = scores.sub(most.eq(-math.inf).where(0.0, most)).exp()
    total = exps.sum(-1, keepdim=True)
    return exps.div(total.eq(0.0).where(1.0, total))
