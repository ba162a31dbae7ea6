"""Joining and repeating: cat, stack, split, repeat, roll, diagonals.

Tensor.cat(a, b, dim=1), Tensor.cat([a, b], dim=1), a.stack(b), a.split(2), a.roll(1, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar, cast

from ...dtype import promoted
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ir.shape import Shape, same_size
from ..operands import check_device
from ..shapes import (
    aligned,
    broadcast_shapes,
    differing,
    flatten_args,
    own_axis,
    resolve_axis,
)
from ..types import Axes, Bounds, Extent, Sizes
from .concatenation import joined
from .formulas import Formulas
from .movement import Movement

__all__ = ["Joining", "each_of", "listed"]

T = TypeVar("T", bound="Joining")


class Joining(Movement, Formulas):
    """Several tensors to one and back."""

    __slots__ = ()

    def cat(self: T | Sequence[T], *args: T | Sequence[T] | int, dim: int = 0) -> T:
        """Tensors one after the other on an axis; other axes agree, dtypes promote.

        They are given one by one, or as a list with the axis behind it. An empty vector joins to
        anything, as in PyTorch: loops begin with one. Raises ShapeError where another axis differs,
        IndexOutOfRange, DTypeError for what is no tensor, ArgumentError for an empty list.
        """
        tensors, dim = listed("cat", self, args, dim)
        check_device("cat", *tensors)
        dtype = promoted(*(t.dtype for t in tensors))
        parts = [t for t in tensors if t.shape != (0,)] or tensors[:1]
        axis = own_axis("cat", dim, parts[0].shape)
        _check_joinable(parts, axis)
        nodes = [t.node.cast(dtype) for t in parts if not same_size(t.shape[axis], 0)]
        node = joined(nodes, axis) if nodes else parts[0].node.cast(dtype)
        return tensors[0]._result(node, *tensors[1:])

    def stack(self: T | Sequence[T], *args: T | Sequence[T] | int, dim: int = 0) -> T:
        """Tensors of one shape, side by side on a new axis; dtypes promote.

        They are given one by one, or as a list with the axis behind it. Raises ShapeError,
        IndexOutOfRange, DTypeError for what is no tensor, ArgumentError for an empty list.
        """
        tensors, dim = listed("stack", self, args, dim)
        first = tensors[0]
        for place, other in enumerate(tensors):
            if other.shape != first.shape:
                shapes = [first.shape, other.shape]
                raise ShapeError(
                    f"[stack] tensor {place} has shape {other.shape}, tensor 0 has {first.shape}\n"
                    f"{aligned(shapes, [differing(*shapes)] * 2, right=False)}\n"
                    "all must be the same; use cat to join along an axis that differs"
                )
        wide = [t.unsqueeze(dim) for t in tensors]
        return wide[0].cat(*wide[1:], dim=resolve_axis("stack", dim, first.ndim, extra=1))

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Pieces of a size of an axis (the last may be smaller), or of the sizes given; the dtype
        stays.

        Raises ShapeError, IndexOutOfRange.
        """
        axis = own_axis("split", dim, self.shape)
        total = self.shape[axis]
        if not isinstance(sizes, (int, tuple, list)):
            raise ShapeError(f"[split] takes a size, or a list of sizes, not {sizes!r}")
        if isinstance(sizes, int):
            if sizes < 1:
                raise ShapeError(f"[split] pieces need a size of at least 1, not {sizes}")
            sizes = [min(sizes, total - i) for i in range(0, max(total, 1), sizes)]
        if sum(sizes) != total:
            raise ShapeError(
                f"[split] sizes {tuple(sizes)} add up to {sum(sizes)}, axis {axis} of shape "
                f"{self.shape} has {total}\n{aligned([self.shape], [{axis}])}"
            )
        begins = [sum(sizes[:i]) for i in range(len(sizes))]
        return tuple(self._slice(axis, b, b + size) for b, size in zip(begins, sizes, strict=True))

    def chunk(self, chunks: int, dim: int = 0) -> list[Self]:
        """At most `chunks` pieces of equal size of an axis, the last maybe smaller; the dtype
        stays.

        Raises ShapeError, IndexOutOfRange.
        """
        axis = own_axis("chunk", dim, self.shape)
        if not isinstance(chunks, int) or chunks < 1:
            raise ShapeError(f"[chunk] takes a number of at least 1, not {chunks!r}")
        if self.shape[axis] == 0:
            return [self] * chunks
        return list(self.split(-(-self.shape[axis] // chunks), axis))

    def _slice(self, axis: int, begin: Extent, end: Extent) -> Self:
        bounds: list[Bounds | None] = [None] * self.ndim
        bounds[axis] = (begin, end)
        return self.shrink(bounds)

    def repeat(self, repeats: Sizes, *args: Sizes) -> Self:
        """The whole tensor repeated along each axis; more numbers than axes add axes in front.

        The dtype stays. Raises ShapeError for fewer numbers than axes.
        """
        counts = flatten_args(repeats, args)
        if len(counts) < self.ndim:
            raise ShapeError(
                f"[repeat] {len(counts)} repeats {counts} for the {self.ndim} axes of shape "
                f"{self.shape}: one for each, more add axes in front"
            )
        shape = (1,) * (len(counts) - self.ndim) + self.shape
        split = [n for size in shape for n in (1, size)]
        wide = [n for count, size in zip(counts, shape, strict=True) for n in (count, size)]
        final = [count * size for count, size in zip(counts, shape, strict=True)]
        return self.reshape(split).expand(wide).reshape(final)._again()

    def _repeated(self, count: int, axis: int) -> Self:
        """Each element of an axis `count` times in a row."""
        before, after = self.shape[: axis + 1], self.shape[axis + 1 :]
        wide = self.unsqueeze(axis + 1).expand((*before, count, *after))
        grown = wide.reshape((*self.shape[:axis], self.shape[axis] * count, *after))
        return grown._again()

    def view_as_real(self) -> Self:
        """The parts of complex numbers on a new last axis: (..) to (.., 2), floats.

        float32 of complex64, float64 of complex128. Raises DTypeError for real numbers.
        """
        if not self.dtype.is_complex:
            raise DTypeError(f"[view_as_real] takes complex numbers, not {self.dtype.name}")
        return self.real.stack(self.imag, dim=-1)

    def view_as_complex(self) -> Self:
        """Complex numbers whose parts are on the last axis: (.., 2) floats to (..).

        complex64, or complex128 of float64. Raises ShapeError for another size, DTypeError for
        anything but floats.
        """
        if not self.ndim or not same_size(self.shape[-1], 2):
            raise ShapeError(f"[view_as_complex] the last axis of {self.shape} is not of size 2")
        re, im = (self._slice(self.ndim - 1, i, i + 1).squeeze(-1) for i in range(2))
        return re.complex(im)

    def roll(self, shifts: Sizes, dims: Axes = None) -> Self:
        """Elements moved along axes by `shifts`, those that leave come in at the other end.

        `dims` None: of the flat tensor. Shape and dtype stay. Raises ShapeError where there is not
        one shift for each axis, IndexOutOfRange.
        """
        if dims is None:
            return self.flatten().roll(shifts, 0).reshape(self.shape)._again()
        moves, axes = flatten_args(shifts, ()), flatten_args(dims, ())
        if len(moves) != len(axes):
            raise ShapeError(
                f"[roll] {len(moves)} shifts {moves} for {len(axes)} axes {axes}: one for each"
            )
        result = self
        for shift, dim in zip(moves, axes, strict=True):
            axis = resolve_axis("roll", dim, self.ndim)
            size = result.shape[axis]
            cut = -shift % size if size else 0
            if cut:
                head, tail = result._slice(axis, 0, cut), result._slice(axis, cut, size)
                result = tail.cat(head, dim=axis)
        return self._again() if result is self else result

    def meshgrid(
        self: T | Sequence[T], *args: T | Sequence[T], indexing: str = "ij"
    ) -> tuple[T, ...]:
        """Each vector along an axis of its own, all expanded to one grid, in their dtypes.

        They are given one by one, or as a list. Tensors of more axes count flat. `indexing` "ij"
        keeps the order of the tensors, "xy" exchanges the first two. Raises ShapeError for another
        one, DTypeError for what is no tensor, ArgumentError for an empty list.
        """
        if indexing not in ("ij", "xy"):
            raise ShapeError(f'[meshgrid] indexing is "ij" or "xy", not {indexing!r}')
        tensors = each_of("meshgrid", self, args)
        order = list(range(len(tensors)))
        if indexing == "xy" and len(tensors) > 1:
            order[0], order[1] = 1, 0
        shapes = [[1] * len(tensors) for _ in tensors]
        for t, shape, axis in zip(tensors, shapes, order, strict=True):
            shape[axis] = t.numel()
        full = broadcast_shapes("meshgrid", *map(tuple, shapes))
        return tuple(t.reshape(s).expand(full) for t, s in zip(tensors, shapes, strict=True))

    def diag(self, diagonal: int = 0) -> Self:
        """A vector as a diagonal of a square matrix; of a matrix, that diagonal; the dtype stays.

        `diagonal` counts upwards from the main one. Raises ShapeError.
        """
        if self.ndim == 2:
            return self.diagonal(diagonal)
        if self.ndim != 1:
            raise ShapeError(f"[diag] takes a vector or a matrix, not shape {self.shape}")
        return self._on_diagonal(diagonal)

    def _on_diagonal(self, offset: int) -> Self:
        """The last axis as a diagonal of two, counted upwards from the main one."""
        *batch, n = self.shape
        # element i lands at flat place i * (n + 1)
        around = [(0, 0)] * len(batch)
        spread = self.unsqueeze(-1)._padded([*around, (0, 0), (0, n)])
        flat = spread.reshape((*batch, n * (n + 1)))._slice(len(batch), 0, n * n)
        square = flat.reshape((*batch, n, n))
        above, below = max(offset, 0), max(-offset, 0)
        return square._padded([*around, (below, above), (above, below)])._again()

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """A diagonal of two axes, as a new last axis: x[i, i + offset]; the dtype stays.

        Raises ShapeError, IndexOutOfRange.
        """
        if self.ndim < 2:
            raise ShapeError(f"[diagonal] needs at least two axes, shape {self.shape} has less")
        first, second = (resolve_axis("diagonal", dim, self.ndim) for dim in (dim1, dim2))
        if first == second:
            raise ShapeError(f"[diagonal] dim1 {dim1} and dim2 {dim2} are the same axis")
        others = [axis for axis in range(self.ndim) if axis not in (first, second)]
        moved = self.permute((first, second, *others))
        rows, columns, *rest = moved.shape
        top, left = max(-offset, 0), max(offset, 0)
        n = max(min(rows - top, columns - left), 0)
        begin, edge = (top, left) if n else (0, 0)
        square = moved._slice(0, begin, begin + n)._slice(1, edge, edge + n)
        pairs = [(0, n), *((0, 0) for _ in rest)]
        padded = square.reshape((n * n, *rest))._padded(pairs)
        line = padded.reshape((n, n + 1, *rest))._slice(1, 0, 1).reshape((n, *rest))
        return line.permute((*range(1, line.ndim), 0))


def each_of(name: str, first: T | Sequence[T], rest: Sequence[T | Sequence[T] | int]) -> list[T]:
    """The tensors of `f(a, b)`, of `f([a, b])` and of `a.f([b])`, one by one.

    Raises DTypeError for what is no tensor, ArgumentError where there is none.
    """
    given: list[object] = []
    for one in (first, *rest):
        given += one if isinstance(one, (list, tuple)) else [one]
    if wrong := [one for one in given if not isinstance(one, Joining)]:
        raise DTypeError(f"[{name}] joins tensors, not a {type(wrong[0]).__name__}")
    if not given:
        raise ArgumentError(f"[{name}] the list is empty; give at least one tensor")
    return cast("list[T]", given)


def listed(
    name: str, first: T | Sequence[T], rest: Sequence[T | Sequence[T] | int], dim: int
) -> tuple[list[T], int]:
    """`each_of`, and the axis: the last argument behind a list, as in PyTorch, or `dim`.

    Raises as it does.
    """
    given = (first, *rest)
    if len(given) > 1 and isinstance(given[-2], (list, tuple)) and isinstance(given[-1], int):
        rest, dim = rest[:-1], given[-1]
    return each_of(name, first, rest), dim


def _check_joinable(tensors: Sequence[Joining], axis: int) -> None:
    first = tensors[0].shape
    for place, other in enumerate(tensors[1:], 1):
        shapes = [first, other.shape]
        if len(first) != len(other.shape):
            raise ShapeError(
                f"[cat] tensor {place} has {len(other.shape)} axes, tensor 0 has {len(first)}\n"
                f"{aligned(shapes, [(), ()], right=False)}\n"
                "all need as many; use unsqueeze, or stack for a new axis"
            )
        wrong = differing(*shapes) - {axis}
        if wrong:
            raise ShapeError(
                f"[cat] shapes {first} and {other.shape} differ on another axis than {axis}\n"
                f"{aligned(shapes, [wrong, wrong])}\n"
                f"only the joined axis, dim={axis}, may differ{_other_axis(wrong, *shapes)}"
            )


def _other_axis(wrong: set[int], first: Shape, other: Shape) -> str:
    every = differing(first, other)
    return f"; dim={min(every)} would fit" if len(wrong) == len(every) == 1 else ""
