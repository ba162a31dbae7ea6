"""Elements that change places by a rule: permuted, sliced, joined, padded, turned."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..libraries.base import Library
from ..work import Array, Input, Work
from .draw import Draw
from .reductions import shape_of

__all__ = ["draw"]


def draw(draw: Draw) -> Work:
    shape = shape_of(draw, 2)
    return draw.one_of(_permuted, _sliced, _joined, _padded, _flipped, _rolled)(draw, shape)


def _work(
    name: str, shape: tuple[int, ...], moved: float, form: Callable[..., Array], count: int = 1
) -> Work:
    text = "x".join(map(str, shape))
    return Work("random", f"{name} {text}", "copy", 4.0 * moved, (Input(shape),) * count, form, ())


def _permuted(draw: Draw, shape: tuple[int, ...]) -> Work:
    order = tuple(draw.order(range(len(shape))))

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.contiguous_copy(lib.permute(x, order))

    return _work(f"permute {order}", shape, 2.0 * math.prod(shape), form)


def _sliced(draw: Draw, shape: tuple[int, ...]) -> Work:
    steps = [draw.one_of(1, 1, 2, 3) for _ in shape]
    starts = [draw.below(size) // 4 for size in shape]
    index = tuple(slice(start, None, step) for start, step in zip(starts, steps, strict=True))
    sizes = [len(range(size)[part]) for size, part in zip(shape, index, strict=True)]
    text = ", ".join(f"{start or ''}:{f':{step}' if step > 1 else ''}"
                     for start, step in zip(starts, steps, strict=True))  # fmt: skip

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.contiguous_copy(x[index])

    return _work(f"x[{text}]", shape, 2.0 * math.prod(sizes), form)


def _joined(draw: Draw, shape: tuple[int, ...]) -> Work:
    axis, count = draw.below(len(shape)), draw.one_of(2, 2, 3, 4)

    def form(lib: Library[Array], *xs: Array) -> Array:
        return lib.concatenate(xs, axis)

    name = f"concatenate {count} along axis {axis}"
    return _work(name, shape, 2.0 * count * math.prod(shape), form, count)


def _padded(draw: Draw, shape: tuple[int, ...]) -> Work:
    """The last two axes, as images are."""
    (top, bottom), (left, right) = ((draw.below(4), draw.below(4)) for _ in range(2))
    grown = (*shape[:-2], shape[-2] + top + bottom, shape[-1] + left + right)

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.pad2d(x, left, right, top, bottom)

    name = f"pad by {left}, {right}, {top}, {bottom} of"
    return _work(name, shape, float(math.prod(shape) + math.prod(grown)), form)


def _flipped(draw: Draw, shape: tuple[int, ...]) -> Work:
    axes = tuple(draw.some_of(range(len(shape))))

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.contiguous_copy(lib.flip(x, axes))

    return _work(f"flip axes {', '.join(map(str, axes))} of", shape, 2.0 * math.prod(shape), form)


def _rolled(draw: Draw, shape: tuple[int, ...]) -> Work:
    axis = draw.below(len(shape))
    by = 1 + draw.below(shape[axis])

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.roll(x, by, axis)

    return _work(f"roll by {by} along axis {axis} of", shape, 2.0 * math.prod(shape), form)
