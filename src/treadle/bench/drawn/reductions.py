"""Reductions of arrays with one to four axes, over any of them, and running sums."""

from __future__ import annotations

import math

from ..libraries.base import Library
from ..work import Array, Input, Work
from .draw import Draw

__all__ = ["draw", "shape_of"]

LONGEST = {1: 8_000_000, 2: 8192, 3: 512, 4: 128}  # of an axis, by the count of axes


def shape_of(draw: Draw, low: int = 1) -> tuple[int, ...]:
    """A shape of `low` to four axes."""
    rank = draw.one_of(*range(low, 5))
    return tuple(draw.size(2, LONGEST[rank]) for _ in range(rank))


def draw(draw: Draw) -> Work:
    shape = shape_of(draw)
    axes = tuple(draw.some_of(range(len(shape))))
    word = draw.one_of("sum", "mean", "max", "var", "logsumexp", "argmax", "cumsum")
    text, size = "x".join(map(str, shape)), 4.0 * math.prod(shape)
    if word in ("argmax", "cumsum"):
        axis = axes[0]

        def along(_: Library[Array], x: Array) -> Array:
            return x.argmax(axis) if word == "argmax" else x.cumsum(axis)

        name, moved = f"{word} axis {axis} of {text}", (2 if word == "cumsum" else 1) * size
        ceiling = "copy" if word == "cumsum" else "read"
        return Work("random", name, ceiling, moved, (Input(shape),), along, ())

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.reduce(x, word, axes)

    name = f"{word} axes {', '.join(map(str, axes))} of {text}"
    return Work("random", name, "read", size, (Input(shape),), form, ())
