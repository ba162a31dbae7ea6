"""What is where and how often: nonzero, unique, searchsorted, bincount, histc, isin.

    Tensor([0, 3, 0, 5]).nonzero()                 -> [[1], [3]]
    Tensor([3, 1, 3]).unique()                     -> [1, 3]
    Tensor([1, 4, 9]).searchsorted(Tensor([4]))    -> [1]

Places and counts are int32. Where values decide the shape (`nonzero`, `unique`, `bincount`),
calling the method computes as much as that takes: the size, one number.
"""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, Self, TypeVar, overload

from ...dtype import dtypes, promoted
from ...errors import DTypeError, ShapeError
from ..basis import Basis
from ..naming import same_as
from ..operands import Operand, check_device, is_scalar
from ..searching import bin_sums, searchsorted
from ..shapes import resolve_axis
from ..types import Axes

__all__ = ["Counting", "UniqueAll", "UniqueCounts", "UniqueInverse"]


_FEW = 32  # so many are compared with every element; more are sorted and searched

T = TypeVar("T")  # of tensors


class UniqueAll(NamedTuple, Generic[T]):
    """What `unique_all` finds; `indices` are those of the first occurrences."""

    values: T
    indices: T
    inverse_indices: T
    counts: T


class UniqueCounts(NamedTuple, Generic[T]):
    """What `unique_counts` finds."""

    values: T
    counts: T


class UniqueInverse(NamedTuple, Generic[T]):
    """What `unique_inverse` finds."""

    values: T
    inverse_indices: T


class Counting(Basis):
    """Places and counts on top of sorting and scans."""

    __slots__ = ()

    # -- places -------------------------------------------------------------------------------

    @overload
    def nonzero(self, as_tuple: Literal[False] = ...) -> Self: ...
    @overload
    def nonzero(self, as_tuple: Literal[True]) -> tuple[Self, ...]: ...
    def nonzero(self, as_tuple: bool = False) -> Self | tuple[Self, ...]:
        """Where elements are not 0, in row-major order: int32 (count, axes), computed now.

        `as_tuple`: a vector (count,) for each axis instead, which index this tensor.
        """
        mask = self.reshape((1,)) if as_tuple and not self.ndim else self
        flat = mask.bool().flatten()._true_places()
        columns, stride = [], 1
        for size in reversed(mask.shape):
            columns.append(flat.floor_divide(stride).mod(size))
            stride *= size
        columns.reverse()
        if as_tuple:
            return tuple(columns)
        return (
            columns[0].stack(*columns[1:], dim=1)
            if columns
            else flat.reshape((-1, 1))._slice(1, 0, 0)
        )

    @same_as(nonzero)
    def argwhere(self, as_tuple: bool = False) -> Self | tuple[Self, ...]: ...

    def _true_places(self) -> Self:
        """The places of a bool vector that are true, in order; their number is computed now."""
        size = self.shape[0]
        if not size:
            return self.int()
        before = self.int().cumsum(0)
        count = int(before._slice(0, size - 1, size).item())
        target = self.where(before.sub(1), -1)  # what is not true is dropped
        empty = before._filled(0).expand((count,))
        if not count:
            return empty
        return empty._put(0, target, self._places(0))

    def count_nonzero(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """How many elements are not 0, as int32.

        `axis`: one, several, or None for all; they vanish, or stay with size 1 for `keepdim`.
        Raises IndexOutOfRange.
        """
        return self.ne(0).sum(axis, keepdim)

    # -- sorted lines -------------------------------------------------------------------------

    def searchsorted(
        self,
        values: Operand,
        right: bool = False,
        side: str | None = None,
        sorter: Self | None = None,
    ) -> Self:
        """Where `values` would be inserted into this ascending tensor, as int32 in their shape.

        This tensor is one line, or one line for each line of `values`. `right` (or `side` "right"):
        behind equal elements, not before. `sorter`: the places that sort this tensor. NaN counts as
        larger than any number. Raises ShapeError, DTypeError.
        """
        if side not in (None, "left", "right"):
            raise DTypeError(f'[searchsorted] side is "left" or "right", not {side!r}')
        behind = right if side is None else side == "right"
        line = self if sorter is None else self.gather(-1, sorter)
        values = self._operand("searchsorted", values)
        found = self._filled(values).reshape((1,)) if is_scalar(values) else values
        places = searchsorted(line, found, behind)
        return places.reshape(()) if is_scalar(values) else places

    def bucketize(self, boundaries: Self, right: bool = False) -> Self:
        """The number of the interval between ascending `boundaries` (n,) that each element is in,
        as int32.

        0 is below the first; an element on a boundary is in the interval before it, or with `right`
        behind it. Raises ShapeError, and DTypeError for complex numbers.
        """
        return boundaries.searchsorted(self, right)

    def isin(self, test_elements: Operand, invert: bool = False) -> Self:
        """Where an element is one of `test_elements` (a tensor or a number): bool, this shape.

        `invert`: where it is none of them. NaN is none. Dtypes promote.
        """
        tests = self._as_tensor("isin", test_elements).flatten()
        check_device("isin", self, tests)
        dtype = promoted(self.dtype, tests.dtype)
        x, tests = self.cast(dtype), tests.cast(dtype)
        count = tests.shape[0]
        if count <= _FEW:
            found = x.unsqueeze(-1).eq(tests).any(-1)
        else:
            line = tests.sort()[0].contiguous()
            found = line._pick(0, searchsorted(line, x, False).minimum(count - 1)).eq(x)
        return found.logical_not() if invert else found

    # -- counts -------------------------------------------------------------------------------

    def bincount(self, weights: Self | None = None, minlength: int = 0) -> Self:
        """How often 0, 1, ... are in a vector of integers, as int32, or the sum of their `weights`.

        At least `minlength` numbers; the largest value is computed now. Raises DTypeError,
        ShapeError.
        """
        if not self.dtype.is_int:
            raise DTypeError(f"[bincount] counts integers, not {self.dtype.name}")
        if self.ndim != 1 or (weights is not None and weights.shape != self.shape):
            given = "" if weights is None else f" and weights of {weights.shape}"
            raise ShapeError(f"[bincount] takes a vector, not shape {self.shape}{given}")
        if minlength < 0:
            raise ShapeError(f"[bincount] minlength must not be negative: {minlength}")
        low, high = (int(n.item()) for n in (self.min(), self.max())) if len(self) else (0, -1)
        if low < 0:
            raise ShapeError(f"[bincount] {low} is negative and has no bin")
        ones = self._filled(1).cast(dtypes.int32).expand(self.shape)
        return bin_sums(self, max(high + 1, minlength), ones if weights is None else weights)

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Self:
        """How many elements are in each of `bins` equal intervals: (bins,), in this tensor's dtype.

        `min` and `max` both 0 take the least and largest element. Elements outside are not counted;
        `max` itself belongs to the last interval. Raises ShapeError, and DTypeError for bools and
        complex numbers.
        """
        if bins < 1 or max < min:
            raise ShapeError(f"[histc] {bins} bins from {min} to {max} are none")
        if self.dtype.is_bool or self.dtype.is_complex:
            raise DTypeError(f"[histc] counts numbers in their dtype, not {self.dtype.name}")
        flat = self.flatten()
        x = flat._wide()
        low, high = x._filled(float(min)), x._filled(float(max))
        if min == max == 0 and self.numel():
            low, high = x.detach().min(), x.detach().max()
        flat_range = low.eq(high)
        low, high = flat_range.where(low.sub(1), low), flat_range.where(high.add(1), high)
        place = x.sub(low).mul(bins).div(high.sub(low)).int().minimum(bins - 1)
        inside = x.ge(low).bitwise_and(x.le(high))
        return bin_sums(inside.where(place, -1), bins, flat._filled(1).expand(flat.shape))

    # -- distinct values ----------------------------------------------------------------------

    @overload
    def unique(
        self, sorted: bool = ..., return_inverse: Literal[False] = ...,
        return_counts: Literal[False] = ..., dim: int | None = ...,
    ) -> Self: ...  # fmt: skip
    @overload
    def unique(
        self, sorted: bool = ..., *, return_inverse: Literal[True], return_counts: Literal[True],
        dim: int | None = ...,
    ) -> tuple[Self, Self, Self]: ...  # fmt: skip
    @overload
    def unique(
        self, sorted: bool = ..., *, return_inverse: Literal[True], return_counts: bool = ...,
        dim: int | None = ...,
    ) -> tuple[Self, Self]: ...  # fmt: skip
    @overload
    def unique(
        self, sorted: bool = ..., *, return_inverse: bool = ..., return_counts: Literal[True],
        dim: int | None = ...,
    ) -> tuple[Self, Self]: ...  # fmt: skip
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Self | tuple[Self, ...]:
        """The distinct elements, (count,) in ascending order, whatever `sorted` says; computed now.

        `dim`: the distinct slices of that axis, by their first elements, then by their second, and
        so on. With `return_inverse` also where each element (or slice) went, with `return_counts`
        also how many there are of each, both int32. NaNs are all distinct. The dtype stays. Raises
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        if dim is None:
            found = self.unique_all()
        else:
            axis = resolve_axis("unique", dim, self.ndim)
            found = self._slice_ranks(axis).unique_all()
            found = found._replace(values=self._pick(axis, found.indices))
        results = [found.values]
        results += [found.inverse_indices] if return_inverse else []
        results += [found.counts] if return_counts else []
        return results[0] if len(results) == 1 else tuple(results)

    def _slice_ranks(self, axis: int) -> Self:
        """A vector of integers that order the slices of an axis as their elements do.

        Neighbouring columns become one by ranking the pairs, until one is left.
        """
        size = self.shape[axis]
        if not self.numel():
            return self._filled(0).cast(dtypes.int32).expand((size,))._again()
        columns = self.movedim(axis, -1).reshape((-1, size))._line_ranks()
        while columns.shape[0] > 1:
            pairs, odd = divmod(columns.shape[0], 2)
            both = columns._slice(0, 0, 2 * pairs).reshape((pairs, 2, size)).cast(dtypes.int64)
            high, low = (both._slice(1, at, at + 1).squeeze(1) for at in (0, 1))
            merged = high.mul(size).add(low)._line_ranks()
            rest = columns._slice(0, 2 * pairs, 2 * pairs + odd)
            columns = merged.cat(rest) if odd else merged
        return columns.reshape((size,))

    def _line_ranks(self) -> Self:
        """For each element of each line, how many distinct ones of its line are before it."""
        line, order = self.sort(1)
        line, order = line.contiguous(), order.contiguous()
        size = self.shape[1]
        steps = line._slice(1, 1, size).ne(line._slice(1, 0, size - 1)).int().pad(((0, 0), (1, 0)))
        return order._scatter_at(1, order, steps.cumsum(1)).contiguous()

    def unique_all(self) -> UniqueAll[Self]:
        """The distinct elements (count,), ascending, their first places (in the flat tensor), where
        each element went (this shape), and how often there is each.

        The elements keep their dtype, the others are int32. NaNs are all distinct. Raises
        DTypeError for complex numbers.
        """
        flat = self.flatten()
        size = flat.shape[0]
        places = flat._filled(0).cast(dtypes.int32).expand((size,))
        if not size:
            return UniqueAll(flat, places, places.reshape(self.shape), places)
        line, order = flat.sort()
        line, order = line.contiguous(), order.contiguous()
        starts, number, counts = line.reshape((size, 1))._runs()
        inverse = places._put(0, order, number)
        values, indices = line._pick(0, starts), order._pick(0, starts)
        return UniqueAll(values, indices, inverse.reshape(self.shape), counts)

    def _runs(self) -> tuple[Self, Self, Self]:
        """Runs of equal rows: where each begins, of which each row is one, and their lengths.

        How many there are is computed now.
        """
        size = self.shape[0]
        first = self._filled(1).bool().expand((min(size, 1),))
        if size > 1:
            steps = self._slice(0, 1, size).ne(self._slice(0, 0, size - 1))
            first = first.cat(steps.any(1))
        starts = first._true_places().contiguous().realize()
        end = starts._filled(size).expand((min(size, 1),))
        ends = starts._slice(0, min(size, 1), starts.shape[0]).cat(end)
        return starts, first.int().cumsum(0).sub(1), ends.sub(starts)

    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False] = ..., return_counts: Literal[False] = ...,
        dim: int | None = ...,
    ) -> Self: ...  # fmt: skip
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = ...
    ) -> tuple[Self, Self, Self]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[True], return_counts: bool = ..., dim: int | None = ...
    ) -> tuple[Self, Self]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: bool = ..., *, return_counts: Literal[True], dim: int | None = ...
    ) -> tuple[Self, Self]: ...
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Self | tuple[Self, ...]:
        """The elements of the flat tensor (slices of an axis `dim`) that differ from the one
        before; computed now.

        With `return_inverse` also of which run each element (or slice) is, with `return_counts`
        also how long each run is, both int32. The dtype stays. Raises IndexOutOfRange.
        """
        axis = 0 if dim is None else resolve_axis("unique_consecutive", dim, self.ndim)
        line = self.flatten() if dim is None else self
        size = line.shape[axis]
        rows = line.movedim(axis, 0).reshape((size, line.numel() // size if size else 1))
        starts, number, counts = rows._runs()
        results = [line._pick(axis, starts)]
        results += [number.reshape(self.shape) if dim is None else number] * return_inverse
        results += [counts] * return_counts
        return results[0] if len(results) == 1 else tuple(results)

    def unique_counts(self) -> UniqueCounts[Self]:
        """The distinct elements (count,), ascending, and how often there is each, int32.

        Raises DTypeError for complex numbers.
        """
        found = self.unique_all()
        return UniqueCounts(found.values, found.counts)

    def unique_inverse(self) -> UniqueInverse[Self]:
        """The distinct elements (count,), ascending, and where each element went, int32 in this
        shape.

        Raises DTypeError for complex numbers.
        """
        found = self.unique_all()
        return UniqueInverse(found.values, found.inverse_indices)

    def unique_values(self) -> Self:
        """The distinct elements of all axes, (count,), ascending, in their dtype; computed now.

        Raises DTypeError for complex numbers.
        """
        return self.unique_all().values
