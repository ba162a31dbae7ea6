"""Programs that make two choices meet which no other ones do: products, scans, images.

`MEETINGS[name]()` is a program of a few parts by name, at the size that it takes: a row of
meetings.toml, of one of the functions here. Other pairs meet in some of them, too. Values alone, so
that as few kernels as can be have as much to do as can be; with small caches, so that it is little.
"""

from __future__ import annotations

import functools
import random
import tomllib
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .chains import SOURCES, behind, scattered_of
from .parts import Part, distributed
from .recipes import RECIPES, Recipe, normal, places
from .terms import NUMBERS, TERMS, terms_of

__all__ = ["MEETINGS"]

# Matrices of n rows and k columns.
Way = Callable[[random.Random, int, int], Part]
WAYS: dict[str, Way] = {
    "plain": lambda rng, n, k: Part(lambda o, x: x, [_small(rng, n, k)]),
    "turned": lambda rng, n, k: Part(lambda o, x: o.transpose(x, 1, 0), [_small(rng, k, n)]),
    "mirrored": lambda rng, n, k: Part(lambda o, x: o.flip(x, 1), [_small(rng, n, k)]),
    "every_second": lambda rng, n, k: Part(lambda o, x: x[:, ::2], [_small(rng, n, 2 * k)]),
    "every_second_row": lambda rng, n, k: Part(lambda o, x: x[::2], [_small(rng, 2 * n, k)]),
    "padded": lambda rng, n, k: Part(lambda o, x: o.pad(x, 1, 2), [_small(rng, n, k - 3)]),
    "padded_rows": lambda rng, n, k: Part(
        lambda o, x: o.transpose(o.pad(o.transpose(x, 1, 0), 1, 1), 1, 0), [_small(rng, n - 2, k)]
    ),
    "digits": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.transpose(x, 0, 2, 1), n, k), [_small(rng, n, 4, k // 4)]
    ) if k % 4 == 0 else Part(lambda o, x: x, [_small(rng, n, k)]),
    "digits_of_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.transpose(x, 1, 0, 2), n, k), [_small(rng, 4, n // 4, k)]
    ) if n % 4 == 0 else Part(lambda o, x: x, [_small(rng, n, k)]),
    "long_digits_of_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.transpose(x, 1, 0, 2), n, k), [_small(rng, 64, n // 64, k)]
    ) if n % 64 == 0 else Part(lambda o, x: x, [_small(rng, n, k)]),
    "masked": lambda rng, n, k: Part(
        lambda o, x, mask: o.where(mask, x, 0.0), [_small(rng, n, k), np.tri(n, k, dtype=bool)]
    ),
    "taken": lambda rng, n, k: Part(
        lambda o, x, at: o.rows(x, at), [_small(rng, 40, k), places(rng, n, 40)]
    ),
    "joined": lambda rng, n, k: Part(
        lambda o, x, y: o.cat([x, y], 1), [_small(rng, n, k // 2), _small(rng, n, k - k // 2)]
    ),
    # Pieces of eight columns each, side by side again and again.
    "joined_within": lambda rng, n, k: Part(
        lambda o, x, y: o.reshape(o.cat([x[:, :-3], y[:, 3:]], 2), n, k),
        [_small(rng, n, k // 16 + 3, 8), _small(rng, n, k // 16 + 3, 8)],
    ) if k % 16 == 0 else Part(lambda o, x: x, [_small(rng, n, k)]),
    "joined_rows": lambda rng, n, k: Part(
        lambda o, x, y: o.cat([x, y], 0), [_small(rng, n // 2, k), _small(rng, n - n // 2, k)]
    ),
    "woven": lambda rng, n, k: Part(
        lambda o, x, y: o.reshape(o.stack([x, y], 2), n, k), [_small(rng, n, k // 2)] * 2
    ) if k % 2 == 0 else Part(lambda o, x: x, [_small(rng, n, k)]),
}  # fmt: skip

SINKS: dict[str, Way] = {
    "plain": lambda rng, n, k: Part(lambda o, x: x, []),
    "turned": lambda rng, n, k: Part(lambda o, x: o.contiguous(o.transpose(x, 1, 0)), []),
    "in_four_parts": lambda rng, n, k: Part(lambda o, x: o.reshape(x, 4, n // 4, k), []),
    "in_turned_parts": lambda rng, n, k: Part(
        lambda o, x: o.contiguous(o.transpose(o.reshape(x, 4, n // 4, k), 0, 2, 1)), []
    ),
    "spread_onto": lambda rng, n, k: Part(
        lambda o, x, y, at: o.spread(x, at, y),
        [_small(rng, 30, k), places(rng, 30 * k, n).reshape(30, k)],
    ),
    "and_sums": lambda rng, n, k: Part(lambda o, x: (x, o.sum(x, -1)), []),
    # Two sums that no lanes run along are a factor of what is added.
    "far_sums_onto": lambda rng, n, k: Part(
        lambda o, x, y, at, z, w: o.add_rows(x, at, y * o.tanh(o.sum(z[:, 0]) + o.sum(w[:, :, 0]))),
        [_small(rng, 30, k), places(rng, 30, n), _small(rng, 60, 5), _small(rng, 8, 6, 5)],
    ),
    **{
        f"{name}_onto": lambda rng, n, k, name=name: Part(
            lambda o, x, y, at, z: o.spread(x, at, y * o.tanh(NUMBERS[name](o, z))),
            [_small(rng, 30, k), places(rng, 30 * k, n).reshape(30, k), normal(rng, 1, 1103)],
        )
        for name in NUMBERS
    },
    **{
        f"{name}_onto_rows": lambda rng, n, k, name=name: Part(
            lambda o, x, y, at, z: o.add_rows(x, at, y * o.tanh(NUMBERS[name](o, z))),
            [_small(rng, 30, k), places(rng, 30, n), normal(rng, 1, 1103)],
        )
        for name in NUMBERS
    },
}  # fmt: skip


def _small(rng: random.Random, *shape: int) -> np.ndarray:
    return normal(rng, *shape) * np.float32(0.5)


def product(
    seed: int, size: tuple[int, int, int], one: str, other: str, mask: bool, end: str,
    terms: tuple[str, ...], sink: str, made: str = "plain", halves: bool = False,
    places: bool = False,
) -> Recipe:  # fmt: skip
    """A product of `size` of `one` by `other`, perhaps one under a mask, with `terms` and a way.

    The mask is of values that are read, which both factors are under, or about `places`, which one
    of them is under.

    Of `halves` in memory, if they are to be: those are what most matrix units multiply.
    """
    rng = random.Random(seed)
    n, k, m = size
    factors = [WAYS[one](rng, n, k), WAYS[other](rng, k, m)]
    parts = [*(map(_in_halves, factors) if halves else factors), WAYS[end](rng, n, m)]
    parts += [TERMS[name](rng, n, m) for name in terms]
    parts.append(SINKS[sink](rng, n, m))
    values = np.arange(k).reshape(-1, 1, 1) % 5 > 0

    def run(o: Any, found: list[tuple[Part, list[Any]]], values: Any) -> Any:
        x, w, y = (part.run(o, *own) for part, own in found[:3])
        shown = o.reshape(o.places_of(w, 0), k, 1, 1) % 5 > 0 if places else values
        s = _masked(o, x, w, shown, size) if mask else x @ w
        s = s * 0.1 + y
        for part, own in found[3:-1]:
            s = s + o.tanh(part.run(o, *own))
        part, own = found[-1]
        return part.run(o, MADE[made](o, s), *own)

    return replace(_of_parts(parts, run, values), loose=halves)


def _in_halves(part: Part) -> Part:
    """A matrix whose floats are halves in memory, and computed with as float32."""
    kinds = {np.dtype(np.float32): np.dtype(np.float16)}
    inputs = [x.astype(kinds.get(x.dtype, x.dtype)) for x in part.inputs]
    return part._replace(run=lambda o, *own: o.single(part.run(o, *own)), inputs=inputs)


def _masked(o: Any, x: Any, w: Any, shown: Any, size: tuple[int, int, int]) -> Any:
    n, k, m = size
    factors = o.reshape(o.transpose(x, 1, 0), k, n, 1) * o.reshape(w, k, 1, m)
    return o.reshape(o.sum(o.where(shown, factors, 0.0), 0), n, m)


def products(seed: int, size: tuple[int, int, int, int, int]) -> Recipe:
    """Products of halves, a batch of batches: what comes first in memory comes second here."""
    rng = random.Random(seed)
    b, c, n, k, m = size

    def run(o: Any, found: list[tuple[Part, list[Any]]], _: Any) -> Any:
        x, w = (part.run(o, *own) for part, own in found)
        return o.reshape(o.transpose(x, 1, 0, 2, 3), b * c, n, k) @ w

    parts = [
        _in_halves(Part(lambda o, x: x, [_small(rng, *shape)]))
        for shape in ((c, b, n, k), (b * c, k, m))
    ]
    return replace(_of_parts(parts, run, np.zeros(1, np.float32)), loose=True)


BETWEEN: dict[str, Callable[..., Any]] = {
    "relu": lambda o, s, mask: o.relu(s),
    "variance": lambda o, s, mask: s / o.sqrt(o.var(s, -1) + 0.1),
    "softmax": lambda o, s, mask: o.softmax(s),
    "place": lambda o, s, mask: s + o.reshape(o.argmax(s, 1), s.shape[0], 1) * 0.01,
}  # fmt: skip
RESULTS: dict[str, Callable[..., Any]] = {
    "two": lambda o, s, p, v, u: (p @ v, (p * 0.5) @ u),
    "two_ways": lambda o, s, p, v, u: (p @ v, o.tanh(s) @ u),
    "sums_then": lambda o, s, p, v, u: (p @ v, (s / (1 + o.sum(s * s, -1))) @ u),
    "two_and_largest": lambda o, s, p, v, u: (p @ v, p @ u, o.max(s, -1)),
}  # fmt: skip


def kept_rows(
    seed: int, size: tuple[int, int, int, int], one: str, other: str, last: str, between: str,
    results: str, sink: str,
) -> Recipe:  # fmt: skip
    """Products of rows that a kernel keeps: `between` is what is done to them."""
    rng = random.Random(seed)
    n, k, m, d = size
    parts = [WAYS[one](rng, n, k), WAYS[other](rng, k, m), WAYS[last](rng, m, d)]
    parts += [WAYS["plain"](rng, m, d), SINKS[sink](rng, n, d)]

    def run(o: Any, found: list[tuple[Part, list[Any]]], mask: Any) -> Any:
        x, w, v, u = (part.run(o, *own) for part, own in found[:-1])
        s, (part, own) = x @ w, found[-1]
        made = RESULTS[results](o, s, BETWEEN[between](o, s, mask), v, u)
        made = made if isinstance(made, tuple) else (made,)
        first = part.run(o, made[0], *own)
        return (*(first if isinstance(first, tuple) else (first,)), *made[1:])

    return _of_parts(parts, run, np.tri(n, m, dtype=bool))


def attention(
    seed: int, size: tuple[int, int], one: str, other: str, last: str, heads: int = 1
) -> Recipe:
    """Causal attention over so many rows, of as many `heads` in a batch of as many."""
    rng = random.Random(seed)
    parts = [WAYS[way](rng, heads * heads * size[0], size[1]) for way in (one, other, last)]

    def run(o: Any, found: list[tuple[Part, list[Any]]], _: Any) -> Any:
        q, k, v = (o.reshape(part.run(o, *own), heads, heads, *size) for part, own in found)
        return o.attend(q, k, v, True)

    return _of_parts(parts, run, np.zeros(1, np.float32))


# What is made of queries q that are turned, of two matrices for products and one to scale.
OF_TURNED: dict[str, Callable[..., Any]] = {
    "two": lambda o, q, k, u, y: (q @ k, (q * 0.5) @ u),
    # A number for each of the rows, which another kernel reads, too.
    "two_and_scaled": lambda o, q, k, u, y: (
        (q @ k) / (1 + o.sum(q * q, -1)), (q * 0.5) @ u, y / (1 + o.sum(q * q, -1))
    ),
}  # fmt: skip


def turned_queries(
    seed: int, size: tuple[int, int, int, int], results: str, along: bool = False
) -> Recipe:
    """Products of queries whose neighbours are turned by an angle for each place (rotary).

    A kernel keeps their rows, which are of no product in it: it computes them where they are read.
    Their other factors lie `along` the steps, or across.
    """
    rng = random.Random(seed)
    b, t, d, m = size

    def run(o: Any, x: Any, w: Any, *others: Any) -> Any:
        k, u, y, cosine, sine = others
        pairs = o.reshape(x @ w, b, t, d // 2, 2)
        one, two = pairs[..., 0], pairs[..., 1]
        q = o.stack([one * cosine - two * sine, two * cosine + one * sine], -1)
        k, u = (o.transpose(v, 0, 2, 1) if along else v for v in (k, u))
        return OF_TURNED[results](o, o.reshape(q, b, t, d) * 0.1, k, u, y)

    factors = [_small(rng, b, m, d) if along else _small(rng, b, d, m) for _ in range(2)]
    angles = np.outer(np.arange(t), np.geomspace(1, 1e-3, d // 2))
    turns = [each(angles).astype(np.float32) for each in (np.cos, np.sin)]
    inputs = [_small(rng, b, t, 32), _small(rng, 32, d), *factors, _small(rng, b, t, m), *turns]
    return Recipe(run, inputs)


STATISTICS: dict[str, Way] = {
    "sums_of_sums_of_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(o.tanh(o.sum(x, 2) * 0.1), 1), n, 1) * 0.1,
        [normal(rng, n, 4, k // 4)],
    ),
    # So many steps for one result that workers share chunks of them, and not down columns alone.
    "sums_of_many_sums_down": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(o.tanh(o.sum(x, 1) * 0.1), 0), n, k) * 0.1,
        [normal(rng, 100, 20, n, k)],
    ),
    "variances_of_whole_rows": lambda rng, n, k: Part(
        lambda o, x: o.var(x, -1), [normal(rng, n, k)]
    ),
    # Two sums that no lanes run along, the second of which can go on in the first one's register.
    "sums_of_far_steps": lambda rng, n, k: Part(
        lambda o, x, y: o.reshape(o.sum(x, 0) + o.sum(y, (0, 1)), n, 1) * 0.1,
        [normal(rng, 21, n), normal(rng, 5, 6, n)],
    ),
    "number_of_far_steps": lambda rng, n, k: Part(
        lambda o, x, y: o.reshape(o.sum(x[:, 0]) + o.sum(y[:, :, 0]), 1, 1) * 0.1,
        [normal(rng, 60, 5), normal(rng, 8, 6, 5)],
    ),
    "sums_of_every_second": lambda rng, n, k: Part(
        lambda o, x, y, z: o.sum(x[:, ::2] * y * z, -1),
        [normal(rng, n, 256), normal(rng, n, 128), normal(rng, n, 128)],
    ),
    # Rows of whole vectors, more than the last one of small caches holds.
    "sums_of_streams": lambda rng, n, k: Part(
        lambda o, x: o.sum(x, -1) * 0.01,
        [normal(rng, n, max(2048, (66_000 // n + 256) // 256 * 256))],
    ),
    "two_of_a_row": lambda rng, n, k: Part(
        lambda o, x: o.sum(x, -1) * o.max(x[:, :64], -1) * 0.1, [normal(rng, n, 96)]
    ),
    "places_of_long_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.argmax(x, 1), n, 1) * 0.01, [normal(rng, n, 1100)]
    ),
    # The same of whole blocks of vectors, with nothing behind the last one.
    "places_of_whole_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.argmax(x, 1), n, 1) * 0.01, [normal(rng, n, 1024)]
    ),
    "places_down": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.argmax(x, 0), n, 1) * 0.01, [normal(rng, 600, n)]
    ),
    # Columns that are read for their means, and again for what lies above these.
    "deviations_down": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.mean(o.relu(x - o.mean(x, 0)), 0), n, 1), [normal(rng, 200, n)]
    ),
    # Numbers of so many elements that workgroups share chunks of them, alone in their kernel.
    "place_of_very_many": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.argmax(x, 1), 1, 1) * 0.01, [normal(rng, 1, 40_000)]
    ),
    "places_of_very_long_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.argmax(x, 1), n, 1) * 0.00001, [normal(rng, n, 20_000)]
    ),
    "sums_of_very_many_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(x, 0), n, 1) * 0.01, [normal(rng, 20_000, n)]
    ),
    "sum_of_folded": lambda rng, n, k: Part(
        lambda o, x, y: o.sum(o.reshape(o.transpose(x, 1, 0), 1, 300) * y, -1) * 0.1,
        [normal(rng, 12, 25), normal(rng, 1, 300)],
    ),
    # Whole rows of zeros, element by element beside columns.
    "rows_by_columns": lambda rng, n, k: Part(
        lambda o, x, y: o.sum(
            WAYS["padded_rows"](rng, n, 24).run(o, x) * o.transpose(y, 1, 0), -1
        ), [normal(rng, n - 2, 24), normal(rng, 24, n)],
    ) if n > 2 else WAYS["plain"](rng, n, 1),
    "sums_of_digits": lambda rng, n, k: Part(
        lambda o, x: o.sum(o.tanh(o.reshape(o.transpose(x, 1, 0, 2), n, 96)), -1) * 0.1,
        [normal(rng, 4, n // 4, 96)],
    ) if n % 4 == 0 else WAYS["plain"](rng, n, 1),
}  # fmt: skip

# What becomes of a matrix, element by element or with statistics of its own rows.
MADE: dict[str, Callable[..., Any]] = {
    "plain": lambda o, x: x,
    "relu": lambda o, x: o.relu(x),
    "exponentials": lambda o, x: o.exp(x * 0.5 - 1),
    "softmax": lambda o, x: o.softmax(x) * 3,
    "normalised": lambda o, x: (x - o.mean(x, -1)) / o.sqrt(o.var(x, -1) + 0.1),
    # The rows are read once for the mean, once for what lies above it, and once for the results.
    "deviations": lambda o, x: (x - o.mean(x, -1)) / (o.mean(o.relu(x - o.mean(x, -1)), -1) + 0.1),
    # Reductions that need another one of the row.
    "place": lambda o, x: x + o.reshape(o.argmax(x - o.mean(x, -1), 1), x.shape[0], 1) * 0.01,
    "sums_of_parts": lambda o, x: x * o.reshape(
        o.sum(o.tanh(o.sum(o.reshape(x - o.mean(x, -1), x.shape[0], 4, -1), 2)), 1), -1, 1
    ),
}  # fmt: skip
ENDS: dict[str, Callable[..., Any]] = {
    "plain": lambda o, x, y, at: x,
    "two": lambda o, x, y, at: (x, x * y),
    "turned": lambda o, x, y, at: o.contiguous(o.transpose(x, 1, 0)),
    "woven": lambda o, x, y, at: o.stack([x, x * y, 1 - x], 2),
    "joined": lambda o, x, y, at: o.cat([x, y], 1),
    "joined_rows": lambda o, x, y, at: o.cat([x, y], 0),
    "product": lambda o, x, y, at: x @ o.transpose(y, 1, 0),
    "spread_onto": lambda o, x, y, at: o.spread(x, at, y[:30]),
    "spread_rows_onto": lambda o, x, y, at: o.add_rows(x, at[:, 0], y[:30]),
    # Two sums that no lanes run along are a factor of what is added.
    "far_sums_onto": lambda o, x, y, at: o.add_rows(
        x, at[:, 0], y[:30] * o.tanh(
            o.sum(y[:, 0]) + o.sum(o.reshape(y, 2, -1, y.shape[1])[:, :, 1])
        ),
    ),
    "and_sums": lambda o, x, y, at: (x, o.sum(x, -1)),
    "and_places": lambda o, x, y, at: (x, o.argmax(x, 1)),
    "and_total_of_both": lambda o, x, y, at: (x, o.sum(x) + o.sum(x * x)),
    "and_both": lambda o, x, y, at: (x, o.sum(x, -1) + o.sum(x * x, -1)),
    "and_picked": lambda o, x, y, at: (
        x, o.sum(o.where(o.is_at(at[0, :1], x.shape[1]), x, 0.0), -1)
    ),
    "totals_down": lambda o, x, y, at: o.cumsum(x, 0) * 0.1,
}  # fmt: skip


def rows(
    seed: int, size: tuple[int, int], way: str, made: str, statistics: tuple[str, ...],
    terms: tuple[str, ...], end: str,
) -> Recipe:  # fmt: skip
    """A matrix that comes about in a `way`, `made` into another; `statistics` are of other rows."""
    rng = random.Random(seed)
    n, k = size
    parts = [WAYS[way](rng, n, k), WAYS["plain"](rng, n, k)]
    parts += [STATISTICS[name](rng, n, k) for name in statistics]
    parts += [TERMS[name](rng, n, k) for name in terms]
    count = min(30, n)

    def run(o: Any, found: list[tuple[Part, list[Any]]], at: Any) -> Any:
        x, y, *others = (part.run(o, *own) for part, own in found)
        x = MADE[made](o, x)
        for other in others:
            x = x * o.tanh(other)
        return ENDS[end](o, x, y, at)

    return _of_parts(parts, run, places(rng, count * k, n).reshape(count, k))


def scan(
    seed: int, size: tuple[int, int], statistics: tuple[str, ...], terms: tuple[str, ...],
    kind: str = "sums",
) -> Recipe:  # fmt: skip
    """A scan along rows of the sum of `statistics` and of terms by name: of sums or products."""
    rng = random.Random(seed)
    n, k = size
    parts = [WAYS["plain"](rng, n, k)]
    parts += [STATISTICS[name](rng, n, k) for name in statistics]
    parts += [TERMS[name](rng, n, k) for name in terms]

    def run(o: Any, found: list[tuple[Part, list[Any]]], _: Any) -> Any:
        x, *others = (part.run(o, *own) for part, own in found)
        for other in others:
            x = x + o.tanh(other)
        return o.cumsum(x, 1) * 0.1 if kind == "sums" else o.cumprod(1 + x * 0.001, 1)

    return _of_parts(parts, run, np.zeros(1, np.float32))


def output(seed: int, size: tuple[int, int], way: str) -> Recipe:
    """Elements of a matrix that comes about in a `way`, and sums of its rows."""
    parts = [WAYS[way](random.Random(seed), *size)]

    def run(o: Any, found: list[tuple[Part, list[Any]]], _: Any) -> Any:
        ((part, own),) = found
        x = part.run(o, *own)
        y = o.relu(x) + x * 0.5
        return y, o.sum(y, -1)

    return _of_parts(parts, run, np.zeros(1, np.float32))


# The order in which results of images are stored: (image, channel, row, column) becomes this.
ORDERS = {
    "plain": (0, 1, 2, 3), "images_last": (1, 2, 3, 0), "channels_last": (0, 2, 3, 1),
    "pixels_first": (2, 3, 1, 0),
}  # fmt: skip


def windows(
    seed: int, size: tuple[int, int, int, int], kernel: int, stride: int, padding: int, end: str,
    made: str = "plain", order: str = "plain", graded: int = 0,
) -> Recipe:  # fmt: skip
    """A convolution of `size` (images, channels, side, channels of results), and what is added.

    `graded`: 1 with the gradient of the images, 2 with that of the weights, too.
    """
    rng = random.Random(seed)
    n, c, side, f = size
    out = (side + 2 * padding - kernel) // stride + 1
    parts = [
        Part(lambda o, x: x, [normal(rng, n, c, side, side)]),
        Part(lambda o, w: w, [normal(rng, f, c, kernel, kernel) / np.float32(c * 9) ** 0.5]),
        WAYS[end](rng, n * f * out, out),
    ]

    def run(o: Any, found: list[tuple[Part, list[Any]]], _: Any) -> Any:
        x, w, y = (part.run(o, *own) for part, own in found)
        made_of = MADE[made](o, o.conv(x, w, stride, padding) + o.reshape(y, n, f, out, out))
        return made_of if order == "plain" else o.contiguous(o.transpose(made_of, *ORDERS[order]))

    return replace(_of_parts(parts, run, np.zeros(1, np.float32)), graded=graded)


# Images of n, c, side, side from a matrix of as many elements, of which a convolution is taken.
IMAGES: dict[str, Callable[..., Any]] = {
    "plain": lambda o, x, n, c, side: o.reshape(x, n, c, side, side),
    "tanh": lambda o, x, n, c, side: o.tanh(o.reshape(x, n, c, side, side)),
    "images_last": lambda o, x, n, c, side: o.transpose(o.reshape(x, c, side, side, n), 3, 0, 1, 2),
    "pixels_first": lambda o, x, n, c, side: o.transpose(
        o.reshape(x, side, side, n, c), 2, 3, 0, 1
    ),
    "every_second": lambda o, x, n, c, side: o.reshape(
        o.reshape(x, -1, 2)[:, :1], n, c, side, side
    ),
}  # fmt: skip


def strided(
    seed: int, size: tuple[int, int, int, int], kernel: int, stride: int, padding: int, images: str,
    weighted: bool = False,
) -> Recipe:  # fmt: skip
    """A convolution as `windows` has it, with the gradient of its images: zeros between strides.

    The images are `weighted` with exponentials of others, or as they are.
    """
    rng = random.Random(seed)
    n, c, side, f = size
    count = n * c * side * side * (2 if images == "every_second" else 1)
    inputs = [normal(rng, count), normal(rng, f, c, kernel, kernel) / np.float32(c * 9) ** 0.5]

    def run(o: Any, x: Any, w: Any, *weights: Any) -> Any:
        made = IMAGES[images](o, x, n, c, side)
        for y in weights:
            made = made * o.exp(IMAGES[images](o, y, n, c, side) * 0.5 - 1)
        return o.conv(made, w, stride, padding)

    return Recipe(run, [*inputs, *([normal(rng, count)] if weighted else [])], 1)


# What is added to a matrix x of n by k elements, from another one of twice as many columns.
ADDED: dict[str, Callable[..., Any]] = {
    "digits": lambda o, x, z: o.reshape(
        o.transpose(o.reshape(z[:, : x.shape[1]], x.shape[0], 4, -1), 0, 2, 1), *x.shape
    ),
    # One loop meets the beginning of each row twice.
    "both_halves": lambda o, x, z: z[:, : x.shape[1]] * z[:, ::2],
    # The same without steps between lanes, of which some vectors make one: every second block.
    "every_second_block": lambda o, x, z: z[:, : x.shape[1]] * o.reshape(
        o.reshape(z, x.shape[0], -1, 32)[:, :, :16], *x.shape
    ),
    # Pieces of which nothing is loaded, so that no masks are around loads.
    "pieces": lambda o, x, z: x * o.cat([_counted(o, x, 1), _counted(o, x, 1) * 2 + 1], 0),
    "pieces_of_rows": lambda o, x, z: x * o.reshape(
        o.cat([_counted(o, x, 0), _counted(o, x, 0) * 2 + 1], 0), -1, 1
    ),
}  # fmt: skip
TOTALS: dict[str, Callable[..., Any]] = {
    "sum": lambda o, x, at: o.sum(x),
    "sums": lambda o, x, at: o.sum(x, -1),
    "sums_and_picked": lambda o, x, at: o.sum(x, -1) * o.sum(
        o.where(o.is_at(at, x.shape[1]), x, 0.0), -1
    ),
}  # fmt: skip


def _counted(o: Any, x: Any, axis: int) -> Any:
    """Half as many numbers as an axis has places."""
    return o.places_of(x, axis)[: x.shape[axis] // 2] * 0.01


def output_beside(
    seed: int, size: tuple[int, int], added: tuple[str, ...], totals: tuple[str, ...]
) -> Recipe:
    """A matrix with others `added`, and totals of the matrix that one pass may compute."""
    rng = random.Random(seed)
    n, k = size

    def run(o: Any, x: Any, z: Any, at: Any) -> Any:
        y = x * 2
        for name in added:
            y = y + ADDED[name](o, x, z)
        return (y, *(TOTALS[name](o, x, at) for name in totals))

    return Recipe(run, [normal(rng, n, k), normal(rng, n, 2 * k), places(rng, n, k)])


def woven_twice(seed: int, size: tuple[int, int]) -> Recipe:
    """Two results of one size, each of which is woven."""
    rng = random.Random(seed)
    run = lambda o, x, y: (o.stack([x, y], 2), o.stack([x * y, y + 1], 2))
    return Recipe(run, [normal(rng, *size), normal(rng, *size)])


def columns_twice(seed: int, size: tuple[int, int]) -> Recipe:
    """Two results that each have a number for each column of one matrix."""
    rng = random.Random(seed)
    run = lambda o, x, y: (o.sum(x * y, 0) * 0.1, o.max(x, 0))
    return Recipe(run, [normal(rng, *size), normal(rng, *size)])


def scan_of_pieces(seed: int, size: tuple[int, int, int]) -> Recipe:
    """A scan down the columns of each matrix, in two pieces of as many matrices."""
    rng = random.Random(seed)
    run = lambda o, x, y: o.cumsum(o.cat([x, y], 0), 1) * 0.1
    return Recipe(run, [normal(rng, *size), normal(rng, *size)])


def _of_parts(parts: list[Part], run: Callable[..., Any], last: np.ndarray) -> Recipe:
    parts = [part._replace(graded=0) for part in parts]
    whole = distributed(parts)

    def run_all(o: Any, *inputs: Any) -> Any:
        found = list(zip(parts, whole.of_each(inputs[:-1]), strict=True))
        return run(o, found, inputs[-1])

    return Recipe(run_all, [*whole.inputs, last], 0, whole.loose)


def beside(
    seed: int, size: tuple[int, int], terms: tuple[str, ...], cores: tuple[str, ...], sink: str,
    stream: bool = False,
) -> Recipe:  # fmt: skip
    """Terms of one matrix, what is done to it, and what becomes of that.

    With a `stream`, a factor of all is a sum over a part of memory that small caches do not hold.
    """
    rng = random.Random(str(seed))
    part = terms_of(rng, *size, *terms)
    part = _times_a_stream(rng, part) if stream else part
    return replace(behind(rng, part, *cores, sink), graded=0)


def _times_a_stream(rng: random.Random, part: Part) -> Part:
    return part._replace(
        run=lambda o, x, *own: part.run(o, *own) * o.tanh(o.sum(x[:, :20_480], -1) * 0.01),
        inputs=[normal(rng, 1, 70_000), *part.inputs],
    )


def onto(
    seed: int, size: tuple[int, int], first: str | tuple[str, ...], terms: tuple[str, ...],
    each: bool,
) -> Recipe:  # fmt: skip
    """Terms that are added at places, to `first`: a source by its name, or terms."""
    rng = random.Random(str(seed))
    is_source = isinstance(first, str)
    part = SOURCES[first](rng, *size) if is_source else terms_of(rng, *size, *first)
    sink = lambda rng, shape: scattered_of(rng, shape, each, *terms)
    return replace(behind(rng, part._replace(ends=True), sink), graded=0)


def chained(
    seed: int, size: tuple[int, int], source: str, cores: tuple[str, ...], sink: str
) -> Recipe:
    """A program in parts (chains.py), with gradients if it has such."""
    rng = random.Random(str(seed))
    return behind(rng, SOURCES[source](rng, *size), *cores, sink)


def drawn(seed: int, name: str) -> Recipe:
    """The program of a recipe by its name, as it is drawn from a seed."""
    return RECIPES[name](random.Random(zlib.crc32(name.encode()) + seed), 1.0)


OF = {
    f.__name__: f
    for f in (
        attention, beside, chained, columns_twice, drawn, kept_rows, onto, output, output_beside,
        product, products, rows, scan, scan_of_pieces, strided, turned_queries, windows,
        woven_twice,
    )
}  # fmt: skip


def _program(row: dict[str, Any]) -> Recipe:
    given = {k: _fixed(v) for k, v in row["given"].items()}
    made = OF[row["of"]](**given)
    return replace(made, captured=row.get("captured", False), images=row.get("images", False))


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_ROWS = tomllib.loads((Path(__file__).parent / "meetings.toml").read_text(encoding="utf-8"))
MEETINGS: dict[str, Callable[[], Recipe]] = {
    row["meets"]: functools.partial(_program, row) for row in _ROWS["program"]
}
