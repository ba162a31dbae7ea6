"""Networks of real sizes over a mesh, beside one process and float64.

`treadle run -n 3 mesh_sizes.py 5 4` tries four cases from seed 5. Sizes are those where products
are computed in tiles, of packed operands and in strips, pieces of 333 rows among them, which two
processes have no equal pieces of and three have odd ones of. Each tensor is split along some axis,
or copied; every second case is captured. What the mesh loses to rounding is measured beside what
one process does.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import numpy as np

from treadle import Tensor, TinyJit, distributed, dtypes

world = distributed.init()
size = world.size
mesh = world.mesh()
SIZES = [192, 256, 333, 384, 512, 640, 768, 1000, 1024]
SHORT = [96, 129, 192, 256, 333]

Given = dict[str, Tensor]
Case = tuple[dict[str, tuple[int, ...]], Callable[[Given], Tensor]]


def perceptron(chance: random.Random) -> Case:
    """Two products with a normalisation and an activation between."""
    rows, wide, middle, narrow = (chance.choice(SIZES) for _ in range(4))
    shapes = {"x": (rows, wide), "a": (middle, wide), "b": (middle,), "n": (middle,),
              "c": (narrow, middle)}  # fmt: skip

    def compute(t: Given) -> Tensor:
        middle = (t["x"].linear(t["a"].T, t["b"])).layernorm() * (t["n"] + 1)
        return middle.gelu() @ t["c"].T

    return shapes, compute


def products(chance: random.Random) -> Case:
    """Products of first and of last axes, and a sum of rows."""
    rows, wide, narrow = (chance.choice(SIZES) for _ in range(3))
    shapes = {"x": (rows, wide), "y": (rows, narrow), "z": (narrow, wide)}

    def compute(t: Given) -> Tensor:
        return (t["x"].T @ t["y"]) / rows + t["z"].T.tanh() + t["y"].mean(0)

    return shapes, compute


def attention(chance: random.Random) -> Case:
    """Attention of heads over a sequence, as in a transformer."""
    batch, length, heads = chance.choice([3, 4, 7]), chance.choice(SHORT), chance.choice([4, 6])
    width = heads * chance.choice([32, 48, 64])
    shapes = {"x": (batch, length, width), "q": (width, width), "k": (width, width),
              "v": (width, width), "o": (width, width)}  # fmt: skip

    def compute(t: Given) -> Tensor:
        x = t["x"].layernorm()
        q, k, v = (
            (x @ t[name].T).reshape(batch, length, heads, -1).transpose(1, 2) for name in "qkv"
        )
        found = q.scaled_dot_product_attention(k, v, is_causal=True)
        return t["x"] + found.transpose(1, 2).reshape(batch, length, width) @ t["o"].T

    return shapes, compute


def convolution(chance: random.Random) -> Case:
    """A convolution, a normalisation of channels over the batch, a pool and a classifier."""
    batch, side = chance.choice([8, 11, 16]), chance.choice([24, 33])
    channels, classes = chance.choice([32, 33, 64]), chance.choice([10, 333])
    shapes = {"x": (batch, 16, side, side), "w": (channels, 16, 3, 3), "b": (channels,),
              "c": (classes, channels)}  # fmt: skip

    def compute(t: Given) -> Tensor:
        found = t["x"].conv2d(t["w"], t["b"], padding=1)
        found = found - found.mean((0, 2, 3), keepdim=True)
        found = found / (found.square().mean((0, 2, 3), keepdim=True) + 1e-3).sqrt()
        return (found.relu().mean((2, 3)) @ t["c"].T).log_softmax()

    return shapes, compute


KINDS = [perceptron, products, attention, convolution]


def numbers(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Inputs of size 1, weights of the size that keeps it."""
    rng = np.random.default_rng(seed)
    scale = {name: 1.0 if name in "xyz" else np.prod(s[1:]) ** -0.5 for name, s in shapes.items()}
    return {name: rng.standard_normal(s).astype(np.float32) * np.float32(scale[name])
            for name, s in shapes.items()}  # fmt: skip


def results(
    compute: Callable[[Given], Tensor], given: Given, captured: bool = False
) -> dict[str, np.ndarray]:
    """The value, and gradients of all that is given, of a sum in which no elements are alike."""

    def step(*tensors: Tensor) -> tuple[Tensor, ...]:
        found = compute(dict(zip(given, tensors, strict=True)))
        weights = Tensor.arange(found.numel()).reshape(found.shape).cast(found.dtype).sin()
        if found.device == mesh:
            weights = weights.shard(mesh)
        gradients = (found * weights).sum().gradient(*tensors)
        values = found, *gradients
        Tensor.realize(*values)
        return values

    run = TinyJit(step) if captured else step
    for _ in range(4 if captured else 1):
        values = run(*given.values())
    return {name: value.numpy() for name, value in zip(("value", *given), values, strict=True)}


def check(number: int, seed: int) -> str:
    """Try a case; gives what it was, and the largest error beside that of one process."""
    chance = random.Random(seed)
    kind = KINDS[number % len(KINDS)]
    shapes, compute = kind(chance)
    arrays, captured = numbers(shapes, seed), bool(seed % 2)
    axes: dict[str, int | None] = {}
    for name, shape in shapes.items():
        places = [axis for axis, n in enumerate(shape) if n >= size]
        axes[name] = chance.choice([None, *places])
    what = f"seed {seed}: {kind.__name__}, " + ", ".join(
        f"{name} {shapes[name]} along {axes[name]}" for name in shapes
    )
    right = results(compute, {n: Tensor(a, dtype=dtypes.float64) for n, a in arrays.items()})
    alone = results(compute, {n: Tensor(a).realize() for n, a in arrays.items()})
    spread = {n: Tensor(a).shard(mesh, axes[n]).realize() for n, a in arrays.items()}
    together = results(compute, spread, captured)
    worst = 0.0
    for name, exact in right.items():
        # As large as the largest element's 16 units in the last place, or what one process loses.
        allowed = 4 * np.abs(alone[name] - exact).max() + 2.0**-19 * np.abs(exact).max()
        error = np.abs(together[name] - exact).max()
        assert error <= allowed, f"{what}: {name} is off by {error}, {allowed} is allowed"
        worst = max(worst, error / allowed)
    return f"{what}: {worst:.2f} of what is allowed"


first, count = int(sys.argv[1]), int(sys.argv[2])
for seed in range(first, first + count):
    told = check(seed, seed)
    if world.rank == 0:
        print(told)
print(f"{count} right")
