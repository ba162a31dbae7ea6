"""Moving elements: reshape, permute, expand, pad, shrink, flip and what is made of them.

x.reshape(2, -1).permute(1, 0).pad((1, 1))   -> no copy: all of it becomes index arithmetic
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from ...dtype import dtypes
from ...errors import ShapeError
from ...explained import explained
from ...ir.args import WindowArg
from ...ir.node import Node
from ...ir.op import Op
from ...ir.shape import Shape, same_size, simple_size
from ..intervals import checked
from ..operands import Operand
from ..shapes import (
    aligned,
    expand,
    flatten_args,
    move_axes,
    reshape,
    resolve_axes,
    resolve_axis,
    resolve_shape,
)
from ..types import Axes, Bounds, Extent, Pairs, Sizes
from .concatenation import joined
from .elementwise import Elementwise

__all__ = ["Movement"]


class Movement(Elementwise):
    """The same elements in other shapes, as views."""

    __slots__ = ()

    def reshape(self, shape: Sizes, *args: Sizes) -> Self:
        """The same elements in another shape, in row-major order; the dtype stays.

        -1 is inferred, None keeps that axis. Raises ShapeError.
        """
        new = resolve_shape("reshape", self.shape, flatten_args(shape, args))
        return self._view(reshape(self.node, new))

    def view(self, shape: Sizes, *args: Sizes) -> Self:
        """The same elements in another shape: `reshape`, under PyTorch's name; the dtype stays.

        -1 is inferred, None keeps that axis. Raises ShapeError.
        """
        return self.reshape(shape, *args)

    def expand(self, shape: Sizes, *args: Sizes) -> Self:
        """Axes of size 1 repeated, new axes in front; -1 and None keep a size; the dtype stays.

        Raises ShapeError.
        """
        wanted = flatten_args(shape, args)
        old = (1,) * (len(wanted) - self.ndim) + self.shape
        kept = (None, -1)
        new = tuple(
            o if not isinstance(n, Node) and n in kept else n
            for o, n in zip(old, wanted, strict=False)
        )
        if len(old) != len(new) or not all(map(_grows, old, new)):
            raise ShapeError(_no_expansion(self.shape, wanted, old, new))
        return self._view(expand(self.node, new))

    def permute(self, order: Axes, *args: Sizes) -> Self:
        """Axis i of the result is axis `order[i]` of this tensor; the dtype stays.

        Raises ShapeError, IndexOutOfRange.
        """
        given = flatten_args(order, args)
        axes = [resolve_axis("permute", axis, self.ndim) for axis in given]
        if sorted(axes) != list(range(self.ndim)):
            raise ShapeError(
                f"[permute] {tuple(given)} is no order of the {self.ndim} axes of {self.shape}: "
                "each axis stands there once"
            )
        return self._view(move_axes(self.node, axes))

    def flip(self, axis: Axes, *args: Sizes) -> Self:
        """The given axes reversed, as a view; shape and dtype stay. Raises IndexOutOfRange."""
        axes = resolve_axes("flip", flatten_args(axis, args), self.ndim)
        node = self.node
        return self._view(Node(Op.FLIP, self.dtype, (node,), axes) if axes else node)

    @explained
    def shrink(self, arg: Sequence[Bounds | None]) -> Self:
        """One (begin, end), or None for all, for each axis; the dtype stays. Raises ShapeError."""
        if len(arg) != self.ndim:
            raise ShapeError(
                f"[shrink] {len(arg)} pairs for the {self.ndim} axes of {self.shape}: give (begin, "
                "end), or None, for each"
            )
        bounds = tuple(
            (0, n) if pair is None else (pair[0], pair[1])
            for pair, n in zip(arg, self.shape, strict=True)
        )
        if all(_is_whole(pair, n) for pair, n in zip(bounds, self.shape, strict=True)):
            return self._view(self.node)
        for pair, size in zip(bounds, self.shape, strict=True):
            if any(isinstance(number, Node) for number in (*pair, size)):
                checked("shrink", pair, size)
        return self._view(Node(Op.SHRINK, self.dtype, (self.node,), bounds))

    @explained
    def shrink_to(self, shape: Sizes, *args: Sizes) -> Self:
        """Each axis cut down to a size from its start; None keeps it; the dtype stays.

        Raises ShapeError.
        """
        wanted = flatten_args(shape, args)
        return self.shrink([None if size is None else (0, size) for size in wanted])

    @explained
    def pad_to(self, shape: Sizes, *args: Sizes) -> Self:
        """Each axis padded at its end with zeros to a size, or cut to it; None keeps it; the dtype
        stays.

        Raises ArgumentError for another number of sizes.
        """
        wanted = flatten_args(shape, args)
        pairs = [
            (0, 0) if size is None else (0, size - old)
            for size, old in zip(wanted, self.shape, strict=True)
        ]
        return self._padded(pairs)

    @explained
    def pad(
        self,
        padding: Sequence[Bounds | Extent | None],
        mode: str = "constant",
        value: Operand = 0.0,
    ) -> Self:
        """Elements added around; the dtype stays.

        `padding`: one (before, after) or None for each axis; or flat as in PyTorch, the last axis
        first: `(left, right, top, bottom)`. Negative numbers cut. `mode`: "constant" (with
        `value`), "reflect", "replicate" or "circular". Raises ShapeError.
        """
        pairs = self._padding_pairs(padding)
        if mode == "constant":
            return self._padded(pairs, value)
        if mode not in _INDEX_BEYOND:
            known = ", ".join(["constant", *_INDEX_BEYOND])
            raise ShapeError(f"[pad] mode {mode!r} is not known; there are {known}")
        result = self
        for axis, pair in enumerate(pairs):
            result = result._pad_from_itself(axis, cast("tuple[int, int]", pair), mode)
        return result

    def _padding_pairs(self, padding: Sequence[Bounds | Extent | None]) -> list[Bounds]:
        if all(isinstance(pair, (tuple, list)) or pair is None for pair in padding):
            given = cast("Sequence[Bounds | None]", padding)
            pairs = [(0, 0) if pair is None else (pair[0], pair[1]) for pair in given]
        elif len(padding) % 2:
            raise ShapeError(f"[pad] flat padding comes in pairs, {tuple(padding)} is odd")
        else:
            flat = cast("Sequence[Extent]", padding)
            pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
            pairs = [(0, 0)] * (self.ndim - len(pairs)) + pairs
        if len(pairs) != self.ndim:
            raise ShapeError(
                f"[pad] {len(pairs)} pairs for the {self.ndim} axes of {self.shape}: give (before, "
                "after), or None, for each, or flat numbers for the last axes"
            )
        return pairs

    def _padded(self, pairs: Pairs, value: Operand = 0.0) -> Self:
        bounds = [
            (max(-b, 0), n - max(-a, 0)) if _negative(b, a) else None
            for (b, a), n in zip(pairs, self.shape, strict=True)
        ]
        cut = self.shrink(bounds)
        grow = tuple((_positive(b), _positive(a)) for b, a in pairs)
        if all(isinstance(n, int) and n == 0 for pair in grow for n in pair):
            return cut
        padded = cut._view(Node(Op.PAD, self.dtype, (cut.node,), grow))
        if value == 0:
            return padded
        inside = Node(
            Op.PAD, dtypes.bool, (expand(Node.const(dtypes.bool, True), cut.shape),), grow
        )
        return type(self)._of(inside, self.device).where(padded, value)

    def _pad_from_itself(self, axis: int, pair: tuple[int, int], mode: str) -> Self:
        before, after = pair
        if before == after == 0:
            return self
        if mode == "circular" and min(pair) < 0:  # what is cut off does not come round again
            bounds: list[Bounds | None] = [None] * self.ndim
            bounds[axis] = (max(-before, 0), self.shape[axis] - max(-after, 0))
            return self.shrink(bounds)._pad_from_itself(axis, (max(before, 0), max(after, 0)), mode)
        size = self.shape[axis]
        limit = {"reflect": size - 1, "circular": size}.get(mode, 0 if size == 0 else None)
        if limit is not None and max(before, after) > limit:
            raise ShapeError(f"[pad] {mode} padding {pair} is too much for an axis of size {size}")
        if size + before + after < 0:
            raise ShapeError(f"[pad] {pair} cuts more than the {size} elements of axis {axis}")
        places = [_INDEX_BEYOND[mode](i, size) for i in range(-before, size + after)]
        return self._take_runs(axis, places)

    def _take_runs(self, axis: int, places: list[int]) -> Self:
        """The given places of one axis, joined from runs that step by 1, -1 or 0."""
        if not places:
            return self.shrink([(0, 0) if i == axis else None for i in range(self.ndim)])
        parts: list[Self] = []
        begin = 0
        while begin < len(places):
            end = begin + 1
            step = places[end] - places[begin] if end < len(places) else 1
            while (
                end < len(places) and step in (-1, 0, 1) and places[end] - places[end - 1] == step
            ):
                end += 1
            parts.append(self._run(axis, places[begin], end - begin, step))
            begin = end
        return self._result(joined([part.node for part in parts], axis))

    def _run(self, axis: int, first: int, count: int, step: int) -> Self:
        low = first - count + 1 if step == -1 and count > 1 else first
        span = 1 if step == 0 or count == 1 else count
        bounds: list[Bounds | None] = [None] * self.ndim
        bounds[axis] = (low, low + span)
        part = self.shrink(bounds)
        if span != count:
            shape = list(part.shape)
            shape[axis] = count
            return part.expand(shape)
        return part.flip(axis) if step == -1 and count > 1 else part

    # -- axes ---------------------------------------------------------------------------------

    def transpose(self, dim0: int = 1, dim1: int = 0) -> Self:
        """Two axes exchanged, the first two by default; the dtype stays. Raises IndexOutOfRange."""
        first = resolve_axis("transpose", dim0, self.ndim)
        second = resolve_axis("transpose", dim1, self.ndim)
        order = list(range(self.ndim))
        if order:
            order[first], order[second] = order[second], order[first]
        return self.permute(order)

    @property
    def T(self) -> Self:
        """The first two axes exchanged, in this dtype; a vector stays as it is."""
        return self.transpose() if self.ndim > 1 else self

    @property
    def mT(self) -> Self:
        """The last two axes exchanged, in this dtype. Raises IndexOutOfRange for less."""
        return self.transpose(-1, -2)

    def movedim(self, source: Axes, destination: Axes) -> Self:
        """Axes `source` moved to places `destination`, the others in order; the dtype stays.

        Raises ShapeError, IndexOutOfRange.
        """
        sources, targets = flatten_args(source, ()), flatten_args(destination, ())
        if len(sources) != len(targets):
            raise ShapeError(f"[movedim] {len(sources)} axes cannot go to {len(targets)} places")
        for axes in (sources, targets):
            resolve_axes("movedim", axes, self.ndim)
        places = {
            resolve_axis("movedim", to, self.ndim): resolve_axis("movedim", axis, self.ndim)
            for axis, to in zip(sources, targets, strict=True)
        }
        rest = iter(axis for axis in range(self.ndim) if axis not in places.values())
        return self.permute([places[i] if i in places else next(rest) for i in range(self.ndim)])

    def squeeze(self, dim: Axes = None) -> Self:
        """Without the axes of size 1, or without those of `dim` if their size is 1; the dtype
        stays.

        Raises IndexOutOfRange.
        """
        axes = resolve_axes("squeeze", dim, self.ndim)
        drop = [
            axis for axis in axes if isinstance(self.shape[axis], int) and self.shape[axis] == 1
        ]
        return self.reshape([n for axis, n in enumerate(self.shape) if axis not in drop])

    def unsqueeze(self, dim: int) -> Self:
        """A new axis of size 1 at `dim`; the dtype stays. Raises IndexOutOfRange."""
        axis = resolve_axis("unsqueeze", dim, self.ndim, extra=1)
        return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Axes `start_dim` to `end_dim`, inclusive, as one; the dtype stays.

        Raises ShapeError, IndexOutOfRange.
        """
        if not self.ndim:
            return self.reshape((1,))
        start = resolve_axis("flatten", start_dim, self.ndim)
        end = resolve_axis("flatten", end_dim, self.ndim)
        if start > end:
            raise ShapeError(f"[flatten] axis {start_dim} comes after axis {end_dim}")
        size = 1
        for n in self.shape[start : end + 1]:
            size = size * n
        return self.reshape((*self.shape[:start], size, *self.shape[end + 1 :]))

    def unflatten(self, dim: int, sizes: Sequence[Extent]) -> Self:
        """One axis as several; one of `sizes` may be -1; the dtype stays.

        Raises ShapeError, IndexOutOfRange.
        """
        axis = resolve_axis("unflatten", dim, self.ndim)
        inner = resolve_shape("unflatten", (self.shape[axis],), sizes)
        return self.reshape((*self.shape[:axis], *inner, *self.shape[axis + 1 :]))

    @explained
    def unfold(self, dim: int, size: int, step: int) -> Self:
        """All windows of `size` on one axis, `step` apart; the window is a new last axis.

        (.., n, ..) gives (.., (n - size) // step + 1, .., size), in its dtype. Raises ShapeError,
        IndexOutOfRange.
        """
        axis = resolve_axis("unfold", dim, self.ndim)
        extent = self.shape[axis] if self.ndim else 1
        if size < 0 or step < 1 or (isinstance(extent, int) and size > extent):
            raise ShapeError(
                f"[unfold] windows of {size}, {step} apart, do not fit axis {dim} of shape "
                f"{self.shape}: expected a size of 0 to that of the axis, and a step of at least 1"
            )
        if size == 0:
            counts = (extent // step + 1,) if self.ndim else ()
            shape = (*self.shape[:axis], *counts, *self.shape[axis + 1 :], 0)
            return type(self)._of(expand(Node.const(self.dtype, 0), shape), self.device)
        return self._window(axis, size, step)

    def _window(self, axis: int, size: int, stride: int = 1, dilation: int = 1) -> Self:
        if size == stride == 1:  # no window at all, and so none in gradients
            return self.reshape((*self.shape, 1))
        arg = WindowArg(axis, size, stride, dilation, self.shape[axis])
        return self._view(Node(Op.WINDOW, self.dtype, (self.node,), arg))


def _grows(old: Extent, new: Extent) -> bool:
    """Whether an axis of size `old` can be expanded to `new`."""
    return same_size(old, new) or (same_size(old, 1) and not _negative(new))


def _no_expansion(shape: Shape, wanted: Shape, old: Shape, new: Shape) -> str:
    """The message for `wanted`, which is `new` once filled in; `old` is `shape` of as many axes."""
    if len(old) > len(new):
        wrong = set(range(len(old) - len(new)))
    else:
        wrong = {i for i, (a, b) in enumerate(zip(old, new, strict=True)) if not _grows(a, b)}
    marks = [{axis - len(old) + len(s) for axis in wrong} for s in (shape, wanted)]
    table = aligned([shape, wanted], [{axis for axis in found if axis >= 0} for found in marks])
    return (
        f"[expand] shape {shape} does not expand to {tuple(wanted)}\n{table}\n"
        "axes of size 1 can grow, and new axes come in front; use repeat to copy others"
    )


def _is_whole(pair: Bounds, size: Extent) -> bool:
    return isinstance(pair[0], int) and pair[0] == 0 and same_size(simple_size(pair[1]), size)


def _negative(*sizes: Extent) -> bool:
    return any(isinstance(n, int) and n < 0 for n in sizes)


def _positive(size: Extent) -> Extent:
    return max(size, 0) if isinstance(size, int) else size


# where an element beyond the edge comes from
_INDEX_BEYOND = {
    "reflect": lambda i, n: -i if i < 0 else 2 * (n - 1) - i if i >= n else i,
    "replicate": lambda i, n: min(max(i, 0), n - 1),
    "circular": lambda i, n: i % n,
}
