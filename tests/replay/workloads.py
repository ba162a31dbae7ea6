"""The programs whose kernels are recorded: bench rows, the demo, and generated programs.

for name, run in workloads(): run("NULL:3")   # schedules and renders for that device; nothing runs
"""

from __future__ import annotations

import functools
import operator
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.choices import chains as chains  # which adds a recipe
from tests.choices.operations import OfTensor
from tests.choices.recipes import RECIPES, Recipe

from treadle import Context, Tensor, TinyJit, nn
from treadle.bench.libraries.tensor import TensorLibrary
from treadle.bench.rows import works
from treadle.bench.work import Work
from treadle.demo import DigitNet

from . import units

__all__ = ["Workload", "run_unfilled", "workloads"]

Workload = Callable[[str], None]
CALLS = 3  # the first, the one that is captured, and a replay
CHAINS = 60


def workloads() -> Iterator[tuple[str, Workload]]:
    """Every program by name; the names are those of this checkout."""
    for work in works(quick=False):
        yield f"bench: {work.name}", functools.partial(_bench, work)
    yield "demo", _demo
    for name in RECIPES:
        for seed in range(CHAINS if name == "chain" else 1):
            yield f"program: {name} {seed}", functools.partial(_recipe, name, seed)
    yield from units.programs()


class _Unfilled(TensorLibrary):
    """treadle, with inputs on a device that has no memory."""

    def __init__(self, device: str) -> None:
        super().__init__("treadle")
        self.device = device
        self.wait = lambda: None

    def tensor(self, array: Any) -> Any:
        return _empty(array, self.device)


class _Shape:
    """What stands for the values of an input: their shape and type."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype


def _empty(like: Any, device: str) -> Tensor:
    return Tensor.empty(*like.shape, dtype=str(like.dtype), device=device).realize()


def _bench(work: Work, device: str) -> None:
    library = _Unfilled(device)
    given = [_empty(each, device) for each in (*work.weights.values(), *work.inputs)]
    weights = dict(zip(work.weights, given, strict=False))
    run = getattr(library, work.task)(work, weights, given[len(weights) :])
    for _ in range(CALLS):
        run()


def _demo(device: str) -> None:
    net = DigitNet()
    parameters = nn.state.get_parameters(net)
    for tensor in parameters:
        tensor.to_(device)
    optimiser = nn.optim.Adam(parameters)
    images = _empty(_Shape((64, 1, 8, 8), "float32"), device)
    labels = _empty(_Shape((64,), "int32"), device)

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimiser.schedule_step())

    with Context(TRAINING=1):
        for _ in range(CALLS):
            step(images, labels)
    net(images).argmax(1).realize()


def _recipe(name: str, seed: int, device: str) -> None:
    run_unfilled(RECIPES[name](random.Random(zlib.crc32(name.encode()) + seed), 1.0), device)


def run_unfilled(program: Recipe, device: str) -> None:
    """A generated program, and its gradients, on a device that has no memory."""
    inputs = [_empty(np.asarray(x), device) for x in program.inputs]
    with Context(IMAGE=int(program.images)):
        if program.captured:
            _call_captured(program, inputs)
        else:
            _with_gradients(program, inputs, device)


def _call_captured(program: Recipe, inputs: list[Tensor]) -> None:
    first, *others = inputs

    @TinyJit
    def step(x: Tensor) -> list[Tensor]:
        return [result.realize() for result in _results(program, [x, *others])]

    for _ in range(CALLS):
        step(first)


def _with_gradients(program: Recipe, inputs: list[Tensor], device: str) -> None:
    for tensor in inputs[: program.graded]:
        tensor.requires_grad_()
    results = _results(program, inputs)
    gradients: list[Tensor] = []
    if program.graded:
        arriving = [_empty(_Shape(x.shape, "float32"), device) for x in results]
        losses = [(x * w).sum() for x, w in zip(results, arriving, strict=True)]
        functools.reduce(operator.add, losses).backward()
        gradients = [x.grad for x in inputs[: program.graded] if x.grad is not None]
    Tensor.realize(*results, *gradients)


def _results(program: Recipe, inputs: list[Tensor]) -> list[Tensor]:
    found = program.run(OfTensor(), *inputs)
    return list(found) if isinstance(found, tuple) else [found]
