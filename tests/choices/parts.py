"""A part of a generated program: a function of operations and a matrix, with inputs of its own.

`distributed(parts)` are the inputs of several, those with gradients first, and whose is which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Inputs", "Part", "distributed"]


class Part(NamedTuple):
    """`run(operations, *inputs)`, or `run(operations, matrix, *inputs)` behind the first part.

    The first `graded` of the inputs get gradients; where `ends`, none flow through. `loose` results
    hold half precision.
    """

    run: Callable[..., Any]
    inputs: list[np.ndarray]
    graded: int = 0
    ends: bool = False
    loose: bool = False


class Inputs(NamedTuple):
    """The inputs of some parts: the first `graded` get gradients, as far as a part has such.

    `of_each(values)` gives each part its own of what stands for all.
    """

    inputs: list[np.ndarray]
    graded: int
    ends: bool
    loose: bool
    of_each: Callable[[Sequence[Any]], list[list[Any]]]


def distributed(parts: Sequence[Part]) -> Inputs:
    """The inputs of all `parts`."""
    graded = [x for part in parts for x in part.inputs[: part.graded]]
    others = [x for part in parts for x in part.inputs[part.graded :]]

    def of_each(values: Sequence[Any]) -> list[list[Any]]:
        first, rest = iter(values[: len(graded)]), iter(values[len(graded) :])
        return [
            [next(first if number < part.graded else rest) for number in range(len(part.inputs))]
            for part in parts
        ]

    ends = any(part.ends for part in parts)
    loose = any(part.loose for part in parts)
    return Inputs([*graded, *others], len(graded), ends, loose, of_each)
