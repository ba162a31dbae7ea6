"""Elements that are picked by indices or by their order: gathers, scatters, embeddings, sorting."""

from __future__ import annotations

import math

from ..libraries.base import Library
from ..work import Array, Input, Work
from .draw import Draw

__all__ = ["draw"]


def draw(draw: Draw) -> Work:
    return draw.one_of(
        _gather, _scatter_add, _embedding, _embedding, _embedding_gradient, _sort, _top
    )(draw)


def _places(draw: Draw) -> tuple[tuple[int, int], tuple[int, int], int]:
    """The shapes of an array and of indices into one of its axes, and that axis."""
    shape, axis = (draw.size(32, 8192), draw.size(32, 8192)), draw.below(2)
    count = draw.size(16, 8192)
    return shape, (count, shape[1]) if axis == 0 else (shape[0], count), axis


def _gather(draw: Draw) -> Work:
    shape, taken, axis = _places(draw)

    def form(lib: Library[Array], x: Array, index: Array) -> Array:
        return lib.gather(x, axis, index)

    name = f"gather axis {axis}, {taken[0]}x{taken[1]} of {shape[0]}x{shape[1]}"
    given = (Input(shape), Input(taken, "int32", below=shape[axis]))
    return Work("random", name, "copy", 12.0 * math.prod(taken), given, form, ())


def _scatter_add(draw: Draw) -> Work:
    shape, taken, axis = _places(draw)

    def form(lib: Library[Array], x: Array, index: Array, y: Array) -> Array:
        return lib.scatter_add(x, axis, index, y)

    name = f"scatter-add axis {axis}, {taken[0]}x{taken[1]} into {shape[0]}x{shape[1]}"
    given = (Input(shape), Input(taken, "int32", below=shape[axis]), Input(taken))
    amount = 8.0 * math.prod(shape) + 8.0 * math.prod(taken)
    return Work("random", name, "copy", amount, given, form, ())


def _table(draw: Draw) -> tuple[int, int, int]:
    """The size of a table, and how many of its rows are picked."""
    return draw.size(100, 50000), draw.size(16, 1024), draw.size(64, 16384)


def _embedding(draw: Draw) -> Work:
    words, width, count = _table(draw)

    def form(lib: Library[Array], table: Array, index: Array) -> Array:
        return lib.embedding(table, index)

    given = (Input((words, width)), Input((count,), "int32", below=words))
    name = f"embedding {words}x{width}, {count}"
    return Work("random", name, "copy", 8.0 * count * width, given, form, ())


def _embedding_gradient(draw: Draw) -> Work:
    words, width, count = _table(draw)

    def form(lib: Library[Array], table: Array, index: Array, g: Array) -> Array:
        return lib.embedding_gradient(table, index, g)

    given = (Input((words, width)), Input((count,), "int32", below=words), Input((count, width)))
    name, amount = f"embedding {words}x{width}, {count}, gradient", 4.0 * (count + words) * width
    return Work("random", name, "copy", amount, given, form, ())


def _sort(draw: Draw) -> Work:
    rows, columns = draw.size(1, 8192), draw.size(16, 65536)

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.sort(x)

    amount = 12.0 * rows * columns
    return Work(
        "random", f"sort {rows}x{columns}", "copy", amount, (Input((rows, columns)),), form, ()
    )


def _top(draw: Draw) -> Work:
    rows, columns = draw.size(1, 8192), draw.size(64, 65536)
    k = min(draw.size(1, 64), columns)

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.topk(x, k)

    name = f"top {k} of {rows}x{columns}"
    return Work("random", name, "read", 4.0 * rows * columns, (Input((rows, columns)),), form, ())
