"""What describes data: covariance, histograms, the most frequent, medians without NaN.

x.cov(), x.corrcoef()                    rows are variables, columns observations
counts, edges = x.histogram(10)
values, places = x.mode(dim=0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self, TypeAlias

from ...dtype import sum_acc_dtype
from ...errors import DTypeError, ShapeError
from ..basis import Basis
from ..searching import bin_sums, searchsorted

__all__ = ["Descriptive"]


Limits: TypeAlias = Sequence[float]
Bins: TypeAlias = "int | Basis"  # how many equal intervals, or the edges
AllBins: TypeAlias = "Bins | Sequence[Bins]"  # of each axis


class Descriptive(Basis):
    """Summaries of data on top of sorting, scans and products."""

    __slots__ = ()

    # -- variables ----------------------------------------------------------------------------

    def cov(
        self, correction: int = 1, fweights: Self | None = None, aweights: Self | None = None
    ) -> Self:
        """The covariances of variables, (m, m) of (m, n) with an observation in each column;
        integers give floats.

        A vector is one variable and gives a scalar. `fweights` (n), integers, say how often each
        observation counts, `aweights` (n), floats, how much. Raises ShapeError, DTypeError.
        """
        self._check_real("cov")
        if self.ndim > 2:
            raise ShapeError(f"[cov] takes variables by observations, not shape {self.shape}")
        out = self._float().dtype
        x = self.cast(sum_acc_dtype(out))
        x = x if x.ndim > 1 else x.reshape((1, x.numel()))
        weights = self._observed(fweights, aweights, x.shape[1])
        if weights is None:
            centred = x.sub(x.mean(1, keepdim=True))
            free = max(x.shape[1] - correction, 0)
            scaled = centred
        else:
            weights = weights.cast(x.dtype)
            total = weights.sum()
            centred = x.sub(x.mul(weights).sum(1, keepdim=True).div(total))
            spread = total if aweights is None else weights.mul(aweights).sum()
            free = total.sub(spread.div(total).mul(correction)).maximum(0)
            scaled = centred.mul(weights)
        products = scaled.dot(centred.mT)
        free = x._filled(float(free)) if isinstance(free, int) else free
        return products.div(free).squeeze().cast(out)

    def _observed(self, often: Self | None, much: Self | None, count: int) -> Self | None:
        given = [w for w in (often, much) if w is not None]
        for weight in given:
            if weight.shape != (count,):
                raise ShapeError(
                    f"[cov] one weight for each of {count} observations, not {weight.shape}"
                )
        if often is not None and not often.dtype.is_int:
            raise DTypeError(f"[cov] fweights are integers, not {often.dtype.name}")
        if much is not None and not much.dtype.is_float:
            raise DTypeError(f"[cov] aweights are floats, not {much.dtype.name}")
        if len(given) == 2:
            return given[0].mul(given[1])
        return given[0] if given else None

    def corrcoef(self) -> Self:
        """The correlations of variables, from -1 to 1, in the shapes of `cov`; integers give
        floats.

        Raises ShapeError, DTypeError.
        """
        self._check_real("corrcoef")
        found, dtype = self._wide().cov(), self._float().dtype  # which a half's would leave
        if not found.ndim:
            return found.div(found).cast(dtype)
        size = found.diagonal().sqrt()
        scaled = found.div(size.unsqueeze(1)).div(size.unsqueeze(0))
        return scaled.clamp(-1.0, 1.0).cast(dtype)

    # -- histograms ---------------------------------------------------------------------------

    def histogram(
        self,
        bins: Bins = 100,
        range: Limits | None = None,
        weight: Self | None = None,
        density: bool = False,
    ) -> tuple[Self, Self]:
        """How many elements are between neighbouring edges, as floats (bins,), and the edges (bins
        + 1,).

        `bins`: how many equal intervals, from the least to the largest element or in a `range` of
        two numbers, or the ascending edges. The last interval holds its upper edge, too. `weight`
        is what each element counts; `density` divides by the total and by the intervals' lengths.
        Raises ShapeError, and DTypeError for what are no floats.
        """
        weights = weight if weight is None else weight.flatten()
        column = self.reshape((self.numel(), 1))
        found, (edges,) = column.histogramdd([bins], range, weights, density)
        return found, edges

    def histogramdd(
        self,
        bins: AllBins = 10,
        range: Limits | None = None,
        weight: Self | None = None,
        density: bool = False,
    ) -> tuple[Self, tuple[Self, ...]]:
        """`histogram` of points (N, D): counts on D axes, and the edges of each axis, in their
        dtype.

        `bins` is a number, or a number or edges for each axis, `range` two numbers for each axis.
        Raises ShapeError, and DTypeError for what are no floats.
        """
        if not self.dtype.is_float:
            raise DTypeError(f"[histogram] takes floats, not {self.dtype.name}")
        if self.ndim < 2:
            raise ShapeError(f"[histogramdd] takes points, (N, D), not shape {self.shape}")
        points = self.reshape((math.prod(self.shape[:-1]), self.shape[-1]))
        count, rank = points.shape
        each: Sequence[Bins] = bins if isinstance(bins, (tuple, list)) else (bins,) * rank
        limits = [None] * rank if range is None else list(zip(range[::2], range[1::2], strict=True))
        if len(each) != rank or len(limits) != rank:
            raise ShapeError(f"[histogramdd] bins and range are for {rank} axes: {bins}, {range}")
        weights = points._filled(1).expand((count,)) if weight is None else weight.reshape((-1,))
        if weights.shape != (count,):
            raise ShapeError(f"[histogram] {count} elements need as many weights")
        number, inside = points._filled(0).int().expand((count,)), None
        edges, shape = [], []
        for axis, (size, limit) in enumerate(zip(each, limits, strict=True)):
            line = points.select(1, axis)
            borders = size if isinstance(size, Basis) else line._equal_parts(size, limit)
            last = borders.shape[0] - 1
            place = searchsorted(borders, line, True).sub(1)
            place = line.eq(borders._slice(0, last, last + 1)).where(last - 1, place)
            fits = place.ge(0).bitwise_and(place.lt(last))
            inside = fits if inside is None else inside.bitwise_and(fits)
            number = number.mul(last).add(place)
            edges.append(borders)
            shape.append(last)
        flat = number if inside is None else inside.where(number, -1)
        found = bin_sums(flat, math.prod(shape), weights).reshape(tuple(shape))
        if density:
            found = found.div(found.sum())
            for axis, borders in enumerate(edges):
                column = [-1 if i == axis else 1 for i, _ in enumerate(shape)]
                last = borders.shape[0] - 1
                lengths = borders._slice(0, 1, last + 1).sub(borders._slice(0, 0, last))
                found = found.div(lengths.reshape(column))
        return found, tuple(edges)

    def _equal_parts(self, bins: Bins, limits: Limits | None) -> Self:
        """The edges of `bins` equal intervals, exact at both ends."""
        if not isinstance(bins, int) or bins < 1:
            raise ShapeError(f"[histogram] bins are 1 or more, or edges, not {bins!r}")
        if limits is None and self.numel():
            low, high = self.detach().min(), self.detach().max()
        else:
            low, high = (self._filled(float(n)) for n in limits or (0.0, 1.0))
            if limits and limits[0] > limits[1]:
                raise ShapeError(f"[histogram] a range ascends, not {tuple(limits)}")
        empty = low.eq(high)
        low, high = empty.where(low.sub(0.5), low), empty.where(high.add(0.5), high)
        at = self._range(bins + 1)
        step = high.sub(low).div(bins)
        upwards = step.mul(at).add(low)
        return at.mul(2).lt(bins + 1).where(upwards, high.sub(step.mul(at.neg().add(bins))))
