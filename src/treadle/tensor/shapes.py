"""Shapes of user calls: broadcasting, axes and sizes, with errors that begin with the op.

broadcast_shapes("add", (3, 1), (4,))  ->  (3, 4)
resolve_axes("sum", (-1, 0), 3)        ->  (0, 2)
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import SupportsIndex, TypeGuard, cast

from ..errors import IndexOutOfRange, ShapeError
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import Shape, same_size, simple_shape, simple_size, size_product
from ..ir.symbolic import size_with, unbind
from .types import Axes, Extent, Sizes

__all__ = [
    "Size", "aligned", "broadcast_shapes", "expand", "flatten_args", "is_whole", "move_axes",
    "own_axis", "reshape", "resolve_axes", "resolve_axis", "resolve_shape",
]  # fmt: skip


class Size(int):
    """`x.size`: the number of elements to the Array API, a method of one argument to PyTorch.

    `x.size == 6`, `x.size() == (2, 3)`, `x.size(-1) == 3`.
    """

    shape: Shape

    @staticmethod
    def of(shape: Shape) -> Size | functools.partial[Shape | Extent]:
        """The Size of a tensor; where sizes are symbolic, only the method, and no number."""
        count = size_product(shape)
        if not isinstance(count, int):
            return functools.partial(_size_of, shape)
        size = Size(count)
        size.shape = shape
        return size

    def __call__(self, dim: int | None = None) -> Shape | Extent:
        """The shape, or the size of one axis. Raises IndexOutOfRange."""
        return _size_of(self.shape, dim)


def _size_of(shape: Shape, dim: int | None = None) -> Shape | Extent:
    if dim is not None and not shape:
        raise IndexOutOfRange(f"[size] axis {dim} does not exist: shape () has none")
    return shape if dim is None else shape[resolve_axis("size", dim, len(shape))]


def broadcast_shapes(name: str, *shapes: Shape, apart: int = 0) -> Shape:
    """The shape that all of `shapes` broadcast to, as in NumPy, without the last `apart` axes.

    Raises ShapeError.
    """
    lead = [shape[: max(len(shape) - apart, 0)] for shape in shapes] if apart else shapes
    if all(shape == lead[0] for shape in lead):
        return tuple(lead[0])
    rank = max(len(shape) for shape in lead)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in lead]
    result: list[Extent] = []
    for axis, sizes in enumerate(zip(*padded, strict=True)):
        wide = [size for size in sizes if not same_size(size, 1)]
        if any(not same_size(size, wide[0]) for size in wide):
            raise ShapeError(_mismatch(name, shapes, axis - rank - apart))
        result.append(wide[0] if wide else 1)
    return tuple(result)


def _mismatch(name: str, shapes: Sequence[Shape], axis: int) -> str:
    *others, last = [str(tuple(shape)) for shape in shapes]
    shown = f"{', '.join(others)} and {last}"
    marks = [{len(shape) + axis} for shape in shapes]
    return (
        f"[{name}] shapes {shown} do not broadcast at axis {axis}:\n{aligned(shapes, marks)}\n"
        "sizes must be equal or 1, aligned from the right; use reshape or unsqueeze to line them up"
    )


def aligned(shapes: Sequence[Shape], marks: Sequence[Collection[int]], right: bool = True) -> str:
    """Shapes below each other, `right`-aligned, with ^ under the axes in `marks` of each.

    Marks that are the same for all shapes stand once, under the last.
    """
    rank = max(1, *(len(shape) for shape in shapes))
    shift = [rank - len(shape) if right else 0 for shape in shapes]
    rows = [
        [""] * n + [str(size) for size in shape] + [""] * (rank - n - len(shape))
        for n, shape in zip(shift, shapes, strict=True)
    ]
    for row, shape in zip(rows, shapes, strict=True):
        if not shape:
            row[-1 if right else 0] = "()"
    widths = [max(len(row[i]) for row in rows) for i in range(rank)]
    columns = [{axis + n for axis in wrong} for n, wrong in zip(shift, marks, strict=True)]
    lines: list[str] = []
    for i, row in enumerate(rows):
        lines.append("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)))
        if columns[i] and columns[i] not in columns[i + 1 :]:
            carets = ["^" * w if n in columns[i] else " " * w for n, w in enumerate(widths)]
            lines.append("  ".join(carets))
    return "\n".join(f"    {line}".rstrip() for line in lines)


def differing(first: Shape, other: Shape) -> set[int]:
    """The axes of different sizes, of two shapes with as many; else none."""
    pairs = enumerate(zip(first, other, strict=False)) if len(first) == len(other) else ()
    return {i for i, (a, b) in pairs if not same_size(a, b)}


def reshape(node: Node, shape: Shape) -> Node:
    """`node` in another shape with as many elements."""
    shape = simple_shape(tuple(shape))
    return node if node.shape == shape else Node(Op.RESHAPE, node.dtype, (node,), shape)


def expand(node: Node, shape: Shape) -> Node:
    """`node` broadcast to `shape`, which must be a shape it broadcasts to."""
    shape = simple_shape(tuple(shape))
    if node.shape == shape:
        return node
    node = reshape(node, (1,) * (len(shape) - len(node.shape)) + node.shape)
    return node if node.shape == shape else Node(Op.EXPAND, node.dtype, (node,), shape)


def move_axes(node: Node, order: Sequence[int]) -> Node:
    """`node` with its axes in another order."""
    order = tuple(order)
    if order == tuple(range(len(order))):
        return node
    return Node(Op.PERMUTE, node.dtype, (node,), order)


def flatten_args(first: Sizes | Axes, rest: Sequence[Sizes]) -> Shape:
    """`f(2, 3)` and `f((2, 3))` mean the same; NumPy's integers are Python's, and symbolic sizes
    that are equal are one.
    """
    numbers = (*first, *rest) if isinstance(first, (tuple, list)) else (first, *rest)
    return tuple(
        n.__index__() if is_whole(n) else simple_size(n) if isinstance(n, Node) else n
        for n in numbers
    )


def is_whole(value: object) -> TypeGuard[SupportsIndex]:
    """Whether `value` is an integer of Python's or NumPy's, or a tensor that holds one."""
    return hasattr(value, "__index__") and not getattr(value, "ndim", 0)


def resolve_axis(name: str, axis: SupportsIndex, rank: int, extra: int = 0) -> int:
    """`axis` counted from 0. Raises IndexOutOfRange if it is not in -rank..rank-1."""
    span = max(rank + extra, 1)
    if not isinstance(axis, int):
        if not is_whole(axis):
            raise ShapeError(f"[{name}] an axis is an integer, not {axis!r}")
        axis = axis.__index__()
    if not -span <= axis < span:
        raise IndexOutOfRange(
            f"[{name}] axis {axis} does not exist: a tensor with {rank} axes takes "
            f"{-span} to {span - 1}"
        )
    return axis % span


def own_axis(name: str, axis: int, shape: Shape) -> int:
    """`axis` of a shape that has one, counted from 0. Raises ShapeError or IndexOutOfRange."""
    if not shape:
        raise ShapeError(f"[{name}] shape () has no axis {axis}; .reshape(1) gives it one")
    return resolve_axis(name, axis, len(shape))


def resolve_axes(name: str, axis: Axes, rank: int) -> tuple[int, ...]:
    """Sorted axes from None (all), a number or a sequence. Raises if out of range or repeated."""
    if axis is None:
        return tuple(range(rank))
    listed = axis if isinstance(axis, (tuple, list)) else (cast("int", axis),)
    axes = [resolve_axis(name, item, rank) for item in listed]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"[{name}] axes {tuple(listed)} name the same axis twice")
    return tuple(sorted(axes)) if rank else ()


def resolve_shape(name: str, old: Shape, new: Sequence[SupportsIndex | Node | None]) -> Shape:
    """`new` with -1 inferred and None taken from `old`. Raises ShapeError."""
    if not isinstance(new, Sequence):
        raise ShapeError(f"[{name}] a shape is a sequence of integers, not {new!r}")
    sizes = [old[i] if size is None and i < len(old) else size for i, size in enumerate(new)]
    sizes = [size if isinstance(size, Node) else _as_size(name, size) for size in sizes]
    unknown = [i for i, size in enumerate(sizes) if not isinstance(size, Node) and size == -1]
    if len(unknown) > 1:
        raise ShapeError(f"[{name}] only one size of {tuple(new)} can be -1")
    total = size_product(old)
    if unknown:
        sizes[unknown[0]] = _infer(name, old, sizes, unknown[0])
    count = size_product(sizes)
    if isinstance(total, int) and isinstance(count, int) and total != count:
        raise ShapeError(
            f"[{name}] shape {old} has {total} elements, {tuple(sizes)} would have {count}"
            f"{_reshape_hint(name, old, sizes, total)}"
        )
    if isinstance(total, Node) or isinstance(count, Node):
        _check_bound(name, old, sizes, total, count)
    return simple_shape(tuple(sizes))


def _check_bound(name: str, old: Shape, sizes: list[Extent], total: Extent, count: Extent) -> None:
    """Raises ShapeError where the values that Variables are bound to give another count."""
    both, values = unbind([node for node in (total, count) if isinstance(node, Node)])
    free = {n.arg.name for node in both for n in node.toposort() if n.op is Op.VARIABLE}
    if not free <= values.keys():
        return
    have, want = (n if isinstance(n, int) else size_with(unbind([n])[0][0], values)
                  for n in (total, count))  # fmt: skip
    if have != want:
        bound = ", ".join(f"{variable} = {value}" for variable, value in values.items())
        raise ShapeError(
            f"[{name}] with {bound}, shape {old} has {have} elements, {tuple(sizes)} would have "
            f"{want}; bind a value that fits, or cut the tensor first, x[:n]"
        )


def _reshape_hint(name: str, old: Shape, sizes: list[Extent], total: int) -> str:
    """What may have been meant: one size that is to be inferred, or a broadcast."""
    if len(old) <= len(sizes) and all(
        same_size(a, b) or same_size(a, 1)
        for a, b in zip(reversed(old), reversed(sizes), strict=False)
    ):
        return f"; to repeat elements, use .expand{tuple(sizes)}"
    for axis in reversed(range(len(sizes))):
        rest = size_product(size for i, size in enumerate(sizes) if i != axis)
        if isinstance(rest, int) and rest and total % rest == 0:
            fitting = (*sizes[:axis], total // rest, *sizes[axis + 1 :])
            return f"; {fitting} would fit, and -1 in place of one size infers it"
    return "; the product of the sizes must stay the same"


def _as_size(name: str, size: object) -> int:
    if not is_whole(size):
        raise ShapeError(f"[{name}] a size is an integer, not {size!r}")
    number = size.__index__()
    if number < -1:
        raise ShapeError(f"[{name}] sizes must not be negative: {number}")
    return number


def _infer(name: str, old: Shape, sizes: list[Extent], place: int) -> Extent:
    total = size_product(old)
    known = size_product(size for i, size in enumerate(sizes) if i != place)
    if isinstance(total, int) and isinstance(known, int):
        if known == 0 or total % known:
            shown = tuple(sizes)
            raise ShapeError(
                f"[{name}] shape {old} has {total} elements, which {shown} cannot hold: "
                f"{total} is no multiple of {known}; change the sizes beside -1"
            )
        return total // known
    return simple_size(total // known)
