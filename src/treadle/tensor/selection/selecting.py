"""Reading and writing whole places of an axis: index_select, take, index_add.

    x.index_select(1, Tensor([2, 0]))         -> columns 2 and 0
    x.index_add(0, places, rows)              -> a copy with rows added at their places

Negative places count from the end. Places that are out of range read 0 and are not written.
"""

from __future__ import annotations

from typing import Self

from ...dtype import dtypes
from ...errors import DTypeError, ShapeError
from ...ir.op import Op
from ...ir.shape import size_product
from ..basis import Basis
from ..naming import same_as
from ..operands import Operand, check_device
from ..shapes import broadcast_shapes, resolve_axis
from ..types import Scalar

__all__ = ["Selecting"]


class Selecting(Basis):
    """Lists of places on top of indexing."""

    __slots__ = ()

    def index_select(self, dim: int, index: Self) -> Self:
        """The places `index`, integers (n,) or a scalar, of one axis, which gets size n; the dtype
        stays.

        Raises IndexOutOfRange, and DTypeError for an index that is neither.
        """
        axis = resolve_axis("index_select", dim, self.ndim)
        if not index.dtype.is_int or index.ndim > 1:
            raise DTypeError(
                f"[index_select] the index is a vector of integers, not {index.dtype.name} of "
                f"shape {index.shape}"
            )
        if not self.ndim:
            return self.reshape((1,)).index_select(0, index).reshape(())
        return self[(*(slice(None) for _ in range(axis)), index.reshape((-1,)))]

    def take(self, index: Self, axis: int | None = None) -> Self:
        """Elements of the flat tensor at the integers `index`, in its shape; with `axis`, those of
        an axis.

        The dtype stays. Raises IndexOutOfRange, DTypeError.
        """
        if axis is not None:
            return self.index_select(axis, index)
        return self.flatten()[index] if self.ndim != 1 else self[index]

    def take_along_dim(self, indices: Self, dim: int | None = None) -> Self:
        """`gather` whose index broadcasts; without `dim`, of the flat tensor; this dtype stays.

        Negative places count from the end. Raises ShapeError, IndexOutOfRange, DTypeError.
        """
        if dim is None:
            return self.flatten().take_along_dim(indices.flatten(), 0)
        axis = resolve_axis("take_along_dim", dim, self.ndim)
        if indices.ndim != self.ndim:
            raise ShapeError(
                f"[take_along_dim] the index has shape {indices.shape}, the tensor {self.shape}: "
                "it needs as many axes"
            )
        others = [[1 if i == axis else n for i, n in enumerate(t.shape)] for t in (self, indices)]
        shape = broadcast_shapes("take_along_dim", *map(tuple, others))
        lines, wanted = (
            [
                n if i == axis else size
                for i, (n, size) in enumerate(zip(t.shape, shape, strict=True))
            ]
            for t in (self, indices)
        )
        index = indices._wrapped(indices, axis, self.shape[axis])
        return self.expand(lines).gather(axis, index.expand(wanted))

    @same_as(take_along_dim)
    def take_along_axis(self, indices: Self, dim: int | None = None) -> Self: ...

    def index_add(self, dim: int, index: Self, source: Self, alpha: Scalar = 1) -> Self:
        """A copy with `source` times `alpha` added at the integers `index` (n,) of one axis.

        `source` has this shape but for that axis, of size n; it takes this dtype. Raises
        ShapeError, IndexOutOfRange.
        """
        if not self.ndim:
            line = source.reshape((-1,))
            return self.reshape((1,)).index_add(dim, index, line, alpha).reshape(())
        return self._at_places("index_add", dim, index, source.mul(alpha), Op.ADD)

    def index_copy(self, dim: int, index: Self, source: Self) -> Self:
        """A copy with `source` at the integers `index` (n,) of one axis; the last of equals stays.

        `source` has this shape but for that axis, of size n; it takes this dtype. Raises
        ShapeError, IndexOutOfRange.
        """
        if not self.ndim:
            line = source.reshape((-1,))
            return self.reshape((1,)).index_copy(dim, index, line).reshape(())
        return self._at_places("index_copy", dim, index, source, None)

    def index_fill(self, dim: int, index: Self, value: Operand) -> Self:
        """A copy with `value`, a number, at the integers `index` (n,) of one axis; it takes this
        dtype.

        Raises ShapeError, IndexOutOfRange.
        """
        if not self.ndim:
            return self.reshape((1,)).index_fill(dim, index, value).reshape(())
        axis = resolve_axis("index_fill", dim, self.ndim)
        size, count = self.shape[axis], size_product(index.shape)
        none, all_of_them = (
            type(self).full((n,), hit, dtype=dtypes.bool, device=self.device)
            for n, hit in ((size, False), (count, True))
        )
        is_filled = none._at_places("index_fill", 0, index, all_of_them, None)
        line = [size if i == axis else 1 for i in range(self.ndim)]
        filling = self._as_tensor("index_fill", value).cast(self.dtype)
        return is_filled.reshape(line).where(filling, self)

    def index_reduce(
        self, dim: int, index: Self, source: Self, reduce: str, include_self: bool = True
    ) -> Self:
        """A copy with `source` combined into the integers `index` (n,) of one axis; see
        `scatter_reduce`.

        `source` has this shape but for that axis, of size n; this dtype stays. `reduce` is "prod",
        "mean", "amax" or "amin" ("sum" is `index_add`). Raises ShapeError, IndexOutOfRange,
        DTypeError.
        """
        if not self.ndim:
            line = source.reshape((-1,))
            whole = self.reshape((1,)).index_reduce(dim, index, line, reduce, include_self)
            return whole.reshape(())
        axis, places = self._checked_places("index_reduce", dim, index, source)
        column = places.reshape([-1 if i == axis else 1 for i in range(self.ndim)])
        wide = column.expand(source.shape)
        return self.scatter_reduce(axis, wide, source.cast(self.dtype), reduce, include_self)

    def put(self, index: Self, source: Self, accumulate: bool = False) -> Self:
        """A copy with `source` at the integers `index` of the flat tensor, or added to what is
        there.

        Shape and dtype stay; `source` takes this dtype. Raises ShapeError where the two have not as
        many elements, or the index holds no integers.
        """
        if index.numel() != source.numel():
            raise ShapeError(
                f"[put] one value for each place: {index.shape} are places, {source.shape} values"
            )
        flat, places, values = self.flatten(), index.flatten(), source.flatten()
        if accumulate:
            return flat.index_add(0, places, values).reshape(self.shape)
        return flat.index_copy(0, places, values).reshape(self.shape)

    def masked_scatter(self, mask: Self, source: Self) -> Self:
        """A copy with the first elements of `source` where `mask`, which broadcasts, is true.

        What `source` is too short for is 0. Raises ShapeError, and DTypeError for a mask that is
        not bool or a source of another dtype.
        """
        if not mask.dtype.is_bool or source.dtype is not self.dtype:
            raise DTypeError(
                f"[masked_scatter] takes a bool mask and a source of {self.dtype.name}, not "
                f"{mask.dtype.name} and {source.dtype.name}"
            )
        shape = broadcast_shapes("masked_scatter", self.shape, mask.shape)
        wide = mask.expand(shape)
        number = wide.flatten().int().cumsum(0).sub(1).reshape(shape)
        return wide.where(source.flatten()[wide.where(number, 0)], self)

    def _at_places(self, name: str, dim: int, index: Self, source: Self, op: Op | None) -> Self:
        axis, places = self._checked_places(name, dim, index, source)
        return self._put(axis, places, source.cast(self.dtype), op)

    def _checked_places(self, name: str, dim: int, index: Self, source: Self) -> tuple[int, Self]:
        """The axis, and the places as a vector, the negative ones counted from the end."""
        axis = resolve_axis(name, dim, self.ndim)
        count = size_product(index.shape)
        wanted = tuple(count if i == axis else n for i, n in enumerate(self.shape))
        if index.ndim > 1 or not index.dtype.is_int or source.shape != wanted:
            raise ShapeError(
                f"[{name}] needs a vector of integers and a source of {wanted}, not "
                f"{index.dtype.name} of {index.shape} and {source.shape}"
            )
        check_device(name, self, index, source)
        return axis, index._wrapped(index, axis, self.shape[axis]).reshape((-1,))
