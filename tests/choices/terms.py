"""Matrices that one kernel computes from inputs of its own, several of which it adds up.

`terms(rng, n, k)` draws two or three. Each alone has some choice made for it; in the loops of one
kernel these choices meet, as those of reductions of different kinds do for one result.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from .parts import Part, distributed
from .recipes import normal, places

__all__ = ["NUMBERS", "TERMS", "terms", "terms_of"]

Term = Callable[[random.Random, int, int], Part]
MANY, FEW_RESULTS, MANY_RESULTS = (700, 1003, 1500), 600, 60_000


def _steps(rng: random.Random, n: int, k: int) -> int:
    """How many steps a reduction has: few, or so many that workers share them."""
    if n * k > MANY_RESULTS:
        return rng.choice((3, 8, 12))
    return rng.choice(
        (3, rng.choice((4, 8)), 20, 40, rng.choice(MANY) if n * k <= FEW_RESULTS else 70)
    )


TERMS: dict[str, Term] = {
    "sums_down": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(x, 0), n, k) * 0.1, [normal(rng, _steps(rng, n, k), n, k)], 1
    ),
    "sums_along": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(x, 2), n, k) * 0.1, [normal(rng, n, k, _steps(rng, n, k))], 1
    ),
    "sums_of_eight": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(o.tanh(x), 2), n, k) * 0.1,
        [normal(rng, n, k, rng.choice((4, 8)))], 1,
    ),
    "costly_sums_down": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(o.exp(x * 0.1 - 1), 0), n, k) * 0.1,
        [normal(rng, _steps(rng, n, k), n, k)], 1,
    ),
    "sums_across": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(x, 1), n, k) * 0.1, [normal(rng, n, _steps(rng, n, k), k)], 1
    ),
    "variances_down": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.var(x, 0), n, k), [normal(rng, _steps(rng, n, k), n, k)], 1
    ),
    "variances_along": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.var(x, 2), n, k), [normal(rng, n, k, _steps(rng, n, k))], 1
    ),
    "masked_sums": lambda rng, n, k: Part(
        lambda o, x, y, mask: o.reshape(o.sum(o.where(mask, x * y, 0.0), 2), n, k),
        [*_pair(rng, n, k, 24), np.tri(k, 24, dtype=bool)], 2,
    ),
    "padded_products": lambda rng, n, k: Part(
        lambda o, x, y: o.reshape(o.sum(o.pad(x, 1, 2) * o.pad(y, 1, 2), 2), n, k),
        _pair(rng, n, k, 24), 2,
    ),
    "masked_sums_down": lambda rng, n, k: Part(
        lambda o, x, y, mask: o.reshape(o.sum(o.where(mask, x * y, 0.0), 0), n, k) * 0.1,
        [*_pair(rng, 30, n, k), np.tri(n, k, dtype=bool)], 2,
    ),
    # No products for the scheduler, since masks are around them: those of a kernel with others.
    "masked_products": lambda rng, n, k: _masked_products(rng, n, k, 0, 1),
    "masked_products_of_wide_rows": lambda rng, n, k: _masked_products(rng, n, k, 150, 1),
    "masked_products_apart": lambda rng, n, k: _masked_products(rng, n, k, 0, 2),
    "masked_products_of_fewer_steps": lambda rng, n, k: _masked_products(rng, n, k, 0, 2, 400),
    "sums_of_sums": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(o.tanh(o.sum(x, 3)), 2), n, k) * 0.1,
        [normal(rng, n, k, 5, 40)], 1,
    ),
    "sums_of_sums_down": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(o.tanh(o.sum(x, 1)), 0), n, k) * 0.1,
        [normal(rng, 5, 20, n, k)], 1,
    ),
    "places_along": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.argmax(x, 2), n, k) * 0.01,
        [normal(rng, n, k, _steps(rng, n, k))], 0, True,
    ),
    "places_down": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.argmax(x, 0), n, k) * 0.01,
        [normal(rng, 600 if n * k <= MANY_RESULTS else 20, n, k)], 0, True,
    ),
    "sums_of_long_rows": lambda rng, n, k: Part(
        lambda o, x, y, z, w: o.sum(x * y + z * w, -1) * 0.01,
        [normal(rng, n, 8192 if n <= 33 else 256) for _ in range(4)], 4,
    ),
    # The loops of the second sum become one, which is newer than that of the first: it goes on.
    "sum_of_two_sums": lambda rng, n, k: Part(
        lambda o, x, y: (
            o.reshape(o.sum(x, 0), n, k) + o.reshape(o.sum(y, (0, 1)), n, k)
        ) * 0.1, [normal(rng, 21, n, k), normal(rng, 5, 6, n, k)], 2,
    ),
    "sums_of_wide_rows": lambda rng, n, k: Part(
        lambda o, x: o.sum(x, -1) * 0.01,
        [normal(rng, n, max(90, 66_000 // n) if n >= 8 else 90)], 1,
    ),
    "largest_of_rows": lambda rng, n, k: Part(lambda o, x: o.max(x, -1), [normal(rng, n, 90)], 1),
    "places_of_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.argmax(x, 1), n, 1) * 0.01, [normal(rng, n, 1100)], 0, True
    ),
    "variances_of_rows": lambda rng, n, k: Part(lambda o, x: o.var(x, -1), [normal(rng, n, 90)], 1),
    "sums_of_columns": lambda rng, n, k: Part(lambda o, x: o.sum(x, 0), [normal(rng, 30, k)], 1),
    "sum_of_all": lambda rng, n, k: Part(lambda o, x: o.sum(o.tanh(x)), [normal(rng, 300)], 1),
    "softmax": lambda rng, n, k: Part(lambda o, x: o.softmax(x), [normal(rng, n, k)], 1),
    "normalised": lambda rng, n, k: Part(
        lambda o, x: (x - o.mean(x, -1)) / o.sqrt(o.var(x, -1) + 0.1), [normal(rng, n, k)], 1
    ),
    "taken": lambda rng, n, k: Part(
        lambda o, x, at: o.take(x, at, 1),
        [normal(rng, n, 80), places(rng, n * k, 80).reshape(n, k)], 1,
    ),
    "picked": lambda rng, n, k: Part(
        lambda o, x, at: o.sum(o.where(o.is_at(at, 60), x, 0.0), -1),
        [normal(rng, n, 60), places(rng, n, 60)], 1,
    ),
    "picked_down": lambda rng, n, k: Part(
        lambda o, x, at: o.reshape(
            o.sum(o.where(o.reshape(o.is_at(at, 30), n, 30, 1), x, 0.0), 1), n, k
        ), [normal(rng, n, 30, k), places(rng, n, 30)], 1,
    ),
    "rows": lambda rng, n, k: Part(
        lambda o, x, at: o.rows(x, at), [normal(rng, 30, k), places(rng, n, 30)], 1
    ),
    "every_second": lambda rng, n, k: Part(lambda o, x: x[:, ::2], [normal(rng, n, 2 * k)], 1),
    "folded": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.transpose(x, 1, 0), n, k), [normal(rng, n, k)], 1
    ),
    "joined": lambda rng, n, k: Part(
        lambda o, x, y: o.cat([x, y], 1),
        [normal(rng, n, k // 2), normal(rng, n, k - k // 2)], 2,
    ),
    "joined_rows": lambda rng, n, k: Part(
        lambda o, x, y: o.cat([x, y], 0)[:n],
        [normal(rng, n // 2, k), normal(rng, n - n // 2, k)] if n > 1 else _pair(rng, 1, k), 2,
    ),
    "part_of_rows": lambda rng, n, k: Part(
        lambda o, x: x[:, 3 : k + 3] * 2, [normal(rng, n, k + 40)], 1
    ),
    "padded": lambda rng, n, k: Part(lambda o, x: o.pad(x, 1, 2), [normal(rng, n, k - 3)], 1),
    "mirrored": lambda rng, n, k: Part(lambda o, x: o.flip(x, 1) * 0.5, [normal(rng, n, k)], 1),
    "turned": lambda rng, n, k: Part(lambda o, x: o.transpose(x, 1, 0), [normal(rng, k, n)], 1),
    "halves": lambda rng, n, k: Part(
        lambda o, x: o.single(o.half(x)), [normal(rng, n, k)], 0, True, True
    ),
}  # fmt: skip


def _masked_products(
    rng: random.Random, n: int, k: int, before: int, apart: int, most: int = 4032
) -> Part:
    """Factors are parts of rows that are so much wider, and elements so far apart.

    The mask is about places, so that one factor alone is under it: values that are read would mask
    both (optimize/hoist_masks).
    """
    steps = most if n * k <= FEW_RESULTS or most == 400 else 40
    steps = steps if n * k <= MANY_RESULTS else 6

    def run(o: Any, x: Any, w: Any) -> Any:
        mask = o.reshape(o.places_of(x, 0), steps, 1, 1) % 5 > 0
        x, w = x[:, before:], w[:, ::apart]
        factors = o.reshape(x, steps, n, 1), o.reshape(w, steps, 1, k)
        one, other = factors[::-1] if before else factors  # the mask goes to the first
        return o.reshape(o.sum(o.where(mask, one * other, 0.0), 0), n, k) * 0.01

    inputs = [normal(rng, steps, n + before), normal(rng, steps, apart * k)]
    return Part(run, inputs, 2)


NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "variance_of_all": lambda o, x: o.var(x, -1),
    "place_of_all": lambda o, x: o.argmax(x, -1) * 0.01,
    "largest_of_all": lambda o, x: o.max(x, -1) * o.sum(o.exp(x * 0.1), -1) * 0.01,
    "sum_of_every_second": lambda o, x: o.sum(x[:, ::2], -1) * 0.1,
    "sum_of_few": lambda o, x: o.sum(x[:, :7], -1),
    "masked_sum_of_all": lambda o, x: o.sum(o.where(x > 0, x * x, 0.0), -1) * 0.1,
    "sum_of_axes": lambda o, x: o.sum(o.tanh(o.reshape(x[:, :300], 3, 5, 20)[:, :4])),
    "padded_product": lambda o, x: o.sum(o.pad(x, 2, 1) * o.pad(x, 2, 1), -1) * 0.1,
    "sum_of_row_sums": lambda o, x: o.sum(o.tanh(o.sum(o.reshape(x[:, :300], 6, 50), -1) * 0.1), 0),
    "sum_of_many": lambda o, x: o.sum(x, -1) * 0.01,
    "sum_of_both": lambda o, x: o.sum(x, -1) + o.sum(x[:, :290] * 2, -1),
}


def _number(name: str, rng: random.Random) -> Part:
    """One number, which nearly every kernel can compute for itself."""
    number, ends = NUMBERS[name], name == "place_of_all"
    size = 1 << 15 if name == "sum_of_many" else rng.choice((300, 1103))
    return Part(
        lambda o, x: o.reshape(number(o, x), 1, 1), [normal(rng, 1, size)],
        0 if ends else 1, ends,
    )  # fmt: skip


TERMS.update({name: lambda rng, n, k, name=name: _number(name, rng) for name in NUMBERS})


def _pair(rng: random.Random, *shape: int) -> list[np.ndarray]:
    return [normal(rng, *shape), normal(rng, *shape)]


def terms(rng: random.Random, n: int, k: int) -> Part:
    """Two or three of the table, added up or multiplied."""
    names = rng.sample([*TERMS], rng.choice((2, 2, 3)))
    return terms_of(rng, n, k, *names)


def terms_of(rng: random.Random, n: int, k: int, *names: str) -> Part:
    """Those of the table, added up or multiplied; with a matrix, so that it is one of n by k."""
    matrix = Part(lambda o, x: x, [normal(rng, n, k)], 1)
    parts = [matrix, *(TERMS[name](rng, n, k) for name in names)]
    whole, multiplied = distributed(parts), rng.choice((False, True))

    def run(o: Any, *inputs: Any) -> Any:
        pairs = zip(parts, whole.of_each(inputs), strict=True)
        first, *others = (part.run(o, *own) for part, own in pairs)
        for other in others:
            first = first * o.tanh(other) if multiplied else first + other
        return first

    return Part(run, whole.inputs, whole.graded, whole.ends, whole.loose)
