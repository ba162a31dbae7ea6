"""Algebra on matrices of few sizes, each step of any values before it.

`tree(rng, scale)` draws the steps. What is used twice, by a product and a statistic of all rows,
say, comes by itself, and so do products of one step, matrices of one row, and several results.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .recipes import Recipe, normal, recipe

__all__ = ["ELEMENTWISE", "Values", "tree"]

Shape = tuple[int, ...]
LATEST = 4  # values of which a step takes one
GROWN = 1 << 16  # elements of a matrix


def _norms(o: Any, x: Any, axis: int) -> Any:
    return o.sqrt(o.mean(x * x, axis) + 0.3)


# Of a matrix and of an axis.
STATISTICS: list[Callable[[Any, Any, int], Any]] = [
    lambda o, x, axis: x - o.mean(x, axis),
    lambda o, x, axis: x / o.sqrt(o.var(x, axis) + 0.3),
    lambda o, x, axis: x / _norms(o, x, axis),
    lambda o, x, axis: x * (_norms(o, x, axis) / o.mean(_norms(o, x, axis), 1 - axis)),
    lambda o, x, axis: x + o.sum(x, axis) * x.shape[axis] ** -0.5,
    lambda o, x, axis: x - o.max(x, axis) * 0.5,
    lambda o, x, axis: o.cumsum(x, axis) * x.shape[axis] ** -0.5,
    lambda o, x, axis: o.softmax(x) * x.shape[1] ** 0.5,
]
ELEMENTWISE: list[Callable[[Any, Any], Any]] = [
    lambda o, x: o.tanh(x),
    lambda o, x: o.sigmoid(x),
    lambda o, x: o.exp(x * x * -0.5),
    lambda o, x: o.erf(x) + 0.1,
]


@dataclass
class Values:
    """The values of a program: inputs, and what is made of others, by their numbers.

    Places, which are no values, have the numbers -1, -2, ...
    """

    rng: random.Random
    inputs: list[np.ndarray] = field(default_factory=list)
    places: list[np.ndarray] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    steps: list[tuple[Callable[..., Any] | None, tuple[int, ...]]] = field(default_factory=list)

    def leaf(self, shape: Shape) -> int:
        """An input of normal numbers."""
        self.inputs.append(normal(self.rng, *shape))
        return self.add(None, (len(self.inputs) - 1,), shape)

    def fixed(self, places: np.ndarray) -> int:
        """Places, as an input of integers."""
        self.places.append(places)
        return -len(self.places)

    def add(self, step: Callable[..., Any] | None, of: tuple[int, ...], shape: Shape) -> int:
        self.steps.append((step, of))
        self.shapes.append(shape)
        return len(self.steps) - 1

    def run(self, o: Any, inputs: tuple[Any, ...]) -> list[Any]:
        made: list[Any] = []
        for step, of in self.steps:
            given = (made[n] if n >= 0 else inputs[n] for n in of)
            made.append(inputs[of[0]] if step is None else step(o, *given))
        return made

    def recipe(self, count: int) -> Recipe:
        """The program whose results are the last `count` values."""
        run = lambda o, *inputs: tuple(self.run(o, inputs)[-count:])
        return Recipe(run, [*self.inputs, *reversed(self.places)], len(self.inputs))


@recipe
def tree(rng: random.Random, scale: float) -> Recipe:
    """A product of few steps, three to eight more, and one to three of the last as results."""
    large, other = rng.choice((33, 64, 97, 128, 200)), rng.choice((8, 16, 64, 100))
    sizes = [1, *(max(2, int(size * scale)) for size in (large, other))]
    values, few = Values(rng), rng.choice((1, 2, 3, 8, 16))
    x, y = values.leaf((sizes[1], few)), values.leaf((few, rng.choice(sizes[1:])))
    values.add(lambda o, x, y: x @ y * few**-0.5, (x, y), (sizes[1], values.shapes[y][1]))
    for _ in range(rng.randrange(3, 9)):
        _step(values, rng.choice(range(len(values.steps))[-LATEST:]), sizes)
    return values.recipe(rng.randrange(1, 4))


def _step(values: Values, at: int, sizes: list[int]) -> None:
    """One more value, of the one of number `at` and perhaps another."""
    rng, (n, k) = values.rng, values.shapes[at]
    kind, axis = rng.choice(("product", "product", "gram", "statistic", "statistic", "both",
                             "both", "turned", "elementwise")), rng.randrange(2)  # fmt: skip
    if kind == "product":
        fitting = [i for i, shape in enumerate(values.shapes) if shape[0] == k]
        is_new = not fitting or rng.random() < 0.4
        other = values.leaf((k, rng.choice(sizes))) if is_new else rng.choice(fitting)
        values.add(lambda o, x, y: x @ y * k**-0.5, (at, other), (n, values.shapes[other][1]))
    elif kind == "gram" and n * n <= GROWN:
        values.add(lambda o, x: x @ o.transpose(x, 1, 0) * k**-0.5, (at,), (n, n))
    elif kind == "statistic" and values.shapes[at][axis] > 1:
        statistic = rng.choice(STATISTICS)
        values.add(lambda o, x: statistic(o, x, axis), (at,), (n, k))
    elif kind == "both":
        fitting = [i for i, (m, j) in enumerate(values.shapes) if m in (1, n) and j in (1, k)]
        other, is_sum = rng.choice(fitting), rng.random() < 0.6
        step = (lambda o, x, y: x - y * 0.5) if is_sum else (lambda o, x, y: x * o.tanh(y))
        values.add(step, (at, other), (n, k))
    elif kind == "turned":
        values.add(lambda o, x: o.transpose(x, 1, 0), (at,), (k, n))
    else:
        values.add(rng.choice(ELEMENTWISE), (at,), (n, k))
