"""Numbers of each row of a matrix, or of each column, and two of them in one kernel.

`statistics(rng, shape, axis)` draws two, and how they are used: by themselves, or with each element
of the matrix. A reduction by itself makes few choices; two in a kernel make those of both meet.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from .parts import Part, distributed
from .recipes import normal, places

__all__ = ["STATISTICS", "statistics"]

Shape = tuple[int, ...]
Statistic = Callable[[random.Random, Shape, int], Part]

# `run(operations, matrix, *inputs)` gives a number for each row (axis 1) or each column (axis 0).
STATISTICS: dict[str, Statistic] = {
    "sum": lambda rng, shape, axis: Part(lambda o, x: o.sum(x, axis) * 0.1, []),
    "squares": lambda rng, shape, axis: Part(lambda o, x: o.sum(x * x, axis) * 0.01, []),
    "exponentials": lambda rng, shape, axis: Part(
        lambda o, x: o.sum(o.exp(x * 0.1 - 1), axis) * 0.1, []
    ),
    "variance": lambda rng, shape, axis: Part(lambda o, x: o.var(x, axis) + 0.1, []),
    "largest": lambda rng, shape, axis: Part(lambda o, x: o.max(x, axis), []),
    "place": lambda rng, shape, axis: Part(
        lambda o, x: o.reshape(o.argmax(x, axis), *_line(shape, axis)) * 0.01, [], 0, True
    ),
    "picked": lambda rng, shape, axis: Part(
        lambda o, x, at: o.sum(o.where(_is_at(o, at, x, axis), x, 0.0), axis),
        [places(rng, shape[1 - axis], shape[axis])],
    ),
    "picked_from_another": lambda rng, shape, axis: Part(
        lambda o, x, y, at: o.reshape(
            o.sum(o.where(o.is_at(at, 50), y, 0.0), 1), *_line(shape, axis)
        ),
        [normal(rng, shape[1 - axis], 50), places(rng, shape[1 - axis], 50)], 1,
    ),
    "masked": lambda rng, shape, axis: Part(
        lambda o, x, y, mask: o.sum(o.where(mask, x * y, 0.0), axis) * 0.1,
        [normal(rng, *shape), np.tri(*shape, dtype=bool)], 1,
    ),
    "folded": lambda rng, shape, axis: Part(
        lambda o, x: o.sum(o.reshape(o.transpose(x, 1, 0), *shape) * x, axis) * 0.01, []
    ),
    "every_second": lambda rng, shape, axis: Part(
        lambda o, x: o.sum(x[:, ::2] if axis else x[::2], axis) * 0.1, []
    ),
    "in_fours": lambda rng, shape, axis: Part(
        lambda o, x, y: o.sum(_in_fours(o, y, axis), axis) * 0.1,
        [normal(rng, *(4 * -(-s // 4) if at == axis else s for at, s in enumerate(shape)))], 1,
    ),
    "of_others": lambda rng, shape, axis: Part(
        lambda o, x, y, z: o.sum(x * y + z, axis) * 0.1,
        [normal(rng, *shape), normal(rng, *shape)], 2,
    ),
    "of_few": lambda rng, shape, axis: Part(
        lambda o, x, y: o.sum(o.exp(y - 1), axis),
        [normal(rng, *((shape[0], 7) if axis else (7, shape[1])))], 1,
    ),
    "number": lambda rng, shape, axis: Part(
        lambda o, x, y: o.sum(o.tanh(y)) * 0.1, [normal(rng, 400)], 1
    ),
}  # fmt: skip


def statistics(rng: random.Random, shape: Shape, axis: int) -> Part:
    """Two of the table, by themselves or with each element of the matrix."""
    parts = [STATISTICS[name](rng, shape, axis) for name in rng.sample([*STATISTICS], 2)]
    whole, use = distributed(parts), rng.choice(USES)

    def run(o: Any, x: Any, *inputs: Any) -> Any:
        one, other = (
            part.run(o, x, *own) for part, own in zip(parts, whole.of_each(inputs), strict=True)
        )
        return use(o, x, one, other)

    return Part(run, whole.inputs, whole.graded, whole.ends)


USES = [
    lambda o, x, one, other: one * o.tanh(other),
    lambda o, x, one, other: x * 0.5 + one * o.tanh(other),
    lambda o, x, one, other: o.exp(x * 0.1 - 1) * one + other,
]


def _line(shape: Shape, axis: int) -> Shape:
    return (shape[0], 1) if axis else (1, shape[1])


def _is_at(o: Any, at: Any, x: Any, axis: int) -> Any:
    found = o.is_at(at, x.shape[axis])
    return found if axis else o.transpose(found, 1, 0)


def _in_fours(o: Any, x: Any, axis: int) -> Any:
    """A matrix whose rows (axis 1) or columns change the order of their elements."""
    n, k = x.shape
    if axis:
        return o.tanh(o.reshape(o.transpose(o.reshape(x, n, k // 4, 4), 0, 2, 1), n, k))
    return o.tanh(o.reshape(o.transpose(o.reshape(x, n // 4, 4, k), 1, 0, 2), n, k))
