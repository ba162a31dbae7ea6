"""Programs over one to three sizes that launches decide: values and gradients, beside NumPy's.

Each program is compiled once, for all of the sizes. What lies behind an input in memory is NaN.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pytest

from treadle import GlobalCounters, Tensor, Variable
from treadle.ir.choices import observing

Array: TypeAlias = "np.ndarray[Any, Any]"
Back: TypeAlias = Callable[[Array], Array]

PROGRAMS = 400 if os.environ.get("FULL_TESTS") else 10
LARGEST = {1: (256, 1024, 4096), 2: (48, 128, 512), 3: (16, 40, 64)}  # by how many vary
MOST = 1 << 19  # elements of an input
# What kernels of fixed sizes are made fast by, and so are these.
FAST = {"lane_reduction", "lane_results", "matmul_tile", "packed_rows", "split_reduction"}


@dataclass(frozen=True)
class Step:
    """What treadle computes of a tensor, and NumPy of an array, with the way back for gradients."""

    name: str
    run: Callable[[Tensor], Tensor]
    forward: Callable[[Array], tuple[Array, Back]]


@dataclass
class Program:
    """Steps on an input whose axes are numbers, or symbolic sizes up to the `largest`."""

    largest: dict[str, int]
    axes: list[int | str]
    steps: list[Step] = field(default_factory=list)

    def shape(self, sizes: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in self.axes)


def _tanh() -> Step:
    def forward(x: Array) -> tuple[Array, Back]:
        y = np.tanh(x)
        return y, lambda g: g * (1 - y * y)

    return Step("tanh", Tensor.tanh, forward)


def _reciprocal() -> Step:
    def forward(x: Array) -> tuple[Array, Back]:
        y = 1 / (x * x + 0.5)
        return y, lambda g: g * -2 * x * y * y

    return Step("reciprocal", lambda t: 1 / (t * t + 0.5), forward)


def _total(kind: str, axes: tuple[int, ...], keepdim: bool) -> Step:
    def forward(x: Array) -> tuple[Array, Back]:
        y = getattr(x, {"amax": "max"}.get(kind, kind))(axes, keepdims=True)
        count = x.size // y.size if kind == "mean" else 1
        where = (x == y) if kind == "amax" else np.ones_like(x)
        shape = y.shape if keepdim else tuple(n for i, n in enumerate(x.shape) if i not in axes)
        return y.reshape(shape), lambda g: g.reshape(y.shape) * where / count

    name = f"{kind}{axes}{' kept' if keepdim else ''}"
    return Step(name, lambda t: getattr(t, kind)(axes, keepdim=keepdim), forward)


def _centred(axes: tuple[int, ...]) -> Step:
    def forward(x: Array) -> tuple[Array, Back]:
        return x - x.mean(axes, keepdims=True), lambda g: g - g.mean(axes, keepdims=True)

    return Step(f"centred{axes}", lambda t: t - t.mean(axes, keepdim=True), forward)


def _softmax(axis: int) -> Step:
    def forward(x: Array) -> tuple[Array, Back]:
        e = np.exp(x - x.max(axis, keepdims=True))
        y = e / e.sum(axis, keepdims=True)
        return y, lambda g: y * (g - (g * y).sum(axis, keepdims=True))

    return Step(f"softmax({axis})", lambda t: t.softmax(axis), forward)


def _weighted(rows: int, columns: int, rng: random.Random) -> Step:
    w = np.random.default_rng(rng.getrandbits(32)).standard_normal((rows, columns)) / rows**0.5
    w = w.astype(np.float32)
    own = Tensor(w, device="CPU").realize()
    return Step(f"@ {w.shape}", lambda t: t @ own, lambda x: (x @ w, lambda g: g @ w.T))


def _gram() -> Step:
    """Products of all columns with each other."""

    def forward(x: Array) -> tuple[Array, Back]:
        turned = x.swapaxes(-1, -2)
        return turned @ x / 64, lambda g: x @ (g + g.swapaxes(-1, -2)) / 64

    return Step("t.T @ t", lambda t: t.transpose(-1, -2) @ t / 64, forward)


def _transposed(one: int, other: int) -> Step:
    def forward(x: Array) -> tuple[Array, Back]:
        return x.swapaxes(one, other), lambda g: g.swapaxes(one, other)

    return Step(f"transposed({one}, {other})", lambda t: t.transpose(one, other), forward)


def _doubled(axis: int) -> Step:
    def forward(x: Array) -> tuple[Array, Back]:
        def back(g: Array) -> Array:
            first, second = np.split(g, 2, axis)
            return first + second * 2

        return np.concatenate([x, x * 2], axis), back

    return Step(f"doubled({axis})", lambda t: t.cat(t * 2, dim=axis), forward)


def _differences(axis: int) -> Step:
    at = lambda part: (slice(None),) * axis + (part,)
    ahead, behind = at(slice(1, None)), at(slice(None, -1))

    def forward(x: Array) -> tuple[Array, Back]:
        def back(g: Array) -> Array:
            slope = np.zeros_like(x)
            slope[ahead] += g
            slope[behind] -= g
            return slope

        return x[ahead] - x[behind], back

    return Step(f"differences({axis})", lambda t: t[ahead] - t[behind], forward)


def _flattened(axis: int) -> Step:
    def forward(x: Array) -> tuple[Array, Back]:
        shape = (*x.shape[:axis], -1, *x.shape[axis + 2 :])
        return x.reshape(shape), lambda g: g.reshape(x.shape)

    return Step(f"flattened({axis})", lambda t: t.flatten(axis, axis + 1), forward)


def drawn(seed: int) -> Program:
    """A program whose sums go over several axes at once, more often than not."""
    rng = random.Random(seed)
    count = rng.choice((1, 2, 2, 3))
    largest = {name: rng.choice(LARGEST[count]) for name in "abc"[:count]}
    axes: list[int | str] = [*largest, rng.choice((1, 3, 8, 32, 64))]
    rng.shuffle(axes)
    program = Program(largest, axes)
    now: list[int | str | None] = [*axes]  # None: a size that is made of others
    for _ in range(rng.randint(2, 6)):
        program.steps.append(_next_step(rng, now))
        if not now:
            break
    return program


def _next_step(rng: random.Random, now: list[int | str | None]) -> Step:
    """A step for a tensor of axes `now`, which become those of its result."""
    axis, last = rng.randrange(len(now)), now[-1]
    several = tuple(sorted(rng.sample(range(len(now)), rng.randint(1, len(now)))))
    kinds = ["tanh", "reciprocal", "total", "total", "centred", "softmax", "doubled"]
    kinds += ["weighted"] * 3 if isinstance(last, int) else []
    kinds += ["gram", "transposed", "flattened"] if len(now) > 1 else []
    kinds += ["differences"] if isinstance(now[axis], str) else []
    kind = rng.choice(kinds)
    if kind == "total":
        keepdim = rng.random() < 0.3
        left = [1 if i in several else n for i, n in enumerate(now)]
        now[:] = left if keepdim else [n for i, n in enumerate(now) if i not in several]
        return _total(rng.choice(("sum", "mean", "amax")), several, keepdim)
    if kind == "centred":
        return _centred(several)
    if kind == "softmax":
        return _softmax(axis)
    if kind == "doubled":
        size = now[axis]
        now[axis] = size * 2 if isinstance(size, int) else None
        return _doubled(axis)
    if kind == "weighted":
        assert isinstance(last, int)
        now[-1] = columns = rng.choice((1, 5, 16, 64, 96))
        return _weighted(last, columns, rng)
    if kind == "gram":
        now[-2] = now[-1]
        return _gram()
    if kind == "transposed":
        other = rng.randrange(len(now))
        now[axis], now[other] = now[other], now[axis]
        return _transposed(axis, other)
    if kind == "flattened":
        axis = min(axis, len(now) - 2)
        one, other = now[axis : axis + 2]
        is_known = isinstance(one, int) and isinstance(other, int)
        now[axis : axis + 2] = [one * other if is_known else None]  # type: ignore[operator]
        return _flattened(axis)
    if kind == "differences":
        now[axis] = None
        return _differences(axis)
    return _tanh() if kind == "tanh" else _reciprocal()


def _sizes(program: Program, rng: random.Random) -> dict[str, int]:
    """Values of the variables: the least, the most, those beside them and any."""
    while True:
        found = {
            name: rng.choice((2, 3, most - 1, most, most // 2 + 1, rng.randint(2, most)))
            for name, most in program.largest.items()
        }
        if np.prod(program.shape(found)) <= MOST:
            return found


def _placed(x: Array, program: Program, tag: str) -> Tensor:
    """`x` as a tensor of symbolic shape, in memory of its own."""
    whole = np.full(program.shape(program.largest), np.nan, np.float32)
    whole[tuple(map(slice, x.shape))] = x
    sizes = {
        name: Variable(name + tag, 2, most).bind(x.shape[program.axes.index(name)])
        for name, most in program.largest.items()
    }
    shown = Tensor(whole, device="CPU")[tuple(map(slice, program.shape(sizes)))]
    return shown.contiguous().realize()


def _reference(program: Program, x: Array) -> tuple[Array, Array]:
    """The result in float64, and the gradient of the sum of its half squares and itself."""
    backs = []
    for step in program.steps:
        x, back = step.forward(x)
        backs.append(back)
    slope = x + 1
    for back in reversed(backs):
        slope = back(slope)
    return x, slope


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_programs_of_symbolic_sizes_are_right_for_each_and_compiled_once(seed: int) -> None:
    program, rng = drawn(seed), random.Random(seed)
    print(program.largest, program.axes, *(step.name for step in program.steps))
    for number in range(4):
        sizes = _sizes(program, rng)
        x = np.random.default_rng(number).standard_normal(program.shape(sizes)).astype(np.float32)
        placed = _placed(x, program, str(seed))
        before = GlobalCounters.schedule_count
        found = placed
        for step in program.steps:
            found = step.run(found)
        (slope,) = (found * found / 2 + found).sum().gradient(placed)
        Tensor.realize(found, slope)
        assert number == 0 or GlobalCounters.schedule_count == before
        right = _reference(program, x.astype(float))
        for mine, exact in zip((found, slope), right, strict=True):
            allowed = 5e-4 * max(1e-2, np.abs(exact).max())
            assert mine.numpy().shape == exact.shape
            np.testing.assert_allclose(mine.numpy(), exact, rtol=0, atol=allowed)


def test_symbolic_sizes_take_the_fast_paths_of_fixed_ones() -> None:
    program = Program({"a": 512, "b": 64}, ["b", "a", 64])
    w = Tensor(np.ones((64, 96), np.float32), device="CPU").realize()
    with observing() as seen:
        for rows, lines in ((500, 3), (7, 64)):
            x = np.random.default_rng(rows).standard_normal((lines, rows, 64)).astype(np.float32)
            t = _placed(x, program, "fast")
            found = t @ w, t.sum((0, 1)), t.sum(2), t.softmax(2), t.transpose(1, 2) @ t
            wide = x.astype(float)
            e = np.exp(wide - wide.max(2, keepdims=True))
            exact = (
                wide @ np.ones((64, 96)), wide.sum((0, 1)), wide.sum(2),
                e / e.sum(2, keepdims=True), wide.transpose(0, 2, 1) @ wide,
            )  # fmt: skip
            for mine, right in zip(found, exact, strict=True):
                np.testing.assert_allclose(mine.numpy(), right, rtol=1e-4, atol=1e-3)
    kernels = [kernel for kernel in seen.kernels if "pad_loops" in kernel]
    assert set().union(*kernels) >= FAST | {"trim_loops"}
