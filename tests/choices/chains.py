"""Programs in three parts: where a matrix comes from, what is done to it, what becomes of that.

`chain(rng, scale)` draws a part of each table. A part alone has some choice made in its kernel; in
a row they make choices meet.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from .operations import OfNumpy
from .parts import Part, distributed
from .recipes import RECIPES, Recipe, normal, places, recipe
from .statistics import statistics
from .terms import NUMBERS, TERMS, terms, terms_of

__all__ = ["CORES", "SINKS", "SOURCES", "behind", "chain", "chain_of", "scattered_of"]


def _weights(rng: random.Random, *shape: int) -> np.ndarray:
    return normal(rng, *shape) / np.float32(shape[0] ** 0.5)


# -- where a matrix of n rows and k columns comes from -----------------------------------------


Source = Callable[[random.Random, int, int], Part]
SOURCES: dict[str, Source] = {
    "plain": lambda rng, n, k: Part(lambda o, x: x, [normal(rng, n, k)], 1),
    "terms": terms,
    "every_second": lambda rng, n, k: Part(
        lambda o, x: x[:, ::2] + x[:, 1::2], [normal(rng, n, 2 * k)], 1
    ),
    "mirrored": lambda rng, n, k: Part(lambda o, x: o.flip(x, 1) * 0.5, [normal(rng, n, k)], 1),
    "turned": lambda rng, n, k: Part(lambda o, x: o.transpose(x, 1, 0), [normal(rng, k, n)], 1),
    "rows": lambda rng, n, k: Part(
        lambda o, x, at: o.rows(x, at), [normal(rng, 40, k), places(rng, n, 40)], 1
    ),
    "masked": lambda rng, n, k: Part(
        lambda o, x, mask: o.where(mask, x, 0.0), [normal(rng, n, k), np.tri(n, k, dtype=bool)], 1
    ),
    "padded": lambda rng, n, k: Part(
        lambda o, x: o.pad(x, 1, 2), [normal(rng, n, k - 3)], 1
    ),
    "exponentials": lambda rng, n, k: Part(
        lambda o, x: o.exp(x * 0.5 - 1), [normal(rng, n, k)], 1
    ),
    "errors": lambda rng, n, k: Part(lambda o, x: o.erf(x) + 0.25, [normal(rng, n, k)], 1),
    "halves": lambda rng, n, k: Part(
        lambda o, x: o.single(o.half(x)), [normal(rng, n, k)], 0, True, True
    ),
    "joined": lambda rng, n, k: Part(
        lambda o, x, y: o.cat([x, y * 2], 1),
        [normal(rng, n, k // 2), normal(rng, n, k - k // 2)], 2,
    ),
    "joined_rows": lambda rng, n, k: Part(
        lambda o, x, y: o.cat([x + 1, y], 0),
        [normal(rng, n // 2, k), normal(rng, n - n // 2, k)], 2,
    ),
    "digits": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.transpose(x, 0, 2, 1), n, k),
        [normal(rng, n, 4, k // 4) if k % 4 == 0 else normal(rng, n, k, 1)], 1,
    ),
    "outer": lambda rng, n, k: Part(
        lambda o, x, y: o.tanh(x * y), [normal(rng, n, 1), normal(rng, 1, k)], 2
    ),
    "joined_both_ways": lambda rng, n, k: Part(
        lambda o, x, y, z: o.cat([o.cat([x, y * 2], 1), z], 0),
        [*(normal(rng, -(-n // 2), -(-k // 16) * 8) for _ in range(2)),
         normal(rng, -(-n // 2), -(-k // 16) * 16)], 3,
    ),
    "joined_digits": lambda rng, n, k: Part(
        lambda o, x, y: o.cat([_in_fours(o, x), _in_fours(o, y)], 1),
        [normal(rng, 4 * -(-n // 4), -(-k // 16) * 8) for _ in range(2)], 2,
    ),
    "woven": lambda rng, n, k: Part(
        lambda o, x, y: o.reshape(o.stack([x, y], 2), n, -1)[:, :k],
        [normal(rng, n, (k + 1) // 2), normal(rng, n, (k + 1) // 2)], 2,
    ),
    "woven_whole": lambda rng, n, k: Part(
        lambda o, x, y: o.reshape(o.stack([x, y, x * y], 2), n, -1),
        [normal(rng, n, -(-k // 3)), normal(rng, n, -(-k // 3))], 2,
    ),
    "short_sums": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(x, 2), n, k), [normal(rng, n, k, 4)], 1
    ),
    "normalised": lambda rng, n, k: Part(
        lambda o, x: (x - o.mean(x, -1)) / o.sqrt(o.var(x, -1) + 0.1), [normal(rng, n, k)], 1
    ),
    "normalised_columns": lambda rng, n, k: Part(
        lambda o, x: (x - o.mean(x, 0)) / o.sqrt(o.var(x, 0) + 0.1), [normal(rng, n, k)], 1
    ),
    "softmax": lambda rng, n, k: Part(lambda o, x: o.softmax(x) * 3, [normal(rng, n, k)], 1),
    "totals": lambda rng, n, k: Part(lambda o, x: o.cumsum(x, 1) * 0.1, [normal(rng, n, k)], 1),
    "totals_down": lambda rng, n, k: Part(
        lambda o, x: o.cumsum(x, 0) * 0.1, [normal(rng, n, k)], 1
    ),
    "product": lambda rng, n, k: Part(
        lambda o, x, w: x @ w, [normal(rng, n, 96), _weights(rng, 96, k)], 2
    ),
    "two_products": lambda rng, n, k: Part(
        lambda o, x, w, y, v: x @ w + y @ v,
        [normal(rng, n, 200), _weights(rng, 200, k), normal(rng, n, 64), _weights(rng, 64, k)], 4,
    ),
    "sorted": lambda rng, n, k: Part(lambda o, x: o.sort(x), [normal(rng, n, k)], 0, True),
    "every_third": lambda rng, n, k: Part(
        lambda o, x: x[:, ::3] * 2 - 1, [normal(rng, n, 3 * k - 2)], 1
    ),
    "taken": lambda rng, n, k: Part(
        lambda o, x, at: o.take(x, at, 1),
        [normal(rng, n, k), places(rng, n * k, k).reshape(n, k)], 1,
    ),
    "folded": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.transpose(x, 1, 0), n, k), [normal(rng, n, k)], 1
    ),
    "shifted": lambda rng, n, k: Part(
        lambda o, x: x[1:, 1:] - x[:-1, :-1], [normal(rng, n + 1, k + 1)], 1
    ),
    "scattered": lambda rng, n, k: Part(
        lambda o, x, at, y: o.add_rows(x, at, y),
        [normal(rng, n, k), places(rng, 50, n), normal(rng, 50, k)], 0, True,
    ),
    "masked_product": lambda rng, n, k: Part(
        lambda o, x, w, mask: o.where(mask, x, 0.0) @ w,
        [normal(rng, n, 80), _weights(rng, 80, k), np.tri(n, 80, dtype=bool)], 2,
    ),
}  # fmt: skip


def _in_fours(o: Any, x: Any) -> Any:
    """The rows of a matrix in another order: every fourth, then those behind them."""
    n, k = x.shape
    return o.reshape(o.transpose(o.reshape(x, n // 4, 4, k), 1, 0, 2), n, k)


# -- what is done to it --------------------------------------------------------------------------

Core = Callable[[random.Random, tuple[int, ...]], Part]
CORES: dict[str, Core] = {
    "plain": lambda rng, shape: Part(lambda o, x: x, []),
    "statistics": lambda rng, shape: statistics(rng, shape, 1),
    "statistics_down": lambda rng, shape: statistics(rng, shape, 0),
    "times_a_number": lambda rng, shape: Part(
        lambda o, x, y: x * o.sum(o.exp(y - 1)), [normal(rng, 300)], 1
    ),
    "diagonal": lambda rng, shape: Part(
        lambda o, x: o.sum(o.where(o.on_diagonal(x), x, 0.0), -1), []
    ),
    "picked_columns": lambda rng, shape: Part(lambda o, x: _picked_columns(o, x[:, :48]), []),
    "one_hot_product": lambda rng, shape: Part(
        lambda o, x, at: o.one_hot(at, shape[0]) @ x, [places(rng, 70, shape[0])]
    ),
    "picked_row": lambda rng, shape: Part(
        lambda o, x, at: x * o.sum(o.where(o.transpose(o.is_at(at, shape[0]), 1, 0), x, 0.0), 0),
        [places(rng, 1, shape[0])],
    ),
    "thin_product": lambda rng, shape: Part(
        lambda o, x, w: x[:, :4] @ w, [_weights(rng, 4, rng.choice((96, 260)))], 1
    ),
    "sums_in_blocks": lambda rng, shape: Part(
        lambda o, x: o.reshape(
            o.sum(o.reshape(x, _blocks(shape), shape[0] // _blocks(shape), shape[1]), 1),
            _blocks(shape), shape[1],
        ) * 0.1, [],
    ),
    "normalised_blocks": lambda rng, shape: Part(
        lambda o, x: o.reshape(
            _normalised_blocks(o, o.reshape(x, _blocks(shape), -1, shape[1])), *shape
        ), [],
    ),
    "taken_beside": lambda rng, shape: Part(
        lambda o, x, y, at: o.take(y, at, 1) + o.softmax(x),
        [normal(rng, *shape), places(rng, shape[0] * shape[1], shape[1]).reshape(shape)], 1,
    ),
    "cell": lambda rng, shape: Part(
        lambda o, x, w, y, v: _cell(o, x @ w + y @ v),
        [_weights(rng, shape[1], 192), normal(rng, shape[0], 48), _weights(rng, 48, 192)], 3,
    ),
    "cell_of_a_batch": lambda rng, shape: Part(
        lambda o, x, w, y, v: _cell(
            o, o.reshape(x, 2, -1, x.shape[1]) @ w + o.reshape(y, 2, -1, 48) @ v
        ),
        [_weights(rng, shape[1], 192), normal(rng, shape[0], 48), _weights(rng, 48, 192)], 3,
    ) if shape[0] % 2 == 0 and shape[0] >= 8 else Part(lambda o, x: x, []),
    "cell_of_every_second": lambda rng, shape: Part(
        lambda o, x, w, y: _cell(o, x @ w) * y[:, ::2],
        [_weights(rng, shape[1], 192), normal(rng, shape[0], 96)], 2,
    ),
    "cell_of_digits": lambda rng, shape: Part(
        lambda o, x, w, y: _cell(o, x @ w) + o.reshape(
            o.transpose(o.reshape(y, -1, 12, 4), 0, 2, 1), -1, 48
        ), [_weights(rng, shape[1], 192), normal(rng, shape[0], 48)], 2,
    ),
    "product": lambda rng, shape: Part(
        lambda o, x, w: x @ w, [_weights(rng, shape[1], rng.choice((8, 33, 64, 200)))], 1
    ),
    "product_from_the_left": lambda rng, shape: Part(
        lambda o, x, w: w @ x, [_weights(rng, shape[0], rng.choice((16, 65, 128))).T.copy()], 1
    ),
    "two_products": lambda rng, shape: Part(
        lambda o, x, w, v: x @ w + o.tanh(x) @ v,
        [_weights(rng, shape[1], 48), _weights(rng, shape[1], 48)], 2,
    ),
    "products_side_by_side": lambda rng, shape: Part(
        lambda o, x, w, v: (x @ w) * o.sigmoid(x @ v),
        [_weights(rng, shape[1], 72), _weights(rng, shape[1], 72)], 2,
    ),
    "product_of_product": lambda rng, shape: Part(
        lambda o, x, w, v: o.relu(x @ w) @ v,
        [_weights(rng, shape[1], 40), _weights(rng, 40, 24)], 2,
    ),
    "products_of_columns": lambda rng, shape: Part(
        lambda o, x: o.transpose(x, 1, 0) @ x * (1 / x.shape[0]), []
    ),
    "attention": lambda rng, shape: Part(
        lambda o, x: o.reshape(
            o.attend(*(o.reshape(y, 1, 1, *x.shape) for y in (x * 0.3, x, x + 1)), True), *x.shape
        ), [],
    ),
    "sums": lambda rng, shape: Part(lambda o, x: o.sum(x * x, -1) * 0.1, []),
    "sums_down": lambda rng, shape: Part(lambda o, x: o.sum(x * x, 0) * 0.1, []),
    "variances": lambda rng, shape: Part(lambda o, x: o.var(x, -1), []),
    "variances_down": lambda rng, shape: Part(lambda o, x: o.sqrt(o.var(x, 0) + 0.1), []),
    "mean_and_variance": lambda rng, shape: Part(lambda o, x: o.mean(x, -1) * o.var(x, -1), []),
    "largest": lambda rng, shape: Part(lambda o, x: o.max(x, -1) + x * 0.1, []),
    "places": lambda rng, shape: Part(
        lambda o, x: o.reshape(o.argmax(x, 1), x.shape[0], 1), [], 0, True
    ),
    "places_down": lambda rng, shape: Part(
        lambda o, x: o.take(x, o.reshape(o.argmax(x, 0), 1, x.shape[1]), 0), [], 0, True
    ),
    "softmax": lambda rng, shape: Part(lambda o, x: o.softmax(x), []),
    "normalised": lambda rng, shape: Part(
        lambda o, x: (x - o.mean(x, -1)) / o.sqrt(o.var(x, -1) + 0.1), []
    ),
    "normalised_columns": lambda rng, shape: Part(
        lambda o, x: (x - o.mean(x, 0)) / o.sqrt(o.var(x, 0) + 0.1), []
    ),
    "totals": lambda rng, shape: Part(lambda o, x: o.cumsum(x, 1) * 0.1, []),
    "totals_down": lambda rng, shape: Part(lambda o, x: o.cumsum(x, 0) * 0.1, []),
    "products_down": lambda rng, shape: Part(
        lambda o, x: o.cumprod(1 + x * 0.001, 1), [], 0, True
    ),
    "picked": lambda rng, shape: Part(
        lambda o, x, at: o.reshape(o.pick(x, at), x.shape[0], 1),
        [places(rng, shape[0], shape[1])],
    ),
    "gathered": lambda rng, shape: Part(
        lambda o, x, at: o.rows(x, at), [places(rng, 90, shape[0])]
    ),
    "scattered": lambda rng, shape: Part(
        lambda o, x, at: o.add_rows(x[:20], at, x), [places(rng, shape[0], min(20, shape[0]))],
        0, True,
    ),
    "images": lambda rng, shape: Part(
        lambda o, x, w: o.reshape(
            o.conv(o.reshape(x, *_as_image(x.shape)), w, 1, 1), -1, _as_image(x.shape)[-1]
        ), [_weights(rng, 9 * _as_image(shape)[1], 6).T.copy().reshape(6, -1, 3, 3)], 1,
    ),
    "turned": lambda rng, shape: Part(lambda o, x: o.contiguous(o.transpose(x, 1, 0)), []),
    "mapped": lambda rng, shape: Part(lambda o, x: o.tanh(x) * x, []),
    "folded": lambda rng, shape: Part(
        lambda o, x: o.reshape(o.transpose(x, 1, 0), *shape) + x, []
    ),
    "every_third": lambda rng, shape: Part(lambda o, x: x[:, ::3] * x[:, ::3], []),
    "taken": lambda rng, shape: Part(
        lambda o, x, at: o.take(x, at, 1),
        [places(rng, shape[0] * shape[1], shape[1]).reshape(shape)],
    ),
    "two_sums": lambda rng, shape: Part(lambda o, x: o.sum(x, -1) * o.sum(x * x, -1) * 0.01, []),
    "two_sums_down": lambda rng, shape: Part(
        lambda o, x: o.sum(x, 0) * o.sum(x * x, 0) * 0.01, []
    ),
    "masked_sums": lambda rng, shape: Part(
        lambda o, x, y, mask: o.sum(o.where(mask, x * y, 0.0), -1),
        [normal(rng, *shape), np.tri(*shape, dtype=bool)], 1,
    ),
    "masked_product": lambda rng, shape: Part(
        lambda o, x, w, mask: o.where(mask, x, 0.0) @ w,
        [_weights(rng, shape[1], 56), np.tri(*shape, dtype=bool)], 1,
    ),
    "long_product": lambda rng, shape: Part(
        lambda o, x, w, v: (x @ w) @ v, [_weights(rng, shape[1], 330), _weights(rng, 330, 40)], 2
    ),
    "images_twice": lambda rng, shape: Part(
        lambda o, x, w, v: o.reshape(
            o.conv(o.relu(o.conv(o.reshape(x, *_as_image(shape)), w, 1, 1)), v, 1, 1),
            -1, shape[1],
        ),
        [normal(rng, 16, _as_image(shape)[1], 3, 3) * 0.1, normal(rng, 16, 16, 3, 3) * 0.1], 2,
    ),
    "strided_images": lambda rng, shape: Part(
        lambda o, x, w: o.reshape(
            o.conv(o.reshape(x, *_as_image(shape)), w, 2, 1), -1, (shape[1] + 1) // 2
        ), [normal(rng, 5, _as_image(shape)[1], 3, 3) * 0.1], 1,
    ),
}  # fmt: skip


def _blocks(shape: tuple[int, ...]) -> int:
    """Into how many blocks rows are cut: of some rows each."""
    return next((b for b in (10, 5, 4, 3, 2) if shape[0] % b == 0 and shape[0] > b), 1)


def _normalised_blocks(o: Any, x: Any) -> Any:
    return (x - o.mean(x, 1)) / o.sqrt(o.var(x, 1) + 0.1)


def _picked_columns(o: Any, x: Any) -> Any:
    """The columns of a matrix, each as a sum of which all terms but one are 0."""
    n, k = x.shape
    wide = o.reshape(x, n, 1, k) + 0 * o.reshape(x, n, k, 1)
    return o.reshape(o.sum(o.where(o.on_diagonal(wide), wide, 0.0), -1), n, k)


def _cell(o: Any, gates: Any) -> Any:
    i, f, g, e = (gates[..., at : at + 48] for at in range(0, 192, 48))
    return o.sigmoid(e) * o.tanh(o.sigmoid(f) + o.sigmoid(i) * o.tanh(g))


def _as_image(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Rows as those of channels, where there is a whole number of them."""
    n, k = shape
    channels = next(c for c in (8, 5, 3, 2, 1) if n % c == 0)
    return 1, channels, n // channels, k


# -- what becomes of it --------------------------------------------------------------------------


def _scattered_onto(rng: random.Random, shape: tuple[int, ...]) -> Part:
    """Terms are added to a matrix: a kernel with two nests."""
    number = rng.choice([*NUMBERS, *TERMS])
    return scattered_of(rng, shape, rng.random() < 0.6, number, rng.choice([*TERMS]))


def scattered_of(
    rng: random.Random, shape: tuple[int, ...], each: bool, *names: str
) -> Part:  # fmt: skip
    """Those terms, added row by row or `each` element at a place of its own."""
    added, count = terms_of(rng, 30, shape[1], *names), 30 * shape[1]
    at = places(rng, 30, shape[0]), places(rng, count, shape[0]).reshape(30, -1)

    def run(o: Any, x: Any, *inputs: Any) -> Any:
        values = added.run(o, *inputs[:-1])
        return (o.spread if each else o.add_rows)(x, inputs[-1], values)

    return Part(run, [*added.inputs, at[each]], 0, True, added.loose)


SINKS: dict[str, Core] = {
    "plain": lambda rng, shape: Part(lambda o, x: x, []),
    "sums": lambda rng, shape: Part(lambda o, x: o.sum(x, -1), []),
    "sums_down": lambda rng, shape: Part(lambda o, x: o.sum(x, 0), []),
    "sum": lambda rng, shape: Part(lambda o, x: o.sum(o.tanh(x)), []),
    "every_second": lambda rng, shape: Part(lambda o, x: x[::2] * 2, []),
    "turned": lambda rng, shape: Part(lambda o, x: o.contiguous(o.transpose(x, 1, 0)), []),
    "joined": lambda rng, shape: Part(lambda o, x: o.cat([x, x * 2 + 1], 1), []),
    "woven": lambda rng, shape: Part(lambda o, x: o.stack([x, x * x, 1 - x], 2), []),
    "softmax": lambda rng, shape: Part(lambda o, x: o.softmax(x), []),
    "largest": lambda rng, shape: Part(lambda o, x: x - o.max(x, -1), []),
    "halves": lambda rng, shape: Part(lambda o, x: o.single(o.half(x)), [], 0, True, True),
    "biased": lambda rng, shape: Part(lambda o, x, b: o.relu(x + b), [normal(rng, 1, shape[1])], 1),
    "several": lambda rng, shape: Part(lambda o, x: (x + 1, o.tanh(x), x * 0.25), []),
    "value_and_sums": lambda rng, shape: Part(lambda o, x: (x * 2, o.sum(x, -1), o.sum(x, 0)), []),
    "totals": lambda rng, shape: Part(lambda o, x: o.cumsum(x, 1), []),
    "totals_down": lambda rng, shape: Part(lambda o, x: o.cumsum(x, 0), []),
    "joined_rows": lambda rng, shape: Part(
        lambda o, x, y: o.cat([x, o.tanh(y) + x[:1]], 0), [normal(rng, *shape)], 1
    ),
    "rows_of_several": lambda rng, shape: Part(
        lambda o, x: (o.softmax(x), o.exp(x * 0.1) - o.max(x, -1), x * o.sum(x, -1) * 0.1), []
    ),
    "sums_of_several": lambda rng, shape: Part(
        lambda o, x, y: (o.sum(x * y, -1), o.max(x, -1), o.var(x, -1) if shape[1] > 1 else x),
        [normal(rng, *shape)], 1,
    ),
    "sums_down_of_several": lambda rng, shape: Part(
        lambda o, x, y: (o.sum(x * y, 0), o.max(x, 0), o.sum(o.exp(x * 0.1 - 1), 0)),
        [normal(rng, *shape)], 1,
    ),
    "woven_with_others": lambda rng, shape: Part(
        lambda o, x, y: o.stack([x, y * 2, o.tanh(y)], 2), [normal(rng, *shape)], 1
    ),
    "woven_twice": lambda rng, shape: Part(
        lambda o, x: (o.stack([x, x * x, 1 - x], 2), o.stack([x + 1, x * 3, o.tanh(x)], 2)), []
    ),
    "turned_twice": lambda rng, shape: Part(
        lambda o, x: (o.contiguous(o.transpose(x, 1, 0) * 2), o.transpose(o.tanh(x), 1, 0)), []
    ),
    "scattered_onto": _scattered_onto,
    "totals_of_blocks": lambda rng, shape: Part(
        lambda o, x: o.cumsum(o.reshape(x, _blocks(shape), -1, shape[1]), 2) * 0.1, []
    ),
    "totals_within": lambda rng, shape: Part(
        lambda o, x: o.cumsum(o.reshape(x, shape[0], -1, shape[1] // 2), 1) * 0.1
        if shape[1] % 2 == 0 else x, [],
    ),
    "two_totals": lambda rng, shape: Part(
        lambda o, x: (o.cumsum(x, 1) * 0.1, o.cumsum(x * 2, 0) * 0.1, o.tanh(x)), []
    ),
}  # fmt: skip

ROWS = (6, 16, 33, 64, 100, 257, 640)
COLUMNS = (8, 24, 64, 65, 130, 256, 1003)
VALUES_ALONE = 0.25  # of programs: gradients make kernels store what else is computed in others
LEAST = 4  # rows and columns that a part from the middle needs
LARGE = ((2060, 2112), (3, 40_960), (9_000, 33), (600, 1500), (1030, 1024), (130, 4160))


@recipe
def chain(rng, scale):
    """A part of each table, or two from the middle, at sizes of which some are large."""
    n, k = rng.choice(ROWS), rng.choice(COLUMNS)
    cores = [CORES] * rng.choice((1, 1, 2))
    parts = [rng.choice([*table]) for table in (SOURCES, *cores, SINKS)]
    if scale == 1 and rng.random() < 0.1 and not _EXPENSIVE.intersection(parts):
        n, k = rng.choice(LARGE)
    return chain_of(rng, max(6, int(n * scale)), max(8, int(k * scale)), *parts)


@recipe
def beside(rng, scale):
    """Several terms of one matrix, and what becomes of that: few results, or many."""
    n, k = rng.choice((1, 3, 4, 8, 33, 100)), rng.choice((8, 16, 48, 64, 100, 256))
    if scale == 1 and rng.random() < 0.2:
        n, k = rng.choice(((1030, 640), (1, 2049), (2, 1030)))
    n, k = max(1, int(n * scale)), max(8, int(k * scale))
    cores = rng.choice(([], [], [rng.choice([*CORES])]))
    found = chain_of(rng, n, k, "terms", *cores, rng.choice([*SINKS]))
    return _with_images(rng, found) if rng.random() < 0.1 else found


@recipe
def products_beside(rng, scale):
    """A product that the scheduler takes for a sum, cut into chunks, and other terms."""
    n, k = rng.choice(((2, 200), (3, 64), (4, 16), (7, 4), (7, 5), (7, 64)))
    names = rng.sample([*TERMS], 2)
    first = terms_of(rng, n, k, "masked_products", *names)
    return behind(rng, first, rng.choice([*SINKS]))


@recipe
def scattered_onto_terms(rng, scale):
    """Terms of one matrix, or what is put together, and others that are added at places."""
    n, k = rng.choice((2, 4, 8, 33, 100)), rng.choice((16, 48, 64, 129, 256, 600))
    joined = rng.choice(("joined", "joined_rows", "joined_digits", "joined_both_ways"))
    others = "woven_whole", "turned", joined, rng.choice([*SOURCES])
    source = rng.choice(("terms",) * len(others) + others)
    return chain_of(rng, max(2, int(n * scale)), max(8, int(k * scale)), source, "scattered_onto")


def _with_images(rng: random.Random, program: Recipe) -> Recipe:
    """`program`, and two convolutions in its graph, whose images are stored channels last."""
    images = RECIPES["convolutions_alone"](rng, 1.0)
    count = len(images.inputs)

    def run(o: Any, *inputs: Any) -> Any:
        found = program.run(o, *inputs[count:])
        others = found if isinstance(found, tuple) else (found,)
        return (images.run(o, *inputs[:count]), *others)

    return Recipe(run, [*images.inputs, *program.inputs], 0, program.loose)


# What would take minutes of NumPy's time at the large sizes.
_EXPENSIVE = frozenset((
    "product", "two_products", "products_of_columns", "attention", "images", "sorted",
    "product_from_the_left", "products_side_by_side", "product_of_product", "errors",
    "masked_product", "long_product", "images_twice", "strided_images",
    "one_hot_product", "cell", "cell_of_digits",
))  # fmt: skip


def chain_of(rng: random.Random, n: int, k: int, source: str, *rest: str) -> Recipe:
    """The program of these parts, that begins with `n` rows and `k` columns."""
    return behind(rng, SOURCES[source](rng, n, k), *rest)


def behind(rng: random.Random, first: Part, *rest: str | Core) -> Recipe:
    """The program of `first`, of cores and of a sink, by name or as they are."""
    parts = [first]
    shape = first.run(OfNumpy(), *first.inputs).shape
    for name in rest[:-1]:
        if min(shape) >= LEAST:
            parts.append((CORES[name] if isinstance(name, str) else name)(rng, shape))
            shape = parts[-1].run(OfNumpy(), np.ones(shape), *parts[-1].inputs).shape
    parts.append((SINKS[rest[-1]] if isinstance(rest[-1], str) else rest[-1])(rng, shape))
    whole = distributed(parts)

    def run(o, *inputs):
        x = ()
        for part, own in zip(parts, whole.of_each(inputs), strict=True):
            x = (part.run(o, *x, *own),)
        return x[0]

    graded = 0 if whole.ends or rng.random() < VALUES_ALONE else whole.graded
    return Recipe(run, whole.inputs, graded, whole.loose)
