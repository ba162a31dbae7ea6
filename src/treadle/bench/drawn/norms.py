"""Norms, softmax and losses, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..libraries.base import Library
from ..work import Array, Input, Work
from .draw import Draw
from .reductions import shape_of

__all__ = ["draw"]


def draw(draw: Draw) -> Work:
    return draw.one_of(_softmax, _rows, _rows, _batch_norm, _cross_entropy)(draw)


def _work(
    draw: Draw, name: str, given: tuple[Input, ...], form: Callable[..., Array], result: Input
) -> Work:
    """Forward or with gradients: the large array is then read twice more and written once."""
    size = 4.0 * math.prod(given[0].shape)
    backward = {"task": "gradients", "wanted": (0,)}
    if draw.one_of(False, True):
        name = f"{name}, with gradients"
        return Work("random", name, "copy", 4 * size, (*given, result), form, (), **backward)
    return Work("random", name, "copy", 2 * size, given, form, ())


def _softmax(draw: Draw) -> Work:
    shape = shape_of(draw, 2)
    axis = draw.below(len(shape))

    def form(lib: Library[Array], x: Array) -> Array:
        return lib.softmax_along(x, axis)

    name = f"softmax axis {axis} of {'x'.join(map(str, shape))}"
    return _work(draw, name, (Input(shape),), form, Input(shape))


def _rows(draw: Draw) -> Work:
    """A layer or RMS norm of tokens."""
    batch, tokens, width = draw.size(1, 32), draw.size(16, 1024), draw.size(32, 4096)
    shape, word = (batch, tokens, width), draw.one_of("layer", "RMS")

    def layer(lib: Library[Array], x: Array, scale: Array, shift: Array) -> Array:
        return lib.layer_norm(x, scale, shift)

    def rms(lib: Library[Array], x: Array, scale: Array) -> Array:
        return lib.rms_norm(x, scale)

    name = f"{word} norm of {batch}x{tokens}x{width}"
    form, more = (layer, 2) if word == "layer" else (rms, 1)
    return _work(draw, name, (Input(shape), *[Input((width,))] * more), form, Input(shape))


def _batch_norm(draw: Draw) -> Work:
    """By the statistics of the batch, as in training."""
    batch, channels = draw.one_of(1, 2, 4, 8, 16, 32), draw.size(8, 256)
    side = draw.size(7, 130)
    shape = (batch, channels, side, side)

    def form(lib: Library[Array], x: Array, scale: Array, shift: Array) -> Array:
        return lib.batch_norm(x, scale, shift, None, None)

    name = f"batch norm of {'x'.join(map(str, shape))}"
    return _work(draw, name, (Input(shape), *[Input((channels,))] * 2), form, Input(shape))


def _cross_entropy(draw: Draw) -> Work:
    count, classes = draw.size(16, 8192), draw.size(10, 50000)

    def form(lib: Library[Array], scores: Array, labels: Array) -> Array:
        return lib.cross_entropy(scores, labels)

    given = (Input((count, classes)), Input((count,), "int32", below=classes))
    return _work(
        draw, f"cross-entropy {count}x{classes}", given, form, Input((), mean=1.0, scale=0.0)
    )
