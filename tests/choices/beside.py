"""Programs of an output and reductions of what it goes through, beside other fast paths.

`output_and_reductions(rng, scale)` draws a shape, whose rows end within vectors or do not. It draws
an output of plain elements, reductions over some axes of it, of its operands or of a function of
both, and perhaps something that reads the output in another way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .recipes import Recipe, normal, numbers, places, recipe

__all__ = ["beside_of", "output_and_reductions"]

Shape = tuple[int, ...]

OUTPUTS: dict[str, Callable[..., Any]] = {
    "scaled": lambda o, x, z, b: x * 2 + 1,
    "bounded": lambda o, x, z, b: o.relu(x) * z + x,
    "difference": lambda o, x, z, b: (x - z) * 0.25,
    "shifted": lambda o, x, z, b: o.sigmoid(x + b),
    "chosen": lambda o, x, z, b: o.where(x < z, x * b, z * b),
    "copied": lambda o, x, z, b: o.contiguous(x * b),
}
TERMS: dict[str, Callable[..., Any]] = {
    "output": lambda o, y, x, z: y,
    "squares": lambda o, y, x, z: y * y,
    "operand": lambda o, y, x, z: x,
    "error": lambda o, y, x, z: (x - z) * (x - z),
    "product": lambda o, y, x, z: y * z + 0.5,
}
KINDS = ("sum", "mean", "max")
OTHERS = ("nothing", "nothing", "softmax", "running", "product", "places", "turned", "totals")


@recipe
def output_and_reductions(rng, scale):
    sizes = [size for size in SIZES if scale == 1 or size[0] != 1200]
    return beside_of(rng, rng.choice(sizes))


SIZES: list[Shape] = [
    (300, 512), (301, 517), (70000,), (70001,), (4, 20011), (2, 3, 12007), (6, 8, 40, 33),
    (5, 16, 28, 28), (1200, 1000), (200, 30, 31),
]  # fmt: skip


def beside_of(rng: random.Random, shape: Shape) -> Recipe:
    """A program of this shape."""
    output = OUTPUTS[rng.choice([*OUTPUTS])]
    totals = [_total(rng, len(shape)) for _ in range(rng.choice((1, 1, 2, 3)))]
    other = rng.choice(OTHERS) if len(shape) == 2 else "nothing"
    width = shape[-1]
    inputs = [normal(rng, *shape), normal(rng, *shape), normal(rng, width)]
    if other == "product":
        inputs.append(numbers(rng, width, 24))
    if other == "places":
        found = places(rng, shape[0] * width, width).reshape(shape)
        inputs.append(found)

    def run(o, x, z, b, *more):
        y = output(o, x, z, b)
        found = [kind(o, TERMS[term](o, y, x, z), axes) for kind, term, axes in totals]
        return (y, *found, *_beside(o, other, y, more))

    return Recipe(run, inputs, 3)


def _total(rng: random.Random, rank: int) -> tuple[Any, str, tuple[int, ...]]:
    """What combines, of which term, over which axes: of all, of the last ones, or of any."""
    kind, term = rng.choice(KINDS), rng.choice([*TERMS])
    first = rng.randrange(rank)
    some = tuple(axis for axis in range(rank) if rng.random() < 0.6)
    axes = rng.choice([tuple(range(rank)), tuple(range(first, rank)), some or (rank - 1,)])
    return (lambda o, x, over: getattr(o, kind)(x, over)), term, axes


def _beside(o: Any, other: str, y: Any, more: tuple[Any, ...]) -> tuple[Any, ...]:
    """What reads the output in another way."""
    if other == "softmax":
        return (o.softmax(y),)
    if other == "running":
        return (o.cumsum(y * 0.01, 1),)
    if other == "product":
        return (y @ more[0],)
    if other == "places":
        return (o.take(y, more[0], 1),)
    if other == "turned":
        return (o.transpose(y, 1, 0) + 1,)
    return (o.mean(y, 0),) if other == "totals" else ()
