"""Losses and distances, as PyTorch's `nn.functional` has them.

    prediction.mse_loss(target), prediction.huber_loss(target, delta=0.5, reduction="sum")
    a.cosine_similarity(b, dim=-1)

Each loss takes a prediction (this tensor), a target that broadcasts with it, and `reduction`:
"mean", "sum" or "none". Raises ArgumentError for another one, ShapeError where shapes do not fit.
"""

from __future__ import annotations

import math
from typing import Self

from ...errors import ArgumentError
from ..basis import Basis
from ..basis.state import State
from ..operands import is_scalar
from ..shapes import broadcast_shapes
from .reduction import reduced

__all__ = ["PointwiseLosses"]


def _check_target(name: str, *tensors: State) -> None:
    """Raises ShapeError where a prediction and its targets do not broadcast."""
    broadcast_shapes(name, *(t.shape for t in tensors if not is_scalar(t)))


class PointwiseLosses(Basis):
    """Losses of each element and its target."""

    __slots__ = ()

    def l1_loss(self, target: Self, reduction: str = "mean") -> Self:
        """|x - y| of each element, reduced to its mean by default.

        The target broadcasts. `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape.
        Dtypes promote, integers give floats; complex numbers give real ones. Raises ShapeError,
        DTypeError for bools, ArgumentError for another reduction.
        """
        _check_target("l1_loss", self, target)
        return reduced(self.sub(target).abs(), reduction)

    def mse_loss(self, target: Self, reduction: str = "mean") -> Self:
        """(x - y)² of each element, reduced to its mean by default.

        The target broadcasts. `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape.
        Dtypes promote, integers give floats. Raises ShapeError, DTypeError for bools and complex
        numbers, ArgumentError for another reduction.
        """
        _check_target("mse_loss", self, target)
        return reduced(self.sub(target).square(), reduction)

    def huber_loss(self, target: Self, reduction: str = "mean", delta: float = 1.0) -> Self:
        """(x - y)² / 2 up to a distance `delta` above 0, delta (|x - y| - delta / 2) beyond.

        The target broadcasts. `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape.
        Dtypes promote, integers give floats. Raises ShapeError, DTypeError for bools and complex
        numbers, ArgumentError.
        """
        _check_target("huber_loss", self, target)
        if delta <= 0:
            raise ArgumentError(f"[huber_loss] delta is a distance above 0, not {delta}")
        gap = self.sub(target)
        size = gap.abs()
        near = gap.square().mul(0.5)
        return reduced(size.le(delta).where(near, size.sub(delta / 2).mul(delta)), reduction)

    def smooth_l1_loss(self, target: Self, reduction: str = "mean", beta: float = 1.0) -> Self:
        """(x - y)² / 2 beta up to a distance `beta`, |x - y| - beta / 2 beyond; 0 is `l1_loss`.

        The target broadcasts. `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape.
        Dtypes promote, integers give floats. Raises ShapeError, DTypeError for bools and complex
        numbers, ArgumentError.
        """
        _check_target("smooth_l1_loss", self, target)
        if beta < 0:
            raise ArgumentError(f"[smooth_l1_loss] beta is a distance of at least 0, not {beta}")
        if beta == 0:
            return self.l1_loss(target, reduction)
        return reduced(self.huber_loss(target, "none", beta).div(beta), reduction)

    def kl_div(self, target: Self, reduction: str = "mean", log_target: bool = False) -> Self:
        """target (log(target) - x), where x and, with `log_target`, the target are logarithms.

        The target broadcasts. `reduction` may be "batchmean" too: the sum over the size of the
        first axis; it and "mean", "sum" give a scalar, "none" keeps the shape. Dtypes promote,
        integers give floats. Raises ShapeError, DTypeError for complex numbers, ArgumentError for
        another reduction.
        """
        _check_target("kl_div", self, target)
        rows = (
            target.exp().mul(target.sub(self))
            if log_target
            else (target.xlogy(target).sub(target.mul(self)))
        )
        if reduction == "batchmean":
            return rows.sum().div(rows.shape[0] if rows.ndim else 1)
        return reduced(rows, reduction)

    def poisson_nll_loss(
        self, target: Self, log_input: bool = True, full: bool = False, eps: float = 1e-8,
        reduction: str = "mean",
    ) -> Self:  # fmt: skip
        """-log of the Poisson probability of `target`, whose rate is exp(x) (or x).

        `full` adds Stirling's approximation of log(target!) for targets above 1. The target
        broadcasts. `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape. Dtypes
        promote, integers give floats. Raises ShapeError, DTypeError for complex numbers,
        ArgumentError for another reduction.
        """
        _check_target("poisson_nll_loss", self, target)
        rows = (
            self.exp().sub(target.mul(self))
            if log_input
            else (self.sub(target.mul(self.add(eps).log())))
        )
        if full:
            large = target.gt(1)
            y = large.where(target, 1.0)
            stirling = y.mul(y.log()).sub(y).add(y.mul(2 * math.pi).log().mul(0.5))
            rows = rows.add(large.where(stirling, 0.0))
        return reduced(rows, reduction)

    def gaussian_nll_loss(
        self, target: Self, var: Self, full: bool = False, eps: float = 1e-6,
        reduction: str = "mean",
    ) -> Self:  # fmt: skip
        """-log of the normal density of `target` around x, with variances of at least `eps`.

        A `var` without the last axis is one for all of it. `reduction`: "mean" or "sum" to a
        scalar, "none" keeps the shape. Integers give floats. Raises ShapeError, DTypeError for
        bools and complex numbers, ArgumentError for another reduction.
        """
        _check_target("gaussian_nll_loss", self, target)
        if self.ndim and var.shape == self.shape[:-1]:
            var = var.unsqueeze(-1)
        safe = var.add(var.detach().maximum(eps).sub(var.detach()))  # gradients as if not clamped
        rows = safe.log().add(self.sub(target).square().div(safe)).mul(0.5)
        return reduced(rows.add(0.5 * math.log(2 * math.pi)) if full else rows, reduction)

    def soft_margin_loss(self, target: Self, reduction: str = "mean") -> Self:
        """log(1 + exp(-y x)) for targets of 1 and -1, which broadcast; integers give floats.

        `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape. Raises ShapeError,
        DTypeError for complex numbers, ArgumentError for another reduction.
        """
        _check_target("soft_margin_loss", self, target)
        return reduced(target.mul(self).neg().softplus(), reduction)

    def hinge_embedding_loss(
        self, target: Self, margin: float = 1.0, reduction: str = "mean"
    ) -> Self:
        """x where the target is 1, max(0, margin - x) where it is -1; integers give floats.

        The target broadcasts. `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape.
        Raises ShapeError, DTypeError for complex numbers, ArgumentError for another reduction.
        """
        _check_target("hinge_embedding_loss", self, target)
        away = target.ne(1).where(self.neg().add(margin).relu(), 0.0)
        return reduced(away.add(target.ne(-1).where(self, 0.0)), reduction)

    def margin_ranking_loss(
        self, other: Self, target: Self, margin: float = 0.0, reduction: str = "mean"
    ) -> Self:
        """max(0, -y (self - other) + margin), where the target y is 1 or -1.

        All broadcast. `reduction`: "mean" or "sum" to a scalar, "none" keeps the shape. Dtypes
        promote, integers give floats. Raises ShapeError, DTypeError for bools and complex numbers,
        ArgumentError for another reduction.
        """
        _check_target("margin_ranking_loss", self, other, target)
        return reduced(self.sub(other).mul(target).neg().add(margin).relu(), reduction)

    def cosine_similarity(self, other: Self, dim: int = 1, eps: float = 1e-8) -> Self:
        """The cosine of the angle between lines along axis `dim`, which vanishes; integers give
        floats.

        Shapes broadcast; lengths count as at least `eps`. Raises ShapeError, IndexOutOfRange, and
        DTypeError for complex numbers.
        """
        shape = broadcast_shapes("cosine_similarity", self.shape, other.shape)
        kind = self.add(other)._float().dtype
        one, two = self._wide().expand(shape), other._wide().expand(shape)
        lengths = [t.square().sum(dim, keepdim=True).sqrt().maximum(eps) for t in (one, two)]
        return one.div(lengths[0]).mul(two.div(lengths[1])).sum(dim).cast(kind)

    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        """Divided by the p-norm along an axis, or by `eps` if that is larger; the shape stays,
        integers give floats.

        The norm is the largest magnitude for p = inf, and how many are not 0 for p = 0. Raises
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        if p == math.inf:
            length = self.abs().max(dim, keepdim=True)
        elif p == 0:
            length = self.ne(0).sum(dim, keepdim=True).cast(self._float().dtype)
        elif p == 2:
            length = self._wide().square().sum(dim, keepdim=True).sqrt()
        else:
            length = self._wide().abs().pow(p).sum(dim, keepdim=True).pow(1 / p)
        return self.div(length.maximum(eps)).cast(self._float().dtype)
