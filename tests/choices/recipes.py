"""Programs that reach choices: each a function of its operations and inputs, at a size that does.

`RECIPES[name](rng, scale)` gives a Recipe whose sizes are drawn from `rng`: whole tiles, and one
more or less. `scale` is 1 where kernels run at full speed, and less on emulated devices.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .planted import planted_places

__all__ = ["RECIPES", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """`run(operations, *inputs)` gives results; of the first `graded` inputs, gradients too.

    Results are one or a tuple; `inputs` are floats or integers; `loose` results hold half
    precision. Where it is `captured`, the program is a captured function of its first input: the
    others last from call to call. With `images`, intermediate results are in textures, where a
    device has such.
    """

    run: Callable[..., Any]
    inputs: list[np.ndarray]
    graded: int = 0
    loose: bool = False
    captured: bool = False
    images: bool = False


Make = Callable[[random.Random, float], Recipe]
RECIPES: dict[str, Make] = {}


def recipe(make: Make) -> Make:
    """Put `make` into the table under its name. Raises ValueError where another has it."""
    if make.__name__ in RECIPES:
        raise ValueError(f"two recipes are called {make.__name__}")
    RECIPES[make.__name__] = make
    return make


def numbers(rng: random.Random, *shape: int) -> np.ndarray:
    """Normal numbers whose products stay of that size."""
    found = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape)
    return (found / max(1, shape[0]) ** (0.5 * (len(shape) > 1))).astype(np.float32)


def normal(rng: random.Random, *shape: int) -> np.ndarray:
    return np.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape).astype(np.float32)


def spaced(rng: random.Random, n: int, k: int) -> np.ndarray:
    """Rows of which no two numbers are as close as the steps that slopes are taken over."""
    order = np.argsort(normal(rng, n, k), 1)
    return (order / np.float32(k) * 4 - 2).astype(np.float32)


def near(rng: random.Random, size: int, scale: float = 1.0) -> int:
    """`size`, one less or one more."""
    return max(4, int(size * scale)) + rng.choice((-1, 0, 0, 1))


def places(rng: random.Random, count: int, below: int) -> np.ndarray:
    drawn = np.random.default_rng(rng.randrange(1 << 30))
    found = drawn.integers(0, below, count).astype(np.int32)
    return planted_places(drawn, found, below)


# -- products ---------------------------------------------------------------------------------


@recipe
def linear(rng, scale):
    n, k, m = (near(rng, size, scale) for size in (64, 256, 128))
    return Recipe(
        lambda o, x, w, b: o.relu(x @ w + b),
        [normal(rng, n, k), numbers(rng, k, m), normal(rng, m)], 3,
    )  # fmt: skip


@recipe
def large_product(rng, scale):
    n, k, m = (near(rng, size, scale) for size in (320, 520, 1040))
    return Recipe(lambda o, x, w: x @ w, [normal(rng, n, k), numbers(rng, k, m)], 2)


@recipe
def tall_product(rng, scale):
    n, k, m = (near(rng, size, scale) for size in (1540, 260, 512))
    return Recipe(lambda o, x, w: x @ w, [normal(rng, n, k), numbers(rng, k, m)])


@recipe
def product_of_repeated_rows(rng, scale):
    """A factor that all steps share, and one whose rows come again: slices of it are alike."""
    n, k, m = near(rng, 64, scale), 8 * rng.choice((12, 16)), near(rng, 128, scale)
    run = lambda o, x, w, b: (x @ o.repeat(b, k), x @ o.repeat(w, k // 8))
    return Recipe(run, [normal(rng, n, k), numbers(rng, 8, m), normal(rng, 1, m)], 3)


@recipe
def narrow_product(rng, scale):
    n, k, m = near(rng, 8), near(rng, 400, scale), near(rng, 900, scale)
    return Recipe(lambda o, x, w: o.tanh(w @ x), [numbers(rng, k, n), numbers(rng, m, k)], 1)


@recipe
def product_with_vector(rng, scale):
    k, m = near(rng, 700, scale), near(rng, 600, scale)
    return Recipe(lambda o, x, w: w @ o.exp(x), [normal(rng, k, 1), numbers(rng, m, k)], 2)


@recipe
def product_of_columns(rng, scale):
    n, k, m = (near(rng, size, scale) for size in (192, 256, 256))
    return Recipe(
        lambda o, x, w: o.transpose(x, 1, 0) @ w, [numbers(rng, k, n), normal(rng, k, m)], 2
    )


@recipe
def sum_of_products(rng, scale):
    n, k, m = near(rng, 64, scale), rng.choice((250, 256, 257)), near(rng, 128, scale)
    return Recipe(
        lambda o, a, b, c, d: a @ b + c @ d,
        [normal(rng, n, k), numbers(rng, k, m), normal(rng, n, k), numbers(rng, k, m)], 4,
    )  # fmt: skip


@recipe
def tables_of_pairs(rng, scale):
    """What is reduced of each row with each other one: the tiles of products are for such, too."""
    n, m, k = (near(rng, size, scale) for size in (150, 130, 70))
    reduced = rng.choice((
        lambda o, apart: o.sum(apart * apart, -1),
        lambda o, apart: o.sum(o.relu(apart), -1),
        lambda o, apart: (o.sum(o.relu(apart), 0), o.sum(o.relu(apart), 1)),
    ))  # fmt: skip
    run = lambda o, x, y: reduced(o, o.reshape(x, n, 1, k) - o.reshape(y, 1, m, k))
    # Numbers of one are between those of the other, so that no slope is taken across a kink.
    return Recipe(run, [spaced(rng, n, k), spaced(rng, m, k) + np.float32(2 / k)], 2)


@recipe
def gated(rng, scale):
    n, k, m = (near(rng, size, scale) for size in (48, 192, 256))

    def run(o, x, up, gate, down):
        h = x @ gate
        return (h * o.sigmoid(h) * (x @ up)) @ down

    inputs = [normal(rng, n, k), numbers(rng, k, m), numbers(rng, k, m), numbers(rng, m, k)]
    return Recipe(run, inputs, 4)


@recipe
def cell(rng, scale):
    n, k, m = near(rng, 32), near(rng, 96, scale), rng.choice((32, 48, 64))

    def run(o, x, h, w, u, c):
        s = x @ w + h @ u
        i, f, g, e = (s[:, at * m : at * m + m] for at in range(4))
        c = o.sigmoid(f) * c + o.sigmoid(i) * o.tanh(g)
        return o.sigmoid(e) * o.tanh(c)

    inputs = [normal(rng, n, k), normal(rng, n, m), numbers(rng, k, 4 * m)]
    return Recipe(run, [*inputs, numbers(rng, m, 4 * m), normal(rng, n, m)], 4)


@recipe
def long_cell(rng, scale):
    """A few rows with many steps, which workers share."""
    n, k, m = rng.choice((4, 5)), near(rng, 5000, scale), 16

    def run(o, x, w, h, u):
        s = x @ w + h @ u
        return o.sigmoid(s[:, :m]) * o.tanh(s[:, m:])

    inputs = [normal(rng, n, k), numbers(rng, k, 2 * m), normal(rng, n, 32)]
    return Recipe(run, [*inputs, numbers(rng, 32, 2 * m)], 4)


@recipe
def residual_block(rng, scale):
    n, k = near(rng, 96, scale), near(rng, 128, scale)

    def run(o, x, w, v):
        centred = x - o.mean(x, -1)
        y = centred / o.sqrt(o.mean(centred * centred, -1) + 1e-3)
        return x + o.relu(y @ w) @ v

    return Recipe(run, [normal(rng, n, k), numbers(rng, k, 2 * k), numbers(rng, 2 * k, k)], 3)


@recipe
def long_product(rng, scale):
    """So many steps that chunks of them are products of their own."""
    n, k, m = rng.choice((5, 24)), near(rng, 17_000, scale), rng.choice((8, 40))
    inputs = [normal(rng, n, k), numbers(rng, k, m), normal(rng, n, 2 * m)]
    return Recipe(
        lambda o, x, w, y: o.tanh(x @ w) + y[:, ::2], inputs, rng.choice((0, 3))
    )  # fmt: skip


@recipe
def long_product_of_columns(rng, scale):
    """The same of rows that lie across the steps, with values at places in the end."""
    n, k, m = rng.choice((24, 150)), near(rng, 17_000, scale), rng.choice((24, 40))
    inputs = [normal(rng, k, n), numbers(rng, k, m), normal(rng, n, 80)]
    return Recipe(
        lambda o, x, w, z, at: o.transpose(x, 1, 0) @ w + o.take(z, at, 1),
        [*inputs, places(rng, n * m, 80).reshape(n, m)], rng.choice((0, 3)),
    )  # fmt: skip


@recipe
def half_product(rng, scale):
    n, k, m = rng.choice((64, 65, 128)), rng.choice((64, 192, 256)), rng.choice((64, 128))
    return Recipe(
        lambda o, x, w: o.single(o.half(x) @ o.half(w)),
        [normal(rng, n, k), numbers(rng, k, m)], 0, True,
    )  # fmt: skip


# -- attention --------------------------------------------------------------------------------


@recipe
def attention(rng, scale):
    batch, heads = rng.choice((1, 2)), rng.choice((1, 2))
    t, d = near(rng, 160, scale), rng.choice((16, 24, 32))
    inputs = [normal(rng, batch, heads, t, d) for _ in range(3)]
    return Recipe(lambda o, q, k, v: o.attend(q, k, v, False), inputs, 3)


@recipe
def causal_attention(rng, scale):
    t, d = near(rng, 200, scale), rng.choice((16, 32))
    batch = rng.choice((1, 2))
    inputs = [normal(rng, batch, 2, t, d) for _ in range(3)]
    return Recipe(lambda o, q, k, v: o.attend(q, k, v, True), inputs, 3)


@recipe
def long_attention(rng, scale):
    t = near(rng, 512, scale)
    inputs = [normal(rng, 1, 1, t, 32) for _ in range(3)]
    return Recipe(lambda o, q, k, v: o.attend(q, k, v, True), inputs, 3)


@recipe
def wide_attention(rng, scale):
    """Heads so wide that their products are long sums."""
    t = near(rng, 820, scale)
    inputs = [normal(rng, 1, 1, t, 192) for _ in range(3)]
    return Recipe(lambda o, q, k, v: o.attend(q, k, v, True), inputs)


@recipe
def masked_attention(rng, scale):
    t, d = near(rng, 120, scale), rng.choice((16, 32))

    def run(o, q, k, v, mask):
        scores = (q @ o.transpose(k, 0, 2, 1)) * (d**-0.5)
        return o.softmax(o.where(mask, scores, -1e30)) @ v

    mask = np.tril(np.ones((t, t), bool))
    return Recipe(run, [*(normal(rng, 2, t, d) for _ in range(3)), mask], 3)


@recipe
def turned_queries(rng, scale):
    """Queries of a product, whose neighbours are turned by an angle for each place (rotary)."""
    b, t, d = rng.choice((1, 3, 8)), near(rng, 64, scale), rng.choice((32, 64, 128))
    is_weighed, by = rng.random() < 0.5, rng.choice((1, 0.1))

    def run(o, x, w, k, v, cosine, sine):
        pairs = o.reshape(x @ w, b, t, d // 2, 2)
        one, two = pairs[..., 0], pairs[..., 1]
        turned = o.stack([one * cosine - two * sine, two * cosine + one * sine], -1)
        scores = (o.reshape(turned, b, t, d) * by) @ o.transpose(k, 0, 2, 1)
        return o.softmax(scores) @ v if is_weighed else scores

    angles = np.outer(np.arange(t), np.geomspace(1, 1e-3, d // 2))
    inputs = [
        normal(rng, b, t, 32),
        numbers(rng, 32, d),
        normal(rng, b, t, d),
        normal(rng, b, t, 32),
    ]
    turns = [each(angles).astype(np.float32) for each in (np.cos, np.sin)]
    return Recipe(run, [*inputs, *turns], 4 if is_weighed else 3)


@recipe
def attention_by_blocks(rng, scale):
    """A row sees the keys of its own block and of those before it."""
    t, d, block = near(rng, 160, scale), rng.choice((16, 32)), rng.choice((8, 16, 24))

    def run(o, q, k, v):
        scores = (q @ o.transpose(k, 0, 2, 1)) * (d**-0.5)
        blocks = o.places_of(scores, 2) // block
        shown = o.reshape(blocks, t, 1) >= o.reshape(blocks, 1, t)
        return o.softmax(o.where(shown, scores, -1e30)) @ v

    return Recipe(run, [normal(rng, 2, t, d) for _ in range(3)], 3)


@recipe
def self_attention(rng, scale):
    t, d = near(rng, 128, scale), 32

    def run(o, x, w):
        y = o.reshape(x @ w, 1, 1, t, d)
        return o.attend(y, y * 0.5, y, False)

    return Recipe(run, [normal(rng, t, 48), numbers(rng, 48, d)], 2)


@recipe
def attention_then_product(rng, scale):
    t, d = near(rng, 100, scale), 24

    def run(o, x, w):
        y = o.reshape(x @ w, 1, 1, t, d)
        y = o.reshape(o.attend(y, y, y, True), t, d)
        return o.tanh(y @ o.transpose(y, 1, 0)) @ y

    return Recipe(run, [normal(rng, t, 40), numbers(rng, 40, d)], 2)


@recipe
def rows_between_products(rng, scale):
    """The middle is larger than what it is computed from, so that a kernel keeps rows of it."""
    n, k, m = near(rng, 96, scale), rng.choice((4, 6)), rng.choice((96, 260))
    between = rng.choice(BETWEEN)
    inputs = [normal(rng, n, k), normal(rng, k, m), numbers(rng, m, 24), np.tri(n, m, dtype=bool)]
    is_padded = rng.random() < 0.3

    def run(o, x, w, v, mask):
        if is_padded:  # with zeros in place of what is beside it
            x = o.pad(x[:, 1:-1], 1, 1)
            w = o.transpose(o.pad(o.transpose(w[1:-1], 1, 0), 1, 1), 1, 0)
        return between(o, x @ w, mask) @ v

    return Recipe(run, inputs, rng.choice((0, 3)))


BETWEEN = [
    lambda o, s, mask: o.relu(s),
    lambda o, s, mask: (s - o.mean(s, -1)) / o.sqrt(o.var(s, -1) + 0.1),
    lambda o, s, mask: o.softmax(o.where(mask, s, -1e30)),
    lambda o, s, mask: s * (1 / (1 + o.sum(s * s, -1))),
    lambda o, s, mask: o.where(mask, o.tanh(s), 0.0),
    lambda o, s, mask: o.exp(s - o.max(s, -1)),
]


@recipe
def statistics_of_a_product(rng, scale):
    """Rows of a product that is not stored, since numbers of its rows alone are wanted."""
    n, k, m = near(rng, 96, scale), rng.choice((4, 6)), rng.choice((96, 260))
    number = rng.choice(NUMBERS_OF_ROWS)
    inputs = [normal(rng, n, k), normal(rng, k, m), np.tri(n, m, dtype=bool)]
    return Recipe(lambda o, x, w, mask: number(o, x @ w, mask), inputs)


NUMBERS_OF_ROWS = [
    lambda o, s, mask: o.argmax(s, 1),
    lambda o, s, mask: o.argmax(o.where(mask, s, -1e30), 1),
    lambda o, s, mask: (o.argmax(s, 1), o.argmax(-s, 1)),
    lambda o, s, mask: o.sum(o.exp(s - o.max(s, -1)), -1),
    lambda o, s, mask: (o.var(s, -1), o.max(s, -1)),
    lambda o, s, mask: (o.max(s, -1), o.sum(s * s, -1)),
]


@recipe
def attention_of_heads(rng, scale):
    """Of two in a batch, heads from one product, side by side in the end."""
    t, h, d = near(rng, 72, scale), 3, 16
    causal = rng.choice((False, True))

    def run(o, q, k, v):
        heads = [o.transpose(o.reshape(x, 2, t, h, d), 0, 2, 1, 3) for x in (q, k, v)]
        found = o.attend(*heads, causal)
        return o.reshape(o.transpose(found, 0, 2, 1, 3), 2, t, h * d) * 0.5

    return Recipe(run, [normal(rng, 2, t, h * d) for _ in range(3)], 3)


@recipe
def attention_of_parts(rng, scale):
    """Factors are every second element, padded, or at places."""
    t, d = near(rng, 120, scale), 16
    way, causal = rng.choice(WAYS), rng.choice((False, True))
    inputs = [normal(rng, 1, 1, t, d) for _ in range(2)]
    return Recipe(
        lambda o, q, k, v, at: o.attend(*way(o, q, k, v, at), causal),
        [*inputs, normal(rng, 1, 1, t, 2 * d), places(rng, t, t)], 3,
    )  # fmt: skip


WAYS = [
    lambda o, q, k, v, at: (q, k, v[..., ::2]),
    lambda o, q, k, v, at: (o.pad(q[..., 2:-2], 2, 2), o.pad(k[..., 2:-2], 2, 2), v),
    lambda o, q, k, v, at: (q[:, :, at], k[:, :, at], v),
    lambda o, q, k, v, at: (o.flip(q, 3), k, o.flip(v, 2)),
    lambda o, q, k, v, at: (o.transpose(o.pad(o.transpose(q, 0, 1, 3, 2), 2, 3), 0, 1, 3, 2), k, v),
]


# -- images -----------------------------------------------------------------------------------


@recipe
def convolutions(rng, scale):
    size = near(rng, 16)

    def run(o, x, w, v):
        return o.relu(o.conv(o.relu(o.conv(x, w, 1, 1)), v, 1, 1))

    w, v = normal(rng, 16, 8, 3, 3) * 0.1, normal(rng, 16, 16, 3, 3) * 0.1
    return Recipe(run, [normal(rng, 2, 8, size, size), w, v], 3)


@recipe
def convolutions_alone(rng, scale):
    """Without gradients, which want the images between in their own order."""
    made = convolutions(rng, scale)
    return Recipe(made.run, made.inputs)


@recipe
def convolution_of_small_images(rng, scale):
    size, w = rng.choice((7, 9)), normal(rng, 32, 16, 3, 3) * 0.1
    return Recipe(lambda o, x, w: o.conv(x, w, 1, 1), [normal(rng, 4, 16, size, size), w], 2)


@recipe
def strided_convolution(rng, scale):
    size = near(rng, 24)
    w = normal(rng, 16, 4, 3, 3) * 0.1
    return Recipe(lambda o, x, w: o.conv(x, w, 2, 1), [normal(rng, 2, 4, size, size), w], 2)


@recipe
def gradient_of_strided_convolution(rng, scale):
    """The places between two strides have windows of their own, of different lengths."""
    size, w = rng.choice((15, 16, 17)), normal(rng, 48, 32, 3, 3) * 0.1
    return Recipe(lambda o, x, w: o.conv(x, w, 2, 1), [normal(rng, 2, 32, size, size), w], 1)


@recipe
def strided_and_dilated_convolution(rng, scale):
    """Stride and dilation have a factor in common: its gradient is zero at most places."""
    size, dilation = near(rng, 24), rng.choice((2, 3, 4))
    stride = rng.choice((2, 4)) if dilation != 3 else 3
    w = normal(rng, 16, 8, 3, 3) * 0.1
    inputs = [normal(rng, 2, 8, size, size), w]
    return Recipe(lambda o, x, w: o.conv(x, w, stride, dilation, dilation), inputs, 2)


@recipe
def pointwise_convolution(rng, scale):
    return _pointwise(rng, 28)


@recipe
def pointwise_convolution_of_short_rows(rng, scale):
    """The rows of its images end within vectors."""
    return _pointwise(rng, 14)


def _pointwise(rng, size):
    w = normal(rng, 16, 32, 1, 1) * 0.1
    return Recipe(lambda o, x, w: o.conv(x, w, 1, 0), [normal(rng, 2, 32, size, size), w], 2)


@recipe
def large_images(rng, scale):
    """So many pixels that the gradient of the weights is cut into chunks of them."""
    size, w = near(rng, 112, scale), normal(rng, 8, 4, 3, 3) * 0.1
    return Recipe(lambda o, x, w: o.conv(x, w, 1, 1), [normal(rng, 2, 4, size, size), w], 2)


@recipe
def deep_images(rng, scale):
    """So many channels that the windows are cut into chunks of them."""
    size, channels = rng.choice((5, 6)), near(rng, 1000, scale)
    inputs = [normal(rng, 1, channels, size, size), normal(rng, 16, channels, 3, 3) * 0.02]
    return Recipe(lambda o, x, w: o.conv(x, w, 1, 1), inputs, rng.choice((0, 2)))


@recipe
def pooled(rng, scale):
    size = 2 * near(rng, 8)
    w = normal(rng, 16, 3, 5, 5) * 0.1
    return Recipe(lambda o, x, w: o.pool(o.conv(x, w, 1, 2)), [normal(rng, 2, 3, size, size), w], 2)


@recipe
def channels_side_by_side(rng, scale):
    n = near(rng, 1200, scale)
    parts = [normal(rng, n) for _ in range(3)]
    return Recipe(lambda o, a, b, c: o.stack([a + b, b * c, a - c], 1), parts, 3)


# -- an output and what is reduced beside it ------------------------------------------------------


@recipe
def output_and_total(rng, scale):
    n, m = near(rng, 1100, scale), rng.choice((1021, 1024, 1031))

    def run(o, x):
        y = o.relu(x) * 2 + x
        return y, o.sum(y * y) / (n * m), o.mean(x)

    return Recipe(run, [normal(rng, n, m)], 1)


@recipe
def output_and_rows(rng, scale):
    n, m = near(rng, 1100, scale), rng.choice((960, 1000, 1031))
    run = lambda o, x, b: (x * b, o.mean(x * b, 1), o.max(x, 1))
    return Recipe(run, [normal(rng, n, m), normal(rng, m)], 1)


@recipe
def output_and_channels(rng, scale):
    size = rng.choice((55, 56))

    def run(o, x):
        y = o.relu(x) + 1
        return y, o.mean(y, (0, 2, 3))

    return Recipe(run, [normal(rng, 8, near(rng, 40, scale), size, size)], 1)


@recipe
def loss_and_slopes(rng, scale):
    n = near(rng, 1100000, scale)

    def run(o, x, y):
        d = x - y
        return d * (2 / n), o.sum(d * d) / n

    return Recipe(run, [normal(rng, n), normal(rng, n)], 2)


@recipe
def gathered_along_rows(rng, scale):
    """Under CHECK_INDEX, with the largest index."""
    n, k, m = near(rng, 1100, scale), 1500, rng.choice((1000, 1024))
    found = places(rng, n * m, k).reshape(n, m)
    return Recipe(lambda o, x, i: o.take(x, i, 1), [normal(rng, n, k), found], 1)


# -- rows and columns -------------------------------------------------------------------------


@recipe
def softmax_of_rows(rng, scale):
    x = normal(rng, near(rng, 150, scale), rng.choice((100, 256, 1003)))
    return Recipe(lambda o, x: o.softmax(x), [x], 1)


@recipe
def normalised_rows(rng, scale):
    x = normal(rng, near(rng, 100, scale), rng.choice((64, 257, 768)))
    return Recipe(lambda o, x: (x - o.mean(x, -1)) / o.sqrt(o.var(x, -1) + 1e-3), [x], 1)


@recipe
def rows_by_their_norms(rng, scale):
    """Rows of a product of few steps, each by its norm over the mean of all norms, multiplied."""
    m, k, n = near(rng, 64, scale), rng.choice((3, 8, 16)), near(rng, 96, scale)

    def run(o, a, b, c):
        h = a @ b
        norms = o.sqrt(o.sum(h * h, 1) + 0.5)
        return (h * (norms / o.mean(norms, 0))) @ c

    return Recipe(run, [normal(rng, m, k), normal(rng, k, n), numbers(rng, n, 33)], 3)


@recipe
def scores_by_their_deviations(rng, scale):
    """Rows of products, each by its standard deviation, times all of the products."""
    m, k = near(rng, 100, scale), rng.choice((1, 2, 8))

    def run(o, a, b):
        h = a @ o.transpose(b, 1, 0)
        return (h / o.sqrt(o.var(h, 1) + 0.3)) @ h * (1 / m)

    return Recipe(run, [normal(rng, m, k), normal(rng, m, k)], 2)


@recipe
def cross_entropy(rng, scale):
    n, m = near(rng, 64, scale), rng.choice((10, 257))
    inputs = [normal(rng, n, m), places(rng, n, m)]
    return Recipe(lambda o, x, labels: o.loss(x, labels), inputs, 1)


@recipe
def sums_of_sums(rng, scale):
    x = normal(rng, near(rng, 100, scale), near(rng, 130))
    return Recipe(lambda o, x: o.sum(o.tanh(o.sum(o.exp(x) * 0.02, -1)), 0), [x])


@recipe
def sums_down_a_large_matrix(rng, scale):
    """Which no cache holds."""
    return Recipe(lambda o, x: o.sum(x, 0) * 0.01, [normal(rng, 4200, 1024)])


@recipe
def sums_down_columns(rng, scale):
    x = normal(rng, near(rng, 1500, scale), rng.choice((100, 300, 2049)))
    return Recipe(lambda o, x: o.sum(o.exp(x * 0.3), 0), [x], 1)


@recipe
def variance_of_columns(rng, scale):
    x = normal(rng, near(rng, 600, scale), rng.choice((33, 256)))
    return Recipe(lambda o, x: (x - o.mean(x, 0)) / o.sqrt(o.var(x, 0) + 1e-2), [x], 1)


@recipe
def sums_of_rows(rng, scale):
    x = normal(rng, rng.choice((2, 12, 33)), near(rng, 9000, scale))
    return Recipe(lambda o, x: o.sum(x * x, -1), [x], 1)


@recipe
def long_sum(rng, scale):
    return Recipe(lambda o, x: o.sum(o.tanh(x)), [normal(rng, near(rng, 1 << 18, scale))], 1)


@recipe
def short_sums(rng, scale):
    x = normal(rng, near(rng, 500, scale), 4)
    return Recipe(lambda o, x: o.sum(o.exp(x), -1) * 2, [x], 1)


@recipe
def scan_of_rows(rng, scale):
    x = normal(rng, near(rng, 40, scale), near(rng, 600))
    return Recipe(lambda o, x: o.cumsum(x, 1), [x], 1)


@recipe
def long_scan(rng, scale):
    return Recipe(lambda o, x: o.cumsum(x, 1), [normal(rng, 2, near(rng, 3000))], 1)


@recipe
def scan_of_columns(rng, scale):
    x = normal(rng, near(rng, 300, scale), near(rng, 1030, scale))
    return Recipe(lambda o, x: o.cumsum(x * 2, 0), [x], 1)


@recipe
def scan_of_few_columns(rng, scale):
    x = 1 + normal(rng, near(rng, 200), near(rng, 40)) * 0.01
    return Recipe(lambda o, x: o.cumprod(o.transpose(x, 1, 0), 1), [x], 0)


@recipe
def recurrences(rng, scale):
    """Linear recurrences along an axis, of each other and of scans, and what is made of them."""
    shape = rng.choice((
        (near(rng, 1000, scale),), (near(rng, 33, scale), near(rng, 300)), (near(rng, 300), 33),
        (near(rng, 640, scale), 500), (4, near(rng, 50), 129), (129, near(rng, 50), 4),
        (8, near(rng, 3000)), (near(rng, 3000), 8), (64, 1030),
    ))  # fmt: skip
    axis, other = rng.randrange(len(shape)), rng.randrange(len(shape))
    kinds = rng.sample(range(9), rng.randrange(1, 4))

    def run(o, x, y):
        decay = o.tanh(y)
        totals = o.recurrence(x, decay, axis)
        made = [
            lambda: (totals, totals * 2 + x), lambda: (o.recurrence(totals * 0.2, decay, axis),),
            lambda: (o.cumsum(x, axis) * 0.1 + totals,), lambda: (o.cumsum(totals, other) * 0.1,),
            lambda: (o.recurrence(o.cumsum(x, other) * 0.1, decay, axis),),
            lambda: (o.flip(o.recurrence(o.flip(x, axis), decay, axis), axis),),
            lambda: (o.sum(totals * totals, other) * 0.01, o.softmax(totals)),
            lambda: (o.recurrence(x - o.mean(x, other), decay * 0.5, axis),),
            lambda: (o.logcumsumexp(x * 3 + totals, axis),),
        ]  # fmt: skip
        return tuple(result for kind in kinds for result in made[kind]())

    return Recipe(run, [normal(rng, *shape), normal(rng, *shape)], 2)


@recipe
def scans_of_one_loop(rng, scale):
    """Scans along an axis, of each other too, and what is made of them.

    Running maxima have no slopes: a small step makes others the largest.
    """
    shape = rng.choice((
        (near(rng, 100, scale), rng.choice((64, 257))), (3, near(rng, 33, scale), 65),
        (2, near(rng, 3000)), (rng.choice((5, 64)), rng.choice((1, 40)), 7),
    ))  # fmt: skip
    axis, kinds = rng.randrange(len(shape)), rng.sample(range(7), rng.randrange(2, 5))

    def run(o, x, y):
        sums = o.cumsum(x, axis) * shape[axis] ** -0.5
        made = [
            lambda: o.cummax(x, axis), lambda: (sums * 2 + y,), lambda: (sums * x, sums),
            lambda: (o.cummax(sums, axis)[0], o.cumsum(sums, axis) * 0.1),
            lambda: (o.cumsum(x * y, axis),), lambda: (x * y - 1,),
            lambda: (o.cumsum(o.flip(x, axis), axis),),
        ]  # fmt: skip
        return tuple(result for kind in kinds for result in made[kind]())

    return Recipe(
        run,
        [spaced(rng, math.prod(shape[:-1]), shape[-1]).reshape(shape), normal(rng, *shape)],
        2 * {0, 3}.isdisjoint(kinds),
    )


@recipe
def extremes(rng, scale):
    x = normal(rng, near(rng, 30, scale), near(rng, 5000, scale))
    return Recipe(lambda o, x: o.argmax(x, 1), [x])


@recipe
def extremes_of_columns(rng, scale):
    x = normal(rng, near(rng, 300, scale), near(rng, 70, scale))
    return Recipe(lambda o, x: o.max(x, 0) + o.argmax(x, 0), [x])


@recipe
def places_down(rng, scale):
    """Where extremes of columns are: of many matrices with few columns, and of one with many."""
    n, k, m = near(rng, 900, scale), rng.choice((3, 7, 8, 16)), rng.choice((56, 130, 300))
    return Recipe(
        lambda o, x, y: (o.argmax(x, 1), o.argmax(-y, 0)),
        [normal(rng, rng.choice((12, 40)), n, k), normal(rng, n, m)],
    )  # fmt: skip


@recipe
def short_sort(rng, scale):
    x = spaced(rng, near(rng, 20), near(rng, 100))
    return Recipe(lambda o, x: o.sort(x), [x], 1)


@recipe
def long_sort(rng, scale):
    return Recipe(lambda o, x: o.sort(x), [normal(rng, 3, near(rng, 2500, scale))])


@recipe
def top_of_rows(rng, scale):
    return Recipe(lambda o, x: o.top(x, 8), [spaced(rng, 3, near(rng, 4000, scale))], 1)


# -- movements --------------------------------------------------------------------------------


@recipe
def transposed(rng, scale):
    x = normal(rng, near(rng, 256, scale), near(rng, 320, scale))
    return Recipe(lambda o, x: o.contiguous(o.transpose(x, 1, 0)) + 1, [x], 1)


@recipe
def concatenated(rng, scale):
    n, m = near(rng, 40, scale), rng.choice((64, 128, 129))
    x, y = normal(rng, n, m), normal(rng, n, m)
    return Recipe(lambda o, x, y: o.exp(o.cat([x, o.flip(y, 0)], 1)), [x, y], 2)


@recipe
def concatenated_rows(rng, scale):
    n, m = near(rng, 60, scale), near(rng, 300, scale)
    parts = [normal(rng, n, m) for _ in range(3)]
    return Recipe(lambda o, a, b, c: o.cat([a + 1, b * 2, c], 0), parts, 3)


@recipe
def every_second(rng, scale):
    x = normal(rng, near(rng, 50, scale), 2 * near(rng, 200, scale))
    return Recipe(lambda o, x: x[:, ::2] * x[:, 1::2], [x], 1)


@recipe
def shifted(rng, scale):
    n, m = near(rng, 60, scale), near(rng, 130, scale)
    w = numbers(rng, m + 3, 64)
    return Recipe(lambda o, x, w: o.pad(x, 1, 2) @ w, [normal(rng, n, m), w], 2)


@recipe
def reshaped(rng, scale):
    n = near(rng, 30, scale)
    x = normal(rng, n, 24 * 8)
    return Recipe(
        lambda o, x: o.reshape(o.transpose(o.reshape(x, n, 24, 8), 0, 2, 1), n, 192) * 2, [x], 1
    )


@recipe
def embedded(rng, scale):
    n, m, count = near(rng, 90, scale), near(rng, 64, scale), near(rng, 100)
    return Recipe(
        lambda o, x, at: o.tanh(o.rows(x, at)), [normal(rng, n, m), places(rng, count, n)], 1
    )


@recipe
def scattered(rng, scale):
    n, m, count = near(rng, 50, scale), near(rng, 96, scale), near(rng, 200, scale)
    inputs = [normal(rng, n, m), places(rng, count, n), normal(rng, count, m)]
    return Recipe(lambda o, x, at, rows: o.add_rows(x, at, rows * 2), inputs)


@recipe
def spread_over_rows(rng, scale):
    n, m, count = near(rng, 50, scale), near(rng, 96, scale), near(rng, 60, scale)
    at = np.stack([places(rng, count, n) for _ in range(m)], 1)
    inputs = [normal(rng, n, m), at, normal(rng, count, m)]
    return Recipe(lambda o, x, at, values: o.spread(x, at, values), inputs)


@recipe
def halves(rng, scale):
    x = normal(rng, near(rng, 60, scale), near(rng, 200, scale))
    return Recipe(lambda o, x: o.single(o.half(o.exp(x))), [x], 0, True)


# -- several in a row -----------------------------------------------------------------------------


def composed(rng: random.Random, scale: float) -> Recipe:
    """Two to four layers, drawn from `rng`, with all of their weights."""
    n, k = rng.choice((33, 64, 100, 129, 200)), rng.choice((16, 24, 32, 65, 96, 192))
    n, k = max(9, int(n * scale)), max(9, int(k * scale))
    layers = [rng.choice(LAYERS) for _ in range(rng.randrange(2, 5))]
    inputs = [normal(rng, n, k), *(numbers(rng, k, k) for layer in layers for _ in range(2))]

    def run(o, x, *weights):
        for number, layer in enumerate(layers):
            x = layer(o, x, *weights[2 * number : 2 * number + 2])
        return x

    return Recipe(run, inputs, len(inputs))


def _heads(o, x):
    return o.reshape(x, 1, 1, *x.shape)


LAYERS = [
    lambda o, x, w, v: o.relu(x @ w) @ v,
    lambda o, x, w, v: x @ w + o.tanh(x) @ v,
    lambda o, x, w, v: (x @ w) * o.sigmoid(x @ v),
    lambda o, x, w, v: x + o.tanh(x @ w + v[:1]),
    lambda o, x, w, v: o.softmax(x @ w) @ v,
    lambda o, x, w, v: (x - o.mean(x, -1)) / o.sqrt(o.var(x, -1) + 0.1) + w[:1] * v[1:2],
    lambda o, x, w, v: (x - o.mean(x, 0)) / o.sqrt(o.var(x, 0) + 0.1) * (1 + w[:1] * v[1:2]),
    lambda o, x, w, v: o.reshape(
        o.attend(_heads(o, x @ w), _heads(o, x @ v), _heads(o, x), False), *x.shape
    ),
    lambda o, x, w, v: o.reshape(
        o.attend(_heads(o, x), _heads(o, x @ w), _heads(o, x @ v), True), *x.shape
    ),
    lambda o, x, w, v: (o.transpose(x, 1, 0) @ (x * 0.1)) @ w @ v if len(x) <= len(w) else x @ w,
    lambda o, x, w, v: o.cumsum(x * 0.1, 0) @ w + v[:1],
    lambda o, x, w, v: o.cumsum(o.tanh(x @ w), 1) * 0.1 + v[:1],
    lambda o, x, w, v: o.cat([x[:, 1:], o.sum(x, -1) * 0.1], 1) @ (w + v),
    lambda o, x, w, v: o.flip(x @ w, 0) * 0.5 + x @ v,
    lambda o, x, w, v: x - o.max(x @ w, -1) + o.exp(o.softmax(x) @ v),
    lambda o, x, w, v: o.transpose(o.transpose(w, 1, 0) @ o.transpose(x, 1, 0), 1, 0) + v[:1],
]
RECIPES["composed"] = composed


# -- what does not fit the caches ---------------------------------------------------------------


@recipe
def large_softmax(rng, scale):
    return Recipe(lambda o, x: o.softmax(x), [normal(rng, near(rng, 2060, scale), 2112)])


@recipe
def large_sum(rng, scale):
    return Recipe(lambda o, x: x * 2 + 1, [normal(rng, near(rng, 1056 * 4100, scale))])


@recipe
def large_rows(rng, scale):
    x = normal(rng, 16, max(1, int(4688 * scale)) * 128)
    return Recipe(lambda o, x: o.sum(x, -1), [x])


@recipe
def large_matrix_and_vector(rng, scale):
    n, k = near(rng, 2000, scale), 4608
    return Recipe(lambda o, w, x: w @ x, [numbers(rng, n, k), normal(rng, k, 1)])


@recipe
def large_columns(rng, scale):
    x = normal(rng, near(rng, 12000, scale), 1056)
    return Recipe(lambda o, x: o.sum(x, 0), [x])
