"""Losses over margins, labels and distances, and of sequences without alignment.

    anchor.triplet_margin_loss(positive, negative)
    logits.multi_margin_loss(labels)
    log_probs.ctc_loss(targets, input_lengths, target_lengths)

As in `Losses`, `reduction` is "mean", "sum" or "none"; raises ValueError for another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from ...errors import ArgumentError, DTypeError, ShapeError
from ...ir.shape import Shape
from ..basis import Basis
from ..checks import check_labels
from ..vector_norms import pairwise_distance
from .entropies import binary_entropies
from .reduction import reduced

__all__ = ["Margins"]

T = TypeVar("T", bound=Basis)


class Margins(Basis):
    """Rarer losses."""

    __slots__ = ()

    def triplet_margin_loss(
        self, positive: Self, negative: Self, margin: float = 1.0, p: float = 2.0,
        eps: float = 1e-6, swap: bool = False, reduction: str = "mean",
    ) -> Self:  # fmt: skip
        """max(0, d(self, positive) - d(self, negative) + margin), d is `pairwise_distance`.

        `swap` takes the smaller of d(self, negative) and d(positive, negative). Rows (N, M), which
        broadcast, to a scalar, or with the `reduction` "none" to (N,). Dtypes promote, integers
        give floats; complex numbers give real ones. Raises ShapeError, DTypeError for bools,
        ArgumentError.
        """
        return self.triplet_margin_with_distance_loss(
            positive,
            negative,
            lambda x, y: pairwise_distance(x, y, p, eps),
            margin,
            swap,
            reduction,
        )

    def triplet_margin_with_distance_loss(
        self, positive: Self, negative: Self,
        distance_function: Callable[[Self, Self], Self] | None = None, margin: float = 1.0,
        swap: bool = False, reduction: str = "mean",
    ) -> Self:  # fmt: skip
        """`triplet_margin_loss` with a distance of one's own; None is `pairwise_distance`.

        Rows (N, M) to a scalar, or with the `reduction` "none" to (N,); integers give floats.
        Raises ShapeError for tensors of different ranks, DTypeError for bools, ArgumentError.
        """
        if margin <= 0:
            raise ArgumentError(f"[triplet_margin_loss] margin is above 0, not {margin}")
        if not self.ndim == positive.ndim == negative.ndim:
            raise ShapeError(
                f"[triplet_margin_loss] as many axes, not shapes {self.shape}, {positive.shape} "
                f"and {negative.shape}"
            )
        distance = distance_function or pairwise_distance
        near, far = distance(self, positive), distance(self, negative)
        far = far.minimum(distance(positive, negative)) if swap else far
        return reduced(near.sub(far).add(margin).relu(), reduction)

    def cosine_embedding_loss(
        self, other: Self, target: Self, margin: float = 0.0, reduction: str = "mean"
    ) -> Self:
        """1 - cos of the angle between rows where the target is 1, max(0, cos - margin) where -1.

        Rows (N, M) with targets (N,), or vectors with a scalar. `reduction`: "mean" or "sum" to a
        scalar, "none" keeps (N,). Floats; integers give floats. Raises ShapeError, DTypeError for
        complex numbers, ArgumentError for another reduction.
        """
        if self.shape != other.shape or target.shape != self.shape[:-1] or not self.ndim:
            raise ShapeError(
                f"[cosine_embedding_loss] rows {self.shape} and {other.shape} with targets "
                f"{target.shape} do not fit: expected (N, M), (N, M) and (N,)"
            )
        lengths = self.square().sum(-1).add(1e-12).mul(other.square().sum(-1).add(1e-12))
        cosine = self.mul(other).sum(-1).div(lengths.sqrt())
        apart = target.eq(-1).where(cosine.sub(margin).relu(), 0.0)
        return reduced(target.eq(1).where(cosine.neg().add(1.0), apart), reduction)

    def multi_margin_loss(
        self, target: Self, p: int = 1, margin: float = 1.0, weight: Self | None = None,
        reduction: str = "mean",
    ) -> Self:  # fmt: skip
        """The mean over other classes of max(0, margin - self[label] + self[class]) ** p.

        Scores (N, C) with integer labels (N,), or (C,) with one. `weight` (C,) is what each label
        counts. `reduction`: "mean" or "sum" to a scalar, "none" gives (N,). Integers give floats.
        Raises ShapeError, DTypeError for complex numbers, ArgumentError for a `p` beside 1 and 2.
        """
        if p not in (1, 2):
            raise ArgumentError(f"[multi_margin_loss] p is 1 or 2, not {p}")
        rows, labels = self._rows_and_labels("multi_margin_loss", target, ())
        hit = rows._places(1).eq(labels.unsqueeze(1))
        own = hit.where(rows, 0.0).sum(1, keepdim=True)
        cost = rows.sub(own).add(margin).relu()
        cost = hit.where(0.0, cost if p == 1 else cost.square())
        if weight is not None:
            if weight.shape != rows.shape[1:]:
                raise ShapeError(
                    f"[multi_margin_loss] one weight for each of {rows.shape[1]} classes, not "
                    f"{weight.shape}"
                )
            cost = cost.mul(hit.where(weight, 0.0).sum(1, keepdim=True))
        loss = cost.sum(1).div(rows.shape[1])
        return reduced(loss if self.ndim > 1 else loss.squeeze(0), reduction)

    def multilabel_margin_loss(self, target: Self, reduction: str = "mean") -> Self:
        """The sum over labels and other classes of max(0, 1 - (self[label] - self[class])) / C.

        Scores (N, C), or (C,), with integer labels in the same shape, up to the first -1.
        `reduction`: "mean" or "sum" to a scalar, "none" gives (N,). Integers give floats. Raises
        ShapeError, DTypeError for complex numbers, ArgumentError for another reduction.
        """
        rows, labels = self._rows_and_labels("multilabel_margin_loss", target, self.shape[-1:])
        listed = labels.ge(0).int().cumprod(1).bool()
        hits = labels.unsqueeze(2).eq(rows._places(1).unsqueeze(1)).bitwise_and(listed.unsqueeze(2))
        own = hits.where(rows.unsqueeze(1), 0.0).sum(2, keepdim=True)
        cost = own.neg().add(1.0).add(rows.unsqueeze(1)).relu()
        others = hits.any(1, keepdim=True).logical_not().bitwise_and(listed.unsqueeze(2))
        loss = others.where(cost, 0.0).sum((1, 2)).div(rows.shape[1])
        return reduced(loss if self.ndim > 1 else loss.squeeze(0), reduction)

    def _rows_and_labels(self, name: str, target: Self, each: Shape) -> tuple[Self, Self]:
        """Scores (N, C), and labels as they are for these."""
        if self.ndim not in (1, 2) or not self.shape[-1]:
            raise ShapeError(f"[{name}] takes scores (N, C) or (C,), not shape {self.shape}")
        if not target.dtype.is_int:
            raise DTypeError(f"[{name}] labels are integers, not {target.dtype.name}")
        rows = self if self.ndim == 2 else self.unsqueeze(0)
        labels = target.reshape((1, *each)) if self.ndim == 1 else target
        if each:
            if labels.shape != rows.shape:
                raise ShapeError(f"[{name}] labels of {labels.shape} for scores of {rows.shape}")
        else:
            check_labels(name, rows.shape, labels.shape, 1)
        return rows, labels

    def multilabel_soft_margin_loss(
        self, target: Self, weight: Self | None = None, reduction: str = "mean"
    ) -> Self:
        """The mean over classes of -(y log sigmoid(x) + (1 - y) log sigmoid(-x)), times `weight`.

        Scores (.., C) with targets of that shape. `reduction`: "mean" or "sum" to a scalar, "none"
        gives (..). Dtypes promote, integers give floats. Raises ShapeError, DTypeError for complex
        numbers, ArgumentError for another reduction.
        """
        rows = binary_entropies(self, target, weight=weight)
        return reduced(rows.mean(-1), reduction)

    def ctc_loss(
        self, targets: Self, input_lengths: Self | Sequence[int],
        target_lengths: Self | Sequence[int], blank: int = 0, reduction: str = "mean",
        zero_infinity: bool = False,
    ) -> Self:  # fmt: skip
        """-log of the probability of label sequences, whatever their alignment in time; floats.

        Log-probabilities (T, N, C), or (T, C); integer labels (N, S), or those of all sequences in
        one vector; lengths are N numbers or a tensor. "mean" divides each loss by the length of its
        target first, "none" gives (N,). `zero_infinity`: what cannot be aligned costs 0. Graves et
        al. (2006). One step of the recursion for each time, so the graph grows with T. Raises
        ShapeError, DTypeError, ArgumentError for another reduction.
        """
        name = "ctc_loss"
        if self.ndim not in (2, 3) or not self.shape[0]:
            raise ShapeError(f"[{name}] takes (T, N, C) or (T, C), not shape {self.shape}")
        logs = self if self.ndim == 3 else self.unsqueeze(1)
        steps, count, classes = logs.shape
        if not targets.dtype.is_int or not 0 <= blank < classes:
            raise DTypeError(
                f"[{name}] labels are integers and blank one of {classes} classes, not "
                f"{targets.dtype.name} and {blank}"
            )
        lengths, sizes = (logs._lengths(name, given) for given in (input_lengths, target_lengths))
        labels = targets._padded_labels(sizes, count)
        width = labels.shape[1]
        # blank, label, blank, label, ..., blank
        spaced = labels.unsqueeze(2)._padded([(0, 0), (0, 0), (1, 0)], blank).flatten(1)
        spaced = spaced._padded([(0, 0), (0, 1)], blank)
        earlier = spaced._slice(1, 0, 2 * width + 1)._padded([(0, 0), (2, 0)], blank)
        skips = spaced.ne(blank).bitwise_and(spaced.ne(earlier._slice(1, 0, 2 * width + 1)))
        places = spaced.unsqueeze(0).expand((steps, *spaced.shape))
        emitted = logs.gather(2, places)
        first = spaced._places(1).lt(2)
        state = first.where(emitted.select(0, 0), -math.inf)
        for step in range(1, steps):
            one, two = (
                state._padded([(0, 0), (n, 0)], -math.inf)._slice(1, 0, 2 * width + 1)
                for n in (1, 2)
            )
            paths = state.stack(one, skips.where(two, -math.inf))
            moved = _log_of_sum(paths, 0).add(emitted.select(0, step)).contiguous()
            state = lengths.unsqueeze(1).gt(step).where(moved, state)
        ends = spaced._places(1).sub(sizes.mul(2).unsqueeze(1))
        last = ends.eq(0).bitwise_or(ends.eq(-1)).where(state, -math.inf)
        loss = _log_of_sum(last, 1).neg()
        if zero_infinity:
            loss = loss.isinf().where(0.0, loss)
        if reduction == "mean":
            return loss.div(sizes.maximum(1)).mean()
        return reduced(loss if self.ndim == 3 else loss.squeeze(0), reduction)

    def _lengths(self, name: str, given: Self | Sequence[int]) -> Self:
        numbers = type(self)(given, device=self.device).reshape((-1,))
        if not numbers.dtype.is_int or numbers.shape != (self.shape[1],):
            raise ShapeError(
                f"[{name}] one length for each of {self.shape[1]} sequences, not "
                f"{numbers.dtype.name} of shape {numbers.shape}"
            )
        return numbers.int()

    def _padded_labels(self, sizes: Self, count: int) -> Self:
        """Labels (N, S): of one vector, each sequence begins where the one before ends."""
        if self.ndim == 2 or count == 1:
            return self.reshape((count, -1)).int()
        ends = sizes.cumsum(0)
        width = self.shape[0]
        places = ends.sub(sizes).unsqueeze(1).add(sizes._of_places(width))
        return places.lt(width).where(self[places.minimum(max(width - 1, 0))], 0).int()

    def _of_places(self, width: int) -> Self:
        return self._filled(0).expand((1, width))._places(1)


def _log_of_sum(x: T, axis: int) -> T:
    """`logsumexp` that has a gradient, of 0, where all that is added is -inf."""
    most = x.detach().max(axis, True)
    most = most.eq(-math.inf).where(0.0, most)
    total = x.sub(most).exp().sum(axis)
    there = total.ne(0)
    return there.where(there.where(total, 1.0).log().add(most.squeeze(axis)), -math.inf)
