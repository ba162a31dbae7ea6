"""Values that move: axes in another order, parts, joined ones, gathered, sorted, and algebra on it.

`moved(rng, scale)` draws the steps as `tree` does, on values of two to four axes. So each movement
meets each other one, and reductions, scans and products of what they give.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from .recipes import Recipe, places, recipe
from .trees import ELEMENTWISE, Values

__all__ = ["moved"]

LATEST = 3  # values of which a step takes one
MOST = 1 << 17  # elements of a value
SIZES = (1, 2, 3, 5, 16, 33, 64, 100)
Shape = tuple[int, ...]


@recipe
def moved(rng: random.Random, scale: float) -> Recipe:
    """Four to ten steps from two values, and one to three of the last as results."""
    values = Values(rng)
    for _ in range(2):
        values.leaf(_shape(rng, scale))
    for _ in range(rng.randrange(4, 11)):
        of = rng.choice(range(len(values.shapes))[-LATEST:])
        rng.choice(STEPS)(values, of)
    return values.recipe(rng.randrange(1, 4))


def _shape(rng: random.Random, scale: float) -> Shape:
    """Two to four axes, of which the last ones are the longest."""
    large = max(2, int(rng.choice((64, 100, 128, 257)) * scale))
    sizes = [rng.choice(SIZES[:5]) for _ in range(rng.randrange(1, 3))]
    return (*sizes, rng.choice((33, 64)), large) if rng.random() < 0.6 else (*sizes[:1], large)


def _add(values: Values, of: int, step: Callable[[Any, Any], Any], shape: Shape) -> None:
    if 0 < math.prod(shape) <= MOST:
        values.add(step, (of,), shape)


def _axis(values: Values, of: int) -> int:
    return values.rng.randrange(len(values.shapes[of]))


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _along(rank: int, axis: int, part: slice) -> tuple[slice, ...]:
    return tuple(part if number == axis else slice(None) for number in range(rank))


def _permuted(values: Values, of: int) -> None:
    shape = values.shapes[of]
    order = values.rng.sample(range(len(shape)), len(shape))
    _add(values, of, lambda o, x: o.transpose(x, *order), tuple(shape[axis] for axis in order))


def _reshaped(values: Values, of: int) -> None:
    """Two neighbouring axes as one, or one as two."""
    shape, axis = values.shapes[of], _axis(values, of)
    if values.rng.random() < 0.5 and axis + 1 < len(shape) and len(shape) > 2:
        new = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    else:
        factors = [f for f in (2, 3, 4, 5, 8, 10, 11) if shape[axis] % f == 0 and f < shape[axis]]
        if not factors or len(shape) > 3:
            return
        factor = values.rng.choice(factors)
        new = (*shape[:axis], shape[axis] // factor, factor, *shape[axis + 1 :])
    _add(values, of, lambda o, x: o.reshape(x, *new), new)


def _flipped(values: Values, of: int) -> None:
    axis = _axis(values, of)
    _add(values, of, lambda o, x: o.flip(x, axis), values.shapes[of])


def _part(values: Values, of: int) -> None:
    shape, axis, rng = values.shapes[of], _axis(values, of), values.rng
    part = slice(rng.randrange(3), shape[axis] - rng.randrange(3), rng.choice((1, 1, 2, 3)))
    size = len(range(*part.indices(shape[axis])))
    at = _along(len(shape), axis, part)
    _add(values, of, lambda o, x: x[at], _with(shape, axis, size))


def _padded(values: Values, of: int) -> None:
    before, after = values.rng.randrange(4), values.rng.randrange(4)
    *rest, last = values.shapes[of]
    _add(values, of, lambda o, x: o.pad(x, before, after), (*rest, last + before + after))


def _joined(values: Values, of: int) -> None:
    """With what can stand beside it, of which it may be a part."""
    axis, shape = _axis(values, of), values.shapes[of]
    fitting = [
        n for n, other in enumerate(values.shapes)
        if len(other) == len(shape) and _with(other, axis, 1) == _with(shape, axis, 1)
    ]  # fmt: skip
    other = values.rng.choice(fitting)
    size = shape[axis] + values.shapes[other][axis]
    if math.prod(_with(shape, axis, size)) <= MOST:
        values.add(lambda o, x, y: o.cat([x, y], axis), (of, other), _with(shape, axis, size))


def _gathered(values: Values, of: int) -> None:
    shape, axis, rng = values.shapes[of], _axis(values, of), values.rng
    new = _with(shape, axis, rng.choice((shape[axis], 7, 64)))
    if math.prod(new) <= MOST:
        found = values.fixed(places(rng, math.prod(new), shape[axis]).reshape(new))
        values.add(lambda o, x, i: o.take(x, i, axis), (of, found), new)


def _rows(values: Values, of: int) -> None:
    """The first axis in an order of its own, as an embedding has it."""
    first, *rest = values.shapes[of]
    count = values.rng.choice((first, 5, 40))
    if count * math.prod(rest) <= MOST:
        found = values.fixed(places(values.rng, count, first))
        values.add(lambda o, x, i: o.rows(x, i), (of, found), (count, *rest))


def _sorted(values: Values, of: int) -> None:
    shape = values.shapes[of]
    if shape[-1] > 1 and values.rng.random() < 0.5:
        count = values.rng.randrange(1, min(shape[-1], 9))
        _add(values, of, lambda o, x: o.top(x, count), (*shape[:-1], count))
    else:
        _add(values, of, lambda o, x: o.sort(x), shape)


def _scanned(values: Values, of: int) -> None:
    axis = _axis(values, of)
    part = values.shapes[of][axis] ** -0.5
    _add(values, of, lambda o, x: o.cumsum(x, axis) * part, values.shapes[of])


def _reduced(values: Values, of: int) -> None:
    """A reduction, whose axis stays with size 1, or the values less it."""
    axis, shape = _axis(values, of), values.shapes[of]
    function = values.rng.choice((
        lambda o, x: o.sum(x, axis) * shape[axis] ** -0.5,
        lambda o, x: o.max(x, axis),
        lambda o, x: o.mean(x * x, axis),
    ))  # fmt: skip
    if values.rng.random() < 0.4:
        _add(values, of, function, _with(shape, axis, 1))
    else:
        _add(values, of, lambda o, x: x - function(o, x) * 0.5, shape)


def _softmax(values: Values, of: int) -> None:
    shape = values.shapes[of]
    _add(values, of, lambda o, x: o.softmax(x) * shape[-1] ** 0.5, shape)


def _product(values: Values, of: int) -> None:
    """With a matrix for all of a batch, or with itself."""
    *rest, n, k = values.shapes[of]
    rank = len(rest)
    if values.rng.random() < 0.6:
        width = values.rng.choice(SIZES)
        other = values.leaf((k, width))
        if math.prod((*rest, n, width)) <= MOST:
            shape = (*rest, n, width)
            values.add(lambda o, x, y: x @ y * k**-0.5, (of, other), shape)
    else:
        order = (*range(rank), rank + 1, rank)
        step = lambda o, x: x @ o.transpose(x, *order) * k**-0.5
        _add(values, of, step, (*rest, n, n))


def _both(values: Values, of: int) -> None:
    """With values that broadcast to it, or of its shape."""
    shape = values.shapes[of]
    fitting = [
        n for n, other in enumerate(values.shapes)
        if len(other) <= len(shape)
        and all(a in (1, b) for a, b in zip(reversed(other), reversed(shape), strict=False))
    ]  # fmt: skip
    other, is_sum = values.rng.choice(fitting), values.rng.random() < 0.6
    step = (lambda o, x, y: x - y * 0.5) if is_sum else (lambda o, x, y: x * o.tanh(y))
    values.add(step, (of, other), shape)


def _chosen(values: Values, of: int) -> None:
    """Other values before a place of an axis."""
    axis, shape = _axis(values, of), values.shapes[of]
    bound = values.rng.randrange(shape[axis] + 1)
    wide = (shape[axis], *[1] * (len(shape) - 1 - axis))

    def step(o: Any, x: Any) -> Any:
        return o.where(o.reshape(o.places_of(x, axis), *wide) < bound, x, x * -0.5)

    _add(values, of, step, shape)


def _elementwise(values: Values, of: int) -> None:
    _add(values, of, values.rng.choice(ELEMENTWISE), values.shapes[of])


def _stored(values: Values, of: int) -> None:
    _add(values, of, lambda o, x: o.contiguous(x), values.shapes[of])


STEPS: list[Callable[[Values, int], None]] = [
    _permuted, _permuted, _reshaped, _reshaped, _flipped, _part, _padded, _joined, _gathered, _rows,
    _sorted, _scanned, _reduced, _reduced, _softmax, _product, _both, _both, _chosen, _elementwise,
    _stored,
]  # fmt: skip
