"""Programs that make two choices meet which no other ones do: products, scans, images.

`MEETINGS[name]()` is a program of a few parts by name, at the size that it takes; other pairs meet
in some of them, too. Values alone, so that as few kernels as can be have as much to do as can be;
with small caches, so that it is little.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from .parts import Part, distributed
from .recipes import Recipe, normal, places
from .terms import TERMS

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
    "masked": lambda rng, n, k: Part(
        lambda o, x, mask: o.where(mask, x, 0.0), [_small(rng, n, k), np.tri(n, k, dtype=bool)]
    ),
    "taken": lambda rng, n, k: Part(
        lambda o, x, at: o.rows(x, at), [_small(rng, 40, k), places(rng, n, 40)]
    ),
    "joined": lambda rng, n, k: Part(
        lambda o, x, y: o.cat([x, y], 1), [_small(rng, n, k // 2), _small(rng, n, k - k // 2)]
    ),
}  # fmt: skip

SINKS: dict[str, Way] = {
    "plain": lambda rng, n, k: Part(lambda o, x: x, []),
    "turned": lambda rng, n, k: Part(lambda o, x: o.contiguous(o.transpose(x, 1, 0)), []),
    "spread_onto": lambda rng, n, k: Part(
        lambda o, x, y, at: o.spread(x, at, y),
        [_small(rng, 30, k), places(rng, 30 * k, n).reshape(30, k)],
    ),
    "and_sums": lambda rng, n, k: Part(lambda o, x: (x, o.sum(x, -1)), []),
}  # fmt: skip


def _small(rng: random.Random, *shape: int) -> np.ndarray:
    return normal(rng, *shape) * np.float32(0.5)


def product(
    seed: int, size: tuple[int, int, int], one: str, other: str, mask: bool, end: str,
    terms: tuple[str, ...], sink: str,
) -> Recipe:  # fmt: skip
    """A product of `size` of `one` by `other`, perhaps one under a mask, with `terms` and a way."""
    rng = random.Random(seed)
    n, k, m = size
    parts = [WAYS[one](rng, n, k), WAYS[other](rng, k, m), WAYS[end](rng, n, m)]
    parts += [TERMS[name](rng, n, m) for name in terms]
    parts.append(SINKS[sink](rng, n, m))
    hidden = np.arange(k).reshape(-1, 1, 1) % 5 > 0

    def run(o: Any, found: list[tuple[Part, list[Any]]], hidden: Any) -> Any:
        x, w, y = (part.run(o, *own) for part, own in found[:3])
        s = _masked(o, x, w, hidden, size) if mask else x @ w
        s = s * 0.1 + y
        for part, own in found[3:-1]:
            s = s + o.tanh(part.run(o, *own))
        part, own = found[-1]
        return part.run(o, s, *own)

    return _of_parts(parts, run, hidden)


def _masked(o: Any, x: Any, w: Any, hidden: Any, size: tuple[int, int, int]) -> Any:
    n, k, m = size
    factors = o.reshape(o.transpose(x, 1, 0), k, n, 1) * o.reshape(w, k, 1, m)
    return o.reshape(o.sum(o.where(hidden, factors, 0.0), 0), n, m)


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


def attention(seed: int, size: tuple[int, int], one: str, other: str, last: str) -> Recipe:
    """Causal attention over so many rows, whose factors come about in these ways."""
    rng = random.Random(seed)
    parts = [WAYS[way](rng, *size) for way in (one, other, last)]

    def run(o: Any, found: list[tuple[Part, list[Any]]], _: Any) -> Any:
        q, k, v = (o.reshape(part.run(o, *own), 1, 1, *size) for part, own in found)
        return o.attend(q, k, v, True)

    return _of_parts(parts, run, np.zeros(1, np.float32))


STATISTICS: dict[str, Way] = {
    "sums_of_sums_of_rows": lambda rng, n, k: Part(
        lambda o, x: o.reshape(o.sum(o.tanh(o.sum(x, 2) * 0.1), 1), n, 1) * 0.1,
        [normal(rng, n, 4, k // 4)],
    ),
    "variances_of_whole_rows": lambda rng, n, k: Part(
        lambda o, x: o.var(x, -1), [normal(rng, n, k)]
    ),
}  # fmt: skip


def scan(
    seed: int, size: tuple[int, int], statistics: tuple[str, ...], names: tuple[str, ...]
) -> Recipe:
    """A scan along rows of the sum of `statistics` and of terms by name."""
    rng = random.Random(seed)
    n, k = size
    parts = [WAYS["plain"](rng, n, k)]
    parts += [STATISTICS[name](rng, n, k) for name in statistics]
    parts += [TERMS[name](rng, n, k) for name in names]

    def run(o: Any, found: list[tuple[Part, list[Any]]], _: Any) -> Any:
        x, *others = (part.run(o, *own) for part, own in found)
        for other in others:
            x = x + o.tanh(other)
        return o.cumsum(x, 1) * 0.1

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


def windows(
    seed: int, size: tuple[int, int, int, int], kernel: int, stride: int, padding: int, end: str
) -> Recipe:
    """A convolution of `size` (images, channels, side, channels of results), and what is added."""
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
        return o.conv(x, w, stride, padding) + o.reshape(y, n, f, out, out)

    return _of_parts(parts, run, np.zeros(1, np.float32))


def _of_parts(parts: list[Part], run: Callable[..., Any], last: np.ndarray) -> Recipe:
    parts = [part._replace(graded=0) for part in parts]
    whole = distributed(parts)

    def run_all(o: Any, *inputs: Any) -> Any:
        found = list(zip(parts, whole.of_each(inputs[:-1]), strict=True))
        return run(o, found, inputs[-1])

    return Recipe(run_all, [*whole.inputs, last], 0, whole.loose)


# What meets in each, and the program. A seed draws the numbers, and what a term leaves open.
MEETINGS: dict[str, Callable[[], Recipe]] = {
    "float64_accumulation and multi_output": lambda: kept_rows(
        50,
        (300, 8, 400, 24),
        "taken",
        "mirrored",
        "every_second",
        "variance",
        "two_and_largest",
        "spread_onto",
    ),
    "lane_scan and nested_reduction": lambda: scan(
        6,
        (40, 64),
        ("sums_of_sums_of_rows", "variances_of_whole_rows"),
        ("sum_of_two_sums", "sums_of_sums_down"),
    ),
    "prefetch_packing and scatter_strips": lambda: product(
        47, (130, 300, 320), "plain", "turned", True, "every_second", (), "spread_onto"
    ),
    "hoist_masks and prefetch_panels": lambda: product(
        66, (260, 256, 96), "every_second", "every_second", True, "padded", (), "plain"
    ),
    "multi_output and split_digits": lambda: kept_rows(
        11,
        (97, 4, 400, 24),
        "plain",
        "taken",
        "digits_of_rows",
        "relu",
        "two_and_largest",
        "and_sums",
    ),
    "skip_padding and strided_lanes": lambda: windows(4, (1, 16, 5, 16), 5, 1, 1, "turned"),
    "padded_rows and prefetch_panels": lambda: windows(8, (2, 300, 9, 17), 1, 2, 0, "digits"),
    "masked_bounds and split_digits": lambda: attention(65, (96, 16), "plain", "digits", "masked"),
    "float64_accumulation and prefetch_packing": lambda: kept_rows(
        75, (97, 8, 400, 24), "masked", "plain", "plain", "variance", "sums_then", "turned"
    ),
    "interleaved_stores and local_intermediates": lambda: kept_rows(
        25, (96, 4, 260, 4), "taken", "joined", "plain", "variance", "two", "turned"
    ),
    "split_digits and stored_statistic": lambda: kept_rows(
        8, (40, 8, 400, 4), "plain", "digits", "every_second_row", "softmax", "two", "turned"
    ),
    "hoist_masks and multi_output": lambda: kept_rows(
        15, (96, 4, 400, 16), "padded", "padded_rows", "plain", "place", "two_ways", "plain"
    ),
    "interleaved_stores and two_level_argmax": lambda: product(
        93,
        (7, 4032, 4),
        "mirrored",
        "plain",
        True,
        "plain",
        ("places_down", "place_of_all"),
        "spread_onto",
    ),
    "interleaved_stores and nested_reduction": lambda: product(
        42, (7, 4032, 4), "turned", "every_second", True, "plain", ("sums_of_sums_down",), "plain"
    ),
    "nested_reduction and swapped_matmul": lambda: product(
        13,
        (7, 4032, 4),
        "mirrored",
        "digits",
        True,
        "plain",
        ("sum_of_axes", "sums_of_sums_down"),
        "plain",
    ),
    "nested_reduction and register_transpose": lambda: product(
        92, (7, 4032, 5), "joined", "every_second", True, "plain", ("sums_of_sums_down",), "plain"
    ),
    "continued_sums and interleaved_stores": lambda: product(
        56,
        (7, 4032, 4),
        "turned",
        "joined",
        True,
        "plain",
        ("sum_of_axes", "sum_of_two_sums"),
        "plain",
    ),
    "continued_sums and swapped_matmul": lambda: product(
        74,
        (7, 4032, 5),
        "plain",
        "every_second",
        True,
        "plain",
        ("sum_of_row_sums", "sum_of_two_sums"),
        "spread_onto",
    ),
    "dual_streams and interleaved_stores": lambda: product(
        10,
        (3, 4032, 100),
        "every_second",
        "padded",
        True,
        "plain",
        ("place_of_all", "sums_of_long_rows"),
        "turned",
    ),
    "lane_results and skip_padding": lambda: windows(65, (1, 1000, 5, 17), 5, 2, 1, "plain"),
    "padded_rows and stored_statistic": lambda: kept_rows(
        14, (40, 6, 260, 16), "digits_of_rows", "joined", "turned", "softmax", "two", "turned"
    ),
    "fused_reduction_output and strided_lanes": lambda: output(1, (304, 516), "every_second"),
}
