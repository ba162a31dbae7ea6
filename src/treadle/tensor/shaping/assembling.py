"""Several tensors as one and one as several, under the names of NumPy and PyTorch.

    Tensor.hstack(a, b), Tensor.vstack(a, b), Tensor.block_diag(a, b)
    x.tensor_split(3), x.hsplit([2, 5])
    Tensor.cartesian_prod(a, b), x.combinations(2), x.diag_embed()

Like `cat`, a function of several tensors takes them one by one or as a list.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Self, TypeAlias, TypeVar

from ... import kinds
from ...dtype import dtypes
from ...errors import DTypeError, ShapeError
from ..basis import Basis
from ..basis.joining import each_of
from ..naming import same_as
from ..searching import searchsorted
from ..shapes import broadcast_shapes, flatten_args, resolve_axis
from ..types import DeviceLike, DTypeLike, Sizes

__all__ = ["Assembling"]

T = TypeVar("T", bound=Basis)


# So many pieces, or the places between them.
Places: TypeAlias = Annotated["int | Sequence[int] | Basis", kinds.SIZES]


class Assembling(Basis):
    """Joining, splitting and listing on top of cat, slices and gathers."""

    __slots__ = ()

    # -- axes ---------------------------------------------------------------------------------

    def atleast_1d(self) -> Self:
        """A scalar as (1,); anything else as it is, in its dtype."""
        return _atleast_1d(self)

    def atleast_2d(self) -> Self:
        """A scalar as (1, 1), a vector as a row (1, n); anything else as it is, in its dtype."""
        return _atleast_2d(self)

    def atleast_3d(self) -> Self:
        """A scalar as (1, 1, 1), a vector as (1, n, 1), a matrix as (m, n, 1), in its dtype."""
        return _atleast_3d(self)

    def broadcast_tensors(self: T | Sequence[T], *args: T | Sequence[T]) -> tuple[T, ...]:
        """All tensors expanded to the shape that they broadcast to, each in its dtype.

        Raises ShapeError, DTypeError for what is no tensor, ArgumentError for an empty list.
        """
        tensors = each_of("broadcast_tensors", self, args)
        shape = broadcast_shapes("broadcast_tensors", *(t.shape for t in tensors))
        return tuple(t.expand(shape) for t in tensors)

    # -- joining ------------------------------------------------------------------------------

    def hstack(self: T | Sequence[T], *args: T | Sequence[T]) -> T:
        """Vectors and scalars end to end, others side by side (axis 1); dtypes promote.

        Raises as `cat`.
        """
        first, *rest = _tensors("hstack", self, args, _atleast_1d)
        return first.cat(*rest, dim=0 if first.ndim == 1 else 1)

    def vstack(self: T | Sequence[T], *args: T | Sequence[T]) -> T:
        """Tensors below each other (axis 0), vectors as rows; dtypes promote. Raises as `cat`."""
        first, *rest = _tensors("vstack", self, args, _atleast_2d)
        return first.cat(*rest, dim=0)

    def dstack(self: T | Sequence[T], *args: T | Sequence[T]) -> T:
        """Tensors behind each other (axis 2), after `atleast_3d`; dtypes promote.

        Raises as `cat`.
        """
        first, *rest = _tensors("dstack", self, args, _atleast_3d)
        return first.cat(*rest, dim=2)

    def column_stack(self: T | Sequence[T], *args: T | Sequence[T]) -> T:
        """Tensors side by side (axis 1), vectors and scalars as columns; dtypes promote.

        Raises as `cat`.
        """
        first, *rest = _tensors("column_stack", self, args, _as_column)
        return first.cat(*rest, dim=1)

    def block_diag(self: T | Sequence[T], *args: T | Sequence[T]) -> T:
        """Matrices along the diagonal of one, zeros elsewhere; vectors are rows; dtypes promote.

        Raises ShapeError for more than two axes.
        """
        blocks = _tensors("block_diag", self, args, _atleast_2d)
        wrong = next((block.shape for block in blocks if block.ndim > 2), None)
        if wrong is not None:
            raise ShapeError(f"[block_diag] takes up to two axes, not shape {wrong}")
        width, begin, rows = sum(block.shape[1] for block in blocks), 0, []
        for block in blocks:
            end = begin + block.shape[1]
            rows.append(block._padded([(0, 0), (begin, width - end)]))
            begin = end
        return rows[0].cat(*rows[1:], dim=0)

    @same_as(Basis.cat)
    def concat(self: T | Sequence[T], *args: T | Sequence[T] | int, dim: int = 0) -> T: ...
    @same_as(Basis.cat)
    def concatenate(self: T | Sequence[T], *args: T | Sequence[T] | int, dim: int = 0) -> T: ...

    # -- splitting ----------------------------------------------------------------------------

    def tensor_split(self, indices_or_sections: Places, dim: int = 0) -> tuple[Self, ...]:
        """So many pieces of an axis, the first ones longer by one, or pieces between the given
        places.

        The dtype stays. Places beyond the axis give empty pieces, negative ones count from the end.
        A tensor of them is computed now. Raises ShapeError, IndexOutOfRange.
        """
        axis = resolve_axis("tensor_split", dim, self.ndim)
        if not self.ndim:
            raise ShapeError("[tensor_split] a tensor of shape () has no axis to split")
        size, places = self.shape[axis], indices_or_sections
        if isinstance(places, Basis):
            if not places.dtype.is_int or places.ndim > 1:
                raise ShapeError(
                    f"[tensor_split] places are integers, one or a vector, not "
                    f"{places.dtype.name} of shape {places.shape}"
                )
            places = places.tolist()
        if isinstance(places, int):
            if places < 1:
                raise ShapeError(f"[tensor_split] needs at least 1 piece, not {places}")
            short, longer = divmod(size, places)
            places = [i * short + min(i, longer) for i in range(1, places)]
        if isinstance(places, str) or not all(hasattr(n, "__index__") for n in places):
            raise ShapeError(f"[tensor_split] places are integers, not {places!r}")
        bounds = [0, *(n.__index__() for n in places), size]
        pieces = [slice(a, b).indices(size)[:2] for a, b in itertools.pairwise(bounds)]
        return tuple(self._slice(axis, begin, max(begin, end)) for begin, end in pieces)

    def hsplit(self, indices_or_sections: Places) -> tuple[Self, ...]:
        """`tensor_split` of axis 1, of a vector's only one, in equal pieces, in their dtype.

        Raises ShapeError.
        """
        return self._equal_split("hsplit", indices_or_sections, 0 if self.ndim == 1 else 1, 1)

    def vsplit(self, indices_or_sections: Places) -> tuple[Self, ...]:
        """`tensor_split` of axis 0 of two or more, in equal pieces, in their dtype. Raises
        ShapeError.
        """
        return self._equal_split("vsplit", indices_or_sections, 0, 2)

    def dsplit(self, indices_or_sections: Places) -> tuple[Self, ...]:
        """`tensor_split` of axis 2, in equal pieces, in their dtype. Raises ShapeError."""
        return self._equal_split("dsplit", indices_or_sections, 2, 3)

    def _equal_split(self, name: str, pieces: Places, axis: int, least: int) -> tuple[Self, ...]:
        if self.ndim < least:
            raise ShapeError(f"[{name}] needs {least} axes or more, not shape {self.shape}")
        if isinstance(pieces, int) and (pieces < 1 or self.shape[axis] % pieces):
            raise ShapeError(
                f"[{name}] axis {axis} of shape {self.shape} has no {pieces} equal pieces; "
                "tensor_split allows others"
            )
        return self.tensor_split(pieces, axis)

    # -- repeating ----------------------------------------------------------------------------

    def repeat_interleave(
        self, repeats: int | Self, dim: int | None = None, output_size: int | None = None
    ) -> Self:
        """Each element of an axis `repeats` times in a row; without `dim`, of the flat tensor.

        A vector of `repeats` has a number for each element. Their sum, the new size, is computed
        now, unless it is given as `output_size`. The dtype stays. Raises ShapeError for another
        number of them or a negative one, IndexOutOfRange.
        """
        x = self.flatten() if dim is None else self
        axis = 0 if dim is None else resolve_axis("repeat_interleave", dim, x.ndim)
        if not isinstance(repeats, Basis):
            return x._repeated(repeats, axis)
        size = x.shape[axis]
        if not repeats.dtype.is_int or repeats.shape not in ((), (1,), (size,)):
            raise ShapeError(
                f"[repeat_interleave] {size} elements take as many integers, not "
                f"{repeats.dtype.name} of shape {repeats.shape}"
            )
        counts = repeats.expand((size,)).int()
        total = output_size if size else 0
        if total is None:
            counts = counts.contiguous().realize()
            if counts.min().item() < 0:
                raise ShapeError("[repeat_interleave] repeats must not be negative")
            total = counts.sum().item()
        if not total:
            return x._slice(axis, 0, 0)
        places = counts._filled(0).expand((total,))._places(0)
        return x._pick(axis, searchsorted(counts.cumsum(0), places, True))

    # -- lists of choices ---------------------------------------------------------------------

    def cartesian_prod(self: T | Sequence[T], *args: T | Sequence[T]) -> T:
        """Every choice of one element of each vector, as rows in order: (product, vectors).

        One vector alone is its own list. Dtypes promote. Raises ShapeError for what is no vector,
        DTypeError for what is no tensor, ArgumentError for an empty list.
        """
        vectors = each_of("cartesian_prod", self, args)
        wrong = next((v.shape for v in vectors if v.ndim != 1), None)
        if wrong is not None:
            raise ShapeError(f"[cartesian_prod] takes vectors, not shape {wrong}")
        if len(vectors) == 1:
            return vectors[0]._again()
        first, *rest = (grid.flatten() for grid in vectors[0].meshgrid(*vectors[1:]))
        return first.stack(*rest, dim=1)

    def combinations(self, r: int = 2, with_replacement: bool = False) -> Self:
        """Every choice of `r` elements of a vector, in order, as rows: (choices, r), in its dtype.

        The places are listed on the host. Raises ShapeError.
        """
        if self.ndim != 1 or r < 0:
            raise ShapeError(
                f"[combinations] takes a vector and r of at least 0, not shape {self.shape} and {r}"
            )
        if r == 0:
            return self._slice(0, 0, 0)
        import numpy as np

        n = self.shape[0]
        chosen = itertools.combinations_with_replacement if with_replacement else (
            itertools.combinations
        )  # fmt: skip
        count = math.comb(n + r - 1 if with_replacement and n else n, r)
        listed = itertools.chain.from_iterable(chosen(range(n), r))
        return self[np.fromiter(listed, np.int32, count * r).reshape(count, r)]

    # -- diagonals and places -----------------------------------------------------------------

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Self:
        """The last axis as a diagonal of two new axes `dim1` and `dim2`, 0 elsewhere; the dtype
        stays.

        `offset` counts upwards from the main diagonal, as in `diagonal`. Raises ShapeError,
        IndexOutOfRange.
        """
        if not self.ndim:
            raise ShapeError("[diag_embed] a tensor of shape () has no axis for a diagonal")
        first, second = (resolve_axis("diag_embed", d, self.ndim + 1) for d in (dim1, dim2))
        if first == second:
            raise ShapeError(f"[diag_embed] dim1 {dim1} and dim2 {dim2} are the same axis")
        return self._on_diagonal(offset).movedim((-2, -1), (first, second))

    def diagflat(self, offset: int = 0) -> Self:
        """All n elements, flat, as a diagonal of a square matrix: (n, n) in their dtype; see
        `diag`.

        An `offset` makes it larger by as much.
        """
        return self.flatten().diag(offset)

    @classmethod
    def tril_indices(
        cls,
        row: int,
        col: int,
        offset: int = 0,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> Self:
        """Rows and columns of the lower triangle of (row, col), row by row: (2, count), int32.

        `offset` moves the diagonal upwards. Raises ShapeError.
        """
        return cls._triangle_places("tril_indices", row, col, offset, dtype, device)

    @classmethod
    def triu_indices(
        cls,
        row: int,
        col: int,
        offset: int = 0,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> Self:
        """Rows and columns of the upper triangle of (row, col), row by row: (2, count), int32.

        `offset` moves the diagonal upwards. Raises ShapeError.
        """
        return cls._triangle_places("triu_indices", row, col, offset, dtype, device)

    @classmethod
    def _triangle_places(
        cls, name: str, row: int, col: int, offset: int, dtype: DTypeLike | None, device: DeviceLike
    ) -> Self:
        if row < 0 or col < 0:
            raise ShapeError(f"[{name}] sizes must not be negative: {(row, col)}")
        import numpy as np

        listed = np.tril_indices if name == "tril_indices" else np.triu_indices
        places = np.stack(listed(row, offset, col)).astype(np.int32)
        return cls(places, device=device, dtype=dtypes.int32 if dtype is None else dtype)

    def unravel_index(self, shape: Sizes, *args: Sizes) -> tuple[Self, ...]:
        """Integers, places in a flat tensor, as places on each axis of `shape`, row-major.

        A tuple of one tensor for each axis, in this shape and dtype. Raises DTypeError for what are
        no integers, ShapeError for negative sizes.
        """
        sizes = flatten_args(shape, args)
        if not self.dtype.is_int:
            raise DTypeError(f"[unravel_index] places are integers, not {self.dtype.name}")
        if any(not isinstance(n, int) or n < 0 for n in sizes):
            raise ShapeError(f"[unravel_index] sizes are at least 0, not {sizes}")
        rest, found = self, []
        for size in reversed(sizes):
            found.append(rest.mod(max(size, 1)))
            rest = rest.floor_divide(max(size, 1))
        return tuple(reversed(found))


def _atleast_1d(x: T) -> T:
    return x.reshape(x.shape or (1,))


def _atleast_2d(x: T) -> T:
    return x.reshape(x.shape) if x.ndim > 1 else _atleast_1d(x).unsqueeze(0)


def _atleast_3d(x: T) -> T:
    return x.reshape(x.shape) if x.ndim > 2 else _atleast_2d(x).unsqueeze(-1)


def _as_column(x: T) -> T:
    return x if x.ndim > 1 else x.reshape((x.numel(), 1))


def _tensors(
    name: str, first: T | Sequence[T], rest: Sequence[T | Sequence[T]], shaped: Callable[[T], T]
) -> list[T]:
    """Each tensor as `shaped` makes it. Raises DTypeError for what is none."""
    return [shaped(x) for x in each_of(name, first, rest)]
