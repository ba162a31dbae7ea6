"""Cross entropies: losses of classes, by labels or by probabilities.

logits.cross_entropy(labels)                     -> a scalar to call .backward() on
logits.sparse_categorical_crossentropy(labels)
x.binary_crossentropy_logits(targets)
"""

from __future__ import annotations

from typing import Self, TypeVar

from ...dtype import DType
from ...errors import ArgumentError, ShapeError
from ..basis import Basis
from ..checks import check_labels, check_targets
from ..subscript import check_places
from .reduction import reduced

__all__ = ["CrossEntropies", "binary_entropies"]

T = TypeVar("T", bound=Basis)


class CrossEntropies(Basis):
    """How far what is predicted is from labels or probabilities."""

    __slots__ = ()

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
        return reduced(binary_entropies(self, Y, pos_weight, weight), reduction)

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


def binary_entropies(x: T, Y: T, pos_weight: T | None = None, weight: T | None = None) -> T:
    """The cross entropy of the sigmoid of each element, without overflow."""
    check_targets("binary_crossentropy_logits", x.shape, Y.shape)
    yes, no = x.logsigmoid(), x.neg().logsigmoid()
    positive = Y.mul(yes) if pos_weight is None else Y.mul(yes).mul(pos_weight)
    rows = positive.add(Y.neg().add(1).mul(no)).neg()
    return rows if weight is None else rows.mul(weight)


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
    classes = logs._range(logs.shape[axis], labels.dtype)
    shape = [1] * logs.ndim
    shape[axis] = logs.shape[axis]
    return labels.unsqueeze(axis).eq(classes.reshape(*shape)).where(logs, 0.0).sum(axis)
