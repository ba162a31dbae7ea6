"""Statistics and differences along axes: median, quantile, diff, trapezoid, sums without NaN.

x.quantile(0.9, dim=0), x.median(-1), x.diff(), y.trapezoid(x), x.nanmean()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Self, TypeAlias, TypeVar, cast, overload

from ...dtype import dtypes, sum_acc_dtype
from ...errors import DTypeError, ShapeError
from ...ir.shape import size_max
from ...kinds import NUMBERS
from ..basis import Basis
from ..operands import Operand, is_scalar
from ..shapes import resolve_axis
from ..types import Axes, DTypeLike

__all__ = ["Summaries"]

T = TypeVar("T", bound=Basis)
Shares: TypeAlias = Annotated["float | Sequence[float] | Basis", NUMBERS]


class Summaries(Basis):
    """Summaries on top of sorting and scans."""

    __slots__ = ()

    # -- without NaN --------------------------------------------------------------------------

    def nansum(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The sum over `axis`, one, several or all (None), of what is not NaN, in the dtypes of
        `sum`.

        Integers give at least int32 or uint32. The axes vanish, or stay with size 1 for `keepdim`.
        Raises IndexOutOfRange.
        """
        return self.isnan().where(0, self).sum(axis, keepdim)

    def nanmean(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The mean over `axis`, one, several or all (None), of what is not NaN; NaN if nothing is
        left.

        Integers give floats. The axes vanish, or stay with size 1 for `keepdim`. Raises
        IndexOutOfRange.
        """
        x = self._float()
        wide = x.cast(sum_acc_dtype(x.dtype))
        count = wide.isnan().logical_not().sum(axis, keepdim)
        return wide.nansum(axis, keepdim).div(count).cast(x.dtype)

    def amax(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The largest element over `axis`, one, several or all (None): `max`, under PyTorch's name.

        In its dtype; NaN if there is one. The axes vanish, or stay with size 1 for `keepdim`.
        Raises ShapeError on no elements, IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self.max(axis, keepdim)

    def amin(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The smallest element over `axis`, one, several or all (None): `min`, under PyTorch's
        name.

        In its dtype; NaN if there is one. The axes vanish, or stay with size 1 for `keepdim`.
        Raises ShapeError on no elements, IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self.min(axis, keepdim)

    def aminmax(self, axis: Axes = None, keepdim: bool = False) -> tuple[Self, Self]:
        """The least and the largest element over `axis`, in its dtype, each as `amin` and `amax`
        give it.

        Raises ShapeError on no elements, IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self.min(axis, keepdim), self.max(axis, keepdim)

    def allclose(
        self, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> bool:
        """Whether all elements are close to those of `other` (see `isclose`): a Python bool,
        computed now.

        Shapes broadcast. Raises ShapeError, DTypeError for bools, ArgumentError for tolerances
        below 0.
        """
        return bool(self.isclose(other, rtol, atol, equal_nan).all().item())

    # -- order --------------------------------------------------------------------------------

    @overload
    def median(self, dim: None = ..., keepdim: bool = ...) -> Self: ...
    @overload
    def median(self, dim: int, keepdim: bool = ...) -> tuple[Self, Self]: ...
    def median(self, dim: int | None = None, keepdim: bool = False) -> Self | tuple[Self, Self]:
        """The middle element, the lower of two: a scalar; with `dim`, for each line, and its int32
        place.

        In this dtype; NaN if there is one. The axis vanishes, or stays with size 1 for `keepdim`.
        Raises ShapeError on no elements, IndexOutOfRange, and DTypeError for complex numbers.
        """
        if dim is None:
            return self.flatten().median(0)[0]
        axis = resolve_axis("median", dim, self.ndim)
        size = self.shape[axis] if self.ndim else 1
        value, place = self.kthvalue((size + 1) // 2, axis, True)
        if self.dtype.is_float and self.ndim:
            broken = self.isnan()
            any_broken = broken.any(axis, True)
            place = any_broken.where(broken.cast(place.dtype).argmax(axis, True), place)
            value = self._gather(axis, place)
        return _kept(value, axis, keepdim), _kept(place, axis, keepdim)

    @overload
    def nanmedian(self, dim: None = ..., keepdim: bool = ...) -> Self: ...
    @overload
    def nanmedian(self, dim: int, keepdim: bool = ...) -> tuple[Self, Self]: ...
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Self | tuple[Self, Self]:
        """`median` of what is not NaN, in this dtype, with `dim` also int32 places; NaN where
        nothing is left.

        The axis vanishes, or stays with size 1 for `keepdim`. Raises ShapeError on no elements,
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        if not self.dtype.is_float:
            return self.median(dim, keepdim)
        if dim is None:
            return self.flatten().nanmedian(0)[0]
        axis = resolve_axis("nanmedian", dim, self.ndim)
        if not self.ndim:
            return self.median(dim, keepdim)
        if not self.shape[axis]:
            raise ShapeError(f"[nanmedian] shape {self.shape} has no elements on axis {dim}")
        values, places = self.sort(axis)
        count = self.isnan().logical_not().sum(axis, keepdim=True)
        middle = count.sub(1).maximum(0).floor_divide(2)
        found = values._gather(axis, middle), places._gather(axis, middle)
        return found if keepdim else (found[0].squeeze(axis), found[1].squeeze(axis))

    def mode(self, dim: int = -1, keepdim: bool = False) -> tuple[Self, Self]:
        """The most frequent element along an axis, the smallest of several, and its last place,
        int32.

        In this dtype; the axis vanishes, or stays with size 1 for `keepdim`. Each NaN is an element
        of its own. Raises ShapeError on no elements, IndexOutOfRange, and DTypeError for complex
        numbers.
        """
        axis = resolve_axis("mode", dim, self.ndim)
        if not self.ndim:
            return self._again(), self._filled(0).int()
        size = self.shape[axis]
        if not size:
            raise ShapeError(f"[mode] shape {self.shape} has no elements on axis {dim}")
        values, places = self.sort(axis)
        at = values._places(axis)
        before = values._slice(axis, 0, 1).cat(values._slice(axis, 0, size - 1), dim=axis)
        begins = values.ne(before).where(at, 0).cummax(axis)[0]
        longest = at.sub(begins).argmax(axis, keepdim=True)
        found = values._gather(axis, longest), places._gather(axis, longest)
        return found if keepdim else (found[0].squeeze(axis), found[1].squeeze(axis))

    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Self, Self]:
        """The k-th smallest element along an axis, counted from 1, in its dtype, and its place,
        int32.

        The axis vanishes, or stays with size 1 for `keepdim`. Raises ShapeError if there is none,
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        axis = resolve_axis("kthvalue", dim, self.ndim)
        size = self.shape[axis] if self.ndim else 1
        if not 1 <= k <= size:
            raise ShapeError(f"[kthvalue] axis {dim} of shape {self.shape} has no {k}-th element")
        if not self.ndim:
            return self._again(), self._filled(0).int()
        values, places = self.sort(axis)
        found = values._slice(axis, k - 1, k), places._slice(axis, k - 1, k)
        return _kept(found[0], axis, keepdim), _kept(found[1], axis, keepdim)

    def msort(self) -> Self:
        """The elements in ascending order along the first axis, in this shape and dtype.

        Raises DTypeError for complex numbers.
        """
        return self.sort(0)[0]

    def quantile(
        self,
        q: Shares,
        dim: int | None = None,
        keepdim: bool = False,
        interpolation: str = "linear",
    ) -> Self:
        """The value below which a share `q` of each line lies, as floats; a vector `q` adds a first
        axis.

        The axis `dim` vanishes, or stays with size 1 for `keepdim`; None takes all elements.
        `interpolation` between two elements: "linear", "lower", "higher", "midpoint", "nearest".
        NaN if there is one. Raises ShapeError, IndexOutOfRange, and DTypeError for what are no
        floats.
        """
        return self._quantiles("quantile", q, dim, keepdim, interpolation)

    def nanquantile(
        self,
        q: Shares,
        dim: int | None = None,
        keepdim: bool = False,
        interpolation: str = "linear",
    ) -> Self:
        """`quantile` of floats that are not NaN, in its shapes; NaN where nothing is left.

        Raises ShapeError, IndexOutOfRange, and DTypeError for what are no floats.
        """
        return self._quantiles("nanquantile", q, dim, keepdim, interpolation)

    def _quantiles(
        self, name: str, q: Shares, dim: int | None, keepdim: bool, between: str
    ) -> Self:
        if not self.dtype.is_float:
            raise DTypeError(f"[{name}] needs floats, not {self.dtype.name}")
        if between not in _BETWEEN:
            raise ShapeError(
                f"[{name}] interpolation {between!r} is not one of {', '.join(_BETWEEN)}"
            )
        if dim is None:
            found = self.flatten()._quantiles(name, q, 0, False, between)
            lead = found.shape
            return found.reshape((*lead, *(1,) * self.ndim)) if keepdim else found
        axis = resolve_axis(name, dim, self.ndim)
        moved = self.movedim(axis, -1) if self.ndim else self.reshape((1,))
        if not moved.shape[-1]:
            raise ShapeError(f"[{name}] shape {self.shape} has no elements on axis {dim}")
        # A type that holds each place of the axis.
        wide = dtypes.float64 if size_max(moved.shape[-1]) > 1 << 24 else dtypes.float32
        if self.dtype.itemsize < wide.itemsize:
            return self.cast(wide)._quantiles(name, q, dim, keepdim, between).cast(self.dtype)
        shares = self._shares(q)
        if shares.ndim > 1:
            raise ShapeError(f"[{name}] q is a number or a vector, not shape {shares.shape}")
        wanted = shares.cast(self.dtype).reshape((-1,))
        found = moved._at_shares(wanted, _BETWEEN[between], name == "nanquantile").movedim(-1, 0)
        if keepdim and self.ndim:
            found = found.unsqueeze(axis + 1)
        return found if shares.ndim else found.squeeze(0)

    def _shares(self, q: Shares) -> Self:
        if is_scalar(q):
            return self._filled(q)
        if isinstance(q, (list, tuple)):
            return type(self)(q, device=self.device, dtype=self.dtype)
        return cast("Self", q)

    def _at_shares(self, shares: Self, between: Callable[[Self], Self], without_nan: bool) -> Self:
        """The values below which shares of the last axis lie, on that axis."""
        line, broken, last = self.sort(-1)[0], self.isnan(), self.ndim - 1
        if without_nan:  # each line has as many elements as are left
            count = broken.logical_not().sum(-1, True)
            place = shares.mul(count.sub(1).maximum(0))
        else:
            place = shares.mul(self.shape[-1] - 1)
        low, high = place.floor(), place.ceil()
        weight = between(place.sub(low))
        first, second = (
            line._gather(last, at.int()) if without_nan else line._pick(last, at.int())
            for at in (low, high)
        )
        far, apart = weight.ge(0.5), second.sub(first)  # from the nearer one: it may be infinite
        mixed = far.where(second.sub(apart.mul(1 - weight)), first.add(apart.mul(weight)))
        found = weight.eq(0).where(first, mixed)
        return found if without_nan else broken.any(-1, True).where(float("nan"), found)

    # -- differences and areas ----------------------------------------------------------------

    def diff(
        self, n: int = 1, dim: int = -1, prepend: Self | None = None, append: Self | None = None
    ) -> Self:
        """Each element less the one before it on an axis, `n` times over; of bools, whether they
        differ.

        The axis is shorter by `n`, the dtype stays. `prepend` and `append` are joined on first,
        unless `n` is 0. Raises ShapeError, IndexOutOfRange.
        """
        if n < 0 or not self.ndim:
            raise ShapeError(f"[diff] needs an axis and n of at least 0, not {self.shape} and {n}")
        axis = resolve_axis("diff", dim, self.ndim)
        if not n:
            return self._again()
        parts = [part for part in (prepend, self, append) if part is not None]
        line = parts[0].cat(*parts[1:], dim=axis)
        for _ in range(min(n, line.shape[axis])):
            size = line.shape[axis]
            later, before = line._slice(axis, 1, size), line._slice(axis, 0, size - 1)
            line = later.bitwise_xor(before) if line.dtype.is_bool else later.sub(before)
        return line

    def trapezoid(self, x: Self | None = None, dx: float = 1.0, dim: int = -1) -> Self:
        """The area under these values along an axis, which vanishes; integers give floats.

        By the trapezoidal rule, `dx` or the places `x` apart. Raises ShapeError, IndexOutOfRange.
        """
        return self._trapezoids("trapezoid", x, dx, dim).sum(dim)

    def cumulative_trapezoid(self, x: Self | None = None, dx: float = 1.0, dim: int = -1) -> Self:
        """The areas that `trapezoid` adds up along an axis, added up so far; one element less;
        integers give floats.

        Raises ShapeError, IndexOutOfRange.
        """
        return self._trapezoids("cumulative_trapezoid", x, dx, dim).cumsum(dim)

    def _trapezoids(self, name: str, x: Self | None, dx: float, dim: int) -> Self:
        if not self.ndim:
            raise ShapeError(f"[{name}] needs an axis, shape () has none")
        axis = resolve_axis(name, dim, self.ndim)
        size = self.shape[axis]
        last = max(size - 1, 0)
        height = self._slice(axis, 1, max(size, 1)).add(self._slice(axis, 0, last))
        if x is None:
            return height.mul(dx / 2)
        if x.ndim == 1:
            x = x.reshape([x.shape[0] if i == axis else 1 for i in range(self.ndim)])
        return height.mul(x.diff(dim=axis - self.ndim)).mul(0.5)

    def cumulative_sum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
    ) -> Self:
        """`cumsum` by the Array API standard, in this shape; integers as int32, uint32 at least.

        A vector needs no axis; `include_initial` puts a 0 in front; `dtype` is that of the sums.
        Raises ShapeError, IndexOutOfRange.
        """
        return self._cumulative("cumulative_sum", axis, dtype, include_initial)

    def cumulative_prod(
        self, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
    ) -> Self:
        """`cumprod` by the Array API standard, in this shape, or as `dtype`.

        Integers give at least int32 or uint32, bools int32. A vector needs no axis;
        `include_initial` puts a 1 in front. Raises ShapeError, IndexOutOfRange.
        """
        return self._cumulative("cumulative_prod", axis, dtype, include_initial)

    def _cumulative(
        self, name: str, axis: int | None, dtype: DTypeLike | None, initial: bool
    ) -> Self:
        if axis is None and self.ndim != 1:
            raise ShapeError(f"[{name}] shape {self.shape} needs an axis")
        at = resolve_axis(name, 0 if axis is None else axis, self.ndim)
        x = self if dtype is None else self.cast(dtype)
        total = x.cumsum(at) if name == "cumulative_sum" else x.cumprod(at)
        if dtype is not None:
            total = total.cast(dtype)
        if not initial:
            return total
        start = total._filled(0 if name == "cumulative_sum" else 1)
        shape = tuple(1 if i == at else n for i, n in enumerate(total.shape))
        return start.expand(shape).cat(total, dim=at)


def _kept(x: T, axis: int, keepdim: bool) -> T:
    return x if keepdim or not x.ndim else x.squeeze(axis)


# how far from the lower to the higher neighbour, from the exact share
_BETWEEN = {
    "linear": lambda share: share,
    "lower": lambda share: share.mul(0),
    "higher": lambda share: share.ceil(),
    "midpoint": lambda share: share.gt(0).where(share.mul(0).add(0.5), share),
    "nearest": lambda share: share.round(),
}
