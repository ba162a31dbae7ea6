"""The rarer layers of neural networks that have no weights of their own, or take them as arguments.

x.rms_norm(64), x.local_response_norm(5), x.bilinear(y, weight)
index.embedding_bag(weight, offsets)         the sum or mean of rows, bag by bag
"""

from __future__ import annotations

from typing import Self

from ...dtype import finfo, sum_acc_dtype
from ...errors import DTypeError, ShapeError
from ...ir.op import Op
from ..basis import Basis
from ..searching import bin_sums, searchsorted
from ..shapes import flatten_args
from ..types import Sizes

__all__ = ["FurtherLayers"]


class FurtherLayers(Basis):
    """Normalisation, products and bags."""

    __slots__ = ()

    # -- normalisation ------------------------------------------------------------------------

    def rms_norm(
        self, normalized_shape: Sizes, weight: Self | None = None, eps: float | None = None
    ) -> Self:
        """Divided by the root of the mean square over the last axes, of `normalized_shape`.

        Then times `weight`, of that shape. `eps` None is the distance from 1 to the next number of
        the dtype. Shape and dtype stay: floats or complex. Raises ShapeError, DTypeError.
        """
        shape = flatten_args(normalized_shape, ())
        if not shape or self.shape[-len(shape) :] != shape:
            raise ShapeError(f"[rms_norm] shape {self.shape} does not end in {shape}")
        if weight is not None and weight.shape != shape:
            raise ShapeError(f"[rms_norm] weight has shape {weight.shape}, expected {shape}")
        x, least = self._wide(), finfo(self.dtype).eps if eps is None else eps
        mean = x.square().mean(tuple(range(-len(shape), 0)), keepdim=True)
        result = x.mul(mean.add(least).rsqrt()).cast(self.dtype)
        return result if weight is None else result.mul(weight)

    def local_response_norm(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> Self:
        """Divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta.

        Channels are axis 1 of three axes or more; the shape stays, integers give floats. Raises
        ShapeError.
        """
        if self.ndim < 3 or size < 1:
            raise ShapeError(
                f"[local_response_norm] takes (N, C, ...) of three axes or more and a size of at "
                f"least 1, not shape {self.shape} and {size}"
            )
        around = (size // 2, (size - 1) // 2)
        squares = self.square()._padded([around if i == 1 else (0, 0) for i in range(self.ndim)])
        means = squares.unfold(1, size, 1).mean(-1)
        return self.div(means.mul(alpha).add(k).pow(beta))

    # -- products and moves -------------------------------------------------------------------

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
