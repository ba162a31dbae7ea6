"""Programs over one to three sizes that launches decide: values and gradients, beside NumPy's.

Each program is compiled once, for all of the sizes. What lies behind an input in memory is NaN.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest

from treadle import GlobalCounters, Tensor, Variable
from treadle.ir.choices import observing

Array: TypeAlias = "np.ndarray[Any, Any]"
Back: TypeAlias = Callable[[Array], Array]

PROGRAMS = 400 if os.environ.get("FULL_TESTS") else 10
LARGEST = {1: (256, 1024, 4096), 2: (48, 128, 512), 3: (16, 40, 64)}  # by how many vary
MOST, MOST_MADE = 1 << 19, 1 << 24  # elements of an input, and of what is made at the largest sizes
# What kernels of fixed sizes are made fast by, and so are these.
FAST = {"lane_reduction", "lane_results", "register_tile", "packed_rows", "split_reduction"}


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


class _Axis(NamedTuple):
    """Of a tensor while a program is drawn: its largest size, and whether that is all sizes."""

    most: int
    is_known: bool = True
    is_plain: bool = True  # a number, or a variable alone

    def times(self, other: _Axis) -> _Axis:
        return _Axis(self.most * other.most, self.is_known and other.is_known, False)


_Axes: TypeAlias = "list[_Axis]"


def drawn(seed: int) -> Program:
    """A program whose sums go over several axes at once, more often than not."""
    rng = random.Random(seed)
    count = rng.choice((1, 2, 2, 3))
    largest = {name: rng.choice(LARGEST[count]) for name in "abc"[:count]}
    axes: list[int | str] = [*largest, rng.choice((1, 3, 8, 32, 64))]
    rng.shuffle(axes)
    program = Program(largest, axes)
    now = [_Axis(a) if isinstance(a, int) else _Axis(largest[a], is_known=False) for a in axes]
    is_apart = True  # squashed values may be the same in float32, where a maximum finds others
    for _ in range(rng.randint(2, 6)):
        step, after = _next_step(rng, now, ("sum", "mean", "amax") if is_apart else ("sum", "mean"))
        if math.prod(axis.most for axis in after) > MOST_MADE:
            continue
        program.steps.append(step)
        is_apart = is_apart and step.name not in ("tanh", "reciprocal")
        now = after
        if not now:
            break
    return program


def _next_step(rng: random.Random, now: _Axes, totals: tuple[str, ...]) -> tuple[Step, _Axes]:
    """A step for a tensor of axes `now`, and those of its result."""
    axis, last = rng.randrange(len(now)), now[-1]
    several = tuple(sorted(rng.sample(range(len(now)), rng.randint(1, len(now)))))
    kinds = ["tanh", "reciprocal", "total", "total", "centred", "softmax", "doubled"]
    kinds += ["weighted"] * 3 if last.is_known else []
    kinds += ["gram", "transposed", "flattened"] if len(now) > 1 else []
    kinds += ["differences"] if now[axis].is_plain and not now[axis].is_known else []
    kind, after = rng.choice(kinds), [*now]
    if kind == "total":
        keepdim = rng.random() < 0.3
        left = [_Axis(1) if i in several else size for i, size in enumerate(now)]
        after = left if keepdim else [size for i, size in enumerate(now) if i not in several]
        return _total(rng.choice(totals), several, keepdim), after
    if kind == "centred":
        return _centred(several), after
    if kind == "softmax":
        return _softmax(axis), after
    if kind == "doubled":
        after[axis] = now[axis].times(_Axis(2))
        return _doubled(axis), after
    if kind == "weighted":
        after[-1] = _Axis(rng.choice((1, 5, 16, 64, 96)))
        return _weighted(last.most, after[-1].most, rng), after
    if kind == "gram":
        after[-2] = last
        return _gram(), after
    if kind == "transposed":
        other = rng.randrange(len(now))
        after[axis], after[other] = now[other], now[axis]
        return _transposed(axis, other), after
    if kind == "flattened":
        axis = min(axis, len(now) - 2)
        after[axis : axis + 2] = [now[axis].times(now[axis + 1])]
        return _flattened(axis), after
    if kind == "differences":
        after[axis] = now[axis]._replace(is_plain=False)
        return _differences(axis), after
    return (_tanh() if kind == "tanh" else _reciprocal()), after


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


def _reference(program: Program, x: Array) -> tuple[Array, Array, float]:
    """In float64 the result, the gradient of the sum of its half squares and itself, and the
    largest number on the way.
    """
    backs, largest = [], 1.0
    for step in program.steps:
        x, back = step.forward(x)
        backs.append(back)
        largest = max(largest, np.abs(x).max())
    slope = x + 1
    for back in reversed(backs):
        largest = max(largest, np.abs(slope).max())
        slope = back(slope)
    return x, slope, largest


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
        *right, largest = _reference(program, x.astype(float))
        for mine, exact in zip((found, slope), right, strict=True):
            allowed = 5e-4 * np.abs(exact).max() + 1e-5 * largest
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
