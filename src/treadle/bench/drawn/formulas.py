"""Operands that are computed: programs rarely multiply or add up what lies in memory as it is.

    conv2d 3x3 16->32 2x28x28   ->   conv2d 3x3 16->32 2x28x28, input 1 plus another

A library that computes such an operand where it is read has to be as fast as where it only reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..libraries.base import Library
from ..work import Array, Input, Work
from .draw import Draw

__all__ = ["with_formula"]

Formula = Callable[[Array, Array], Array]

# The name, the operand, and the shape of what it is computed with.
FORMULAS: tuple[tuple[str, Formula, Callable[[tuple[int, ...]], tuple[int, ...]]], ...] = (
    ("scaled", lambda x, _: x * 0.5, lambda _: (1,)),
    ("plus another", lambda x, y: x + y, lambda shape: shape),
    ("times a column", lambda x, y: x * y, lambda shape: (*shape[:-1], 1)),
    ("times a row", lambda x, y: x * y, lambda shape: (*[1] * (len(shape) - 1), shape[-1])),
)


def with_formula(draw: Draw, work: Work) -> Work:
    """`work` as it is, or with one operand of float32 computed."""
    places = [n for n, given in enumerate(work.inputs) if given.dtype == "float32"]
    if work.task != "result" or not places or draw.one_of(False, True):
        return work
    place = draw.one_of(*places)
    word, formula, shape_of = draw.one_of(*FORMULAS)
    form = work.form

    def computed(lib: Library[Array], *given: Array) -> Array:
        *inputs, other = given
        inputs[place] = formula(inputs[place], other)
        return form(lib, *inputs)

    return dataclasses.replace(
        work, name=f"{work.name}, input {place} {word}", form=computed,
        inputs=(*work.inputs, Input(shape_of(work.inputs[place].shape))),
    )  # fmt: skip
