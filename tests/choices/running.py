"""Runs a Recipe on a device with every kernel checked, and compares it with NumPy in float64."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from treadle import Context, Device, Tensor, TinyJit
from treadle.engine import pipeline
from treadle.engine.programs import Programs
from treadle.ir.choices import Observed, observing

from . import beside as beside  # which adds a recipe, as
from . import chains as chains  # this
from . import moved as moved  # and these do
from . import trees as trees
from .every_two import every_two
from .meetings import MEETINGS
from .operations import OfNumpy, OfTensor
from .planted import edges, planted
from .recipes import RECIPES, Recipe
from .report import kind_of
from .scenarios import SCENARIOS

__all__ = [
    "SCALES", "changed_target", "compared", "run_all", "run_every_two", "run_meetings",
    "run_narrow", "run_program", "run_recipe", "run_scenario", "run_surrounded",
    "run_with_one_not_finite", "small_device", "usual_caches",
]  # fmt: skip

SCALES = {"AMD": 0.25, "CUDA": 0.25, "CL": 0.5, "WEBGPU": 0.5}  # the rest run at full size
FINE, LOOSE = 2e-4, 2e-2  # of the largest element; the kernels are held to less each
LEAST = 1.0  # of what normal numbers become; smaller ones are differences of such
# Short: few numbers pass a kink or change places on the way. Where some do, the shorter step tells.
STEPS, SLOPE = (1e-7, 1e-8), 2e-3
CALLS = 3  # of a captured function: the first, the one that is captured, and a replay
NOT_FINITE = (np.nan, np.inf, -np.inf)
FLAT = 0.2  # gradients that are less are differences of such that are not; more of many numbers


@contextlib.contextmanager
def small_device(device: str) -> Iterator[None]:
    """A block in which kernels are made for caches of a few KiB, or for one multiprocessor.

    What they do for memory that no cache holds, they do for small matrices then; and tiles of small
    matrices are as large as those that keep all of a GPU busy with large ones.
    """
    workgroup = Device[device].target.workgroup
    if workgroup is None:
        sizes: dict[str, Any] = {"l1": 8 << 10, "l2": 64 << 10, "l3": 256 << 10}
    else:
        sizes = {"workgroup": replace(workgroup, busy=1)}
    with changed_target(device, **sizes):
        yield


@contextlib.contextmanager
def usual_caches(device: str) -> Iterator[None]:
    """A block in which kernels of a processor are made for caches that many processors have.

    Those of a large server hold matrices for which other kernels are made elsewhere.
    """
    with changed_target(device, l1=32 << 10, l2=512 << 10, l3=16 << 20):
        yield


@contextlib.contextmanager
def changed_target(device: str, **changes: Any) -> Iterator[None]:
    """A block in which kernels are made for a target that differs from the device's own.

    It begins without the programs that the process remembers: those are of the own one.
    """
    name = Device.canonicalize(device)
    whole = Device[name]
    opened = {name: replace(whole, target=replace(whole.target, **changes))}
    programs = mock.patch.object(pipeline, "_programs", Programs())
    with mock.patch.dict(Device._opened, opened), programs:
        yield


def run_recipe(name: str, seed: int, device: str) -> Observed:
    """Run the recipe `name` with sizes and numbers of `seed`. Raises where anything is wrong."""
    rng = random.Random(zlib.crc32(name.encode()) + seed)
    recipe = RECIPES[name](rng, SCALES.get(device.partition(":")[0], 1.0))
    return run_program(recipe, seed, device)


def run_program(program: Recipe, seed: int, device: str) -> Observed:
    """Run a recipe with weights of `seed`. Raises where anything is wrong."""
    with observing() as seen, Context(CHECK_KERNELS=1, IMAGE=int(program.images)):
        if program.captured:
            compared_captured(program, device)
        else:
            compared(program, device, np.random.default_rng(seed))
    return seen


def run_narrow(name: str, seed: int, device: str, dtype: str) -> Observed:
    """Run a recipe of inputs that are `dtype`, and its gradients, with every kernel checked.

    What it comes to in float64 is another matter: results may round many times.
    """
    rng = random.Random(zlib.crc32(name.encode()) + seed)
    recipe = RECIPES[name](rng, SCALES.get(device.partition(":")[0], 1.0))
    drawn = np.random.default_rng(seed)
    with observing() as seen, Context(CHECK_KERNELS=1, IMAGE=int(recipe.images)):
        inputs = [in_memory(array, device) for array in recipe.inputs]
        inputs = [x.cast(dtype).realize() if x.dtype.is_float else x for x in inputs]
        for x in inputs[: recipe.graded]:
            x.requires_grad_()
        results = _listed(recipe.run(OfTensor(), *inputs))
        if recipe.graded:
            weights = [drawn.standard_normal(x.shape).astype(np.float32) for x in results]
            pairs = zip(results, weights, strict=True)
            parts = ((x * Tensor(w, device=device).cast(x.dtype)).sum() for x, w in pairs)
            sum(parts, Tensor(0.0, device=device)).backward()
        grads = (x.grad for x in inputs[: recipe.graded])
        Tensor.realize(*results, *(grad for grad in grads if grad is not None))
    return seen


def in_memory(array: np.ndarray, device: str) -> Tensor:
    """A tensor in memory of its own."""
    return Tensor(array, device=device).realize()


def compared(
    recipe: Recipe,
    device: str,
    rng: np.random.Generator,
    placed: Callable[[np.ndarray, str], Tensor] = in_memory,
    are_planted: bool = True,
) -> None:
    """Values, and gradients as slopes in a random direction, beside NumPy's.

    Inputs are where `placed` puts them, and have numbers `planted` at the ends of their lines.
    """
    at_once = rng.integers(2)  # or the values first, which gradients then read
    recipe = _planted(recipe, rng) if are_planted else recipe
    tensors = [placed(array, device) for array in recipe.inputs]
    for tensor in tensors[: recipe.graded]:
        tensor.requires_grad_()
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in recipe.inputs]
    results = _listed(recipe.run(OfTensor(), *tensors))
    weights, gradients = [], []
    if recipe.graded:
        weights = [rng.standard_normal(x.shape).astype(np.float32) for x in results]
        if not at_once:
            Tensor.realize(*results)
        pairs = zip(results, weights, strict=True)
        sum((x * Tensor(w, device=device)).sum() for x, w in pairs).backward()
        gradients = [tensor.grad for tensor in tensors[: recipe.graded]]
    Tensor.realize(*results, *(grad for grad in gradients if grad is not None))
    for result, right in zip(results, _listed(recipe.run(OfNumpy(), *wide)), strict=True):
        _compare(result, right, recipe.loose)
    if recipe.graded:
        found = [
            np.zeros(x.shape, np.float32) if grad is None else grad.numpy()
            for x, grad in zip(recipe.inputs, gradients, strict=False)
        ]
        _compare_slope(recipe, wide, weights, found, rng)


def compared_captured(recipe: Recipe, device: str) -> None:
    """The values of a captured function of the first input beside NumPy's, call by call."""
    recipe = _planted(recipe, np.random.default_rng(len(recipe.inputs)))
    first, *others = (in_memory(array, device) for array in recipe.inputs)
    step = TinyJit(lambda x: _realized(recipe.run(OfTensor(), x, *others)))
    for call in range(CALLS):
        array = recipe.inputs[0] * np.float32(1 - 0.25 * call)
        found = step(first if call == 0 else in_memory(array, device))
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in recipe.inputs]
        wide[0] = array.astype(np.float64)
        for result, right in zip(found, _listed(recipe.run(OfNumpy(), *wide)), strict=True):
            _compare(result, right, recipe.loose)


def run_surrounded(name: str, seed: int, device: str) -> None:
    """A recipe whose inputs are parts of memory that is NaN around them.

    What a kernel reads beyond a part and multiplies by 0 is not 0 then.
    """
    rng = random.Random(zlib.crc32(name.encode()) + seed)
    recipe = RECIPES[name](rng, SCALES.get(device.partition(":")[0], 1.0))
    with Context(IMAGE=int(recipe.images)):
        compared(recipe, device, np.random.default_rng(seed), functools.partial(_surrounded, rng))


def run_with_one_not_finite(name: str, seed: int, device: str) -> None:
    """A recipe's values, where one element of an input at an edge is NaN or infinite."""
    rng = random.Random(zlib.crc32(name.encode()) + seed)
    recipe = RECIPES[name](rng, SCALES.get(device.partition(":")[0], 1.0))
    number = rng.choice([n for n, x in enumerate(recipe.inputs) if x.dtype.kind == "f"])
    inputs, changed = list(recipe.inputs), recipe.inputs[number].copy()
    changed[tuple(rng.choice(edges(size)) for size in changed.shape)] = rng.choice(NOT_FINITE)
    inputs[number] = changed
    with Context(IMAGE=int(recipe.images)), np.errstate(all="ignore"):
        recipe = replace(recipe, inputs=inputs, graded=0)
        compared(recipe, device, np.random.default_rng(seed), are_planted=False)


def _surrounded(rng: random.Random, array: np.ndarray, device: str) -> Tensor:
    if array.dtype.kind != "f":
        return in_memory(array, device)
    before = [rng.randrange(3) for _ in array.shape]
    sizes = [n + b + rng.choice((0, 1, 5, 16)) for n, b in zip(array.shape, before, strict=True)]
    part = tuple(slice(b, b + n) for n, b in zip(array.shape, before, strict=True))
    whole = np.full(sizes, np.nan, array.dtype)
    whole[part] = array
    return in_memory(whole, device)[part]


def _planted(recipe: Recipe, rng: np.random.Generator) -> Recipe:
    inputs = [planted(rng, array, bool(recipe.graded)) for array in recipe.inputs]
    return replace(recipe, inputs=inputs)


def _realized(results: Any) -> list[Tensor]:
    return [x.realize() for x in _listed(results)]


def _compare(result: Tensor, right: Any, is_loose: bool) -> None:
    expected = np.asarray(right, np.float64)
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    allowed = (LOOSE if is_loose else FINE) * max(LEAST, largest)
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=allowed)


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def _compare_slope(
    recipe: Recipe, inputs: list[Any], weights: list[np.ndarray], gradients: list[np.ndarray],
    rng: np.random.Generator,
) -> None:  # fmt: skip
    ways = [rng.standard_normal(g.shape) for g in gradients]

    def loss(step: float) -> float:
        moved = [x + step * way for x, way in zip(inputs, ways, strict=False)]
        results = _listed(recipe.run(OfNumpy(), *moved, *inputs[len(ways) :]))
        return float(sum((x * w).sum() for x, w in zip(results, weights, strict=True)))

    pairs = list(zip(gradients, ways, strict=True))
    found = sum(float((g.astype(np.float64) * way).sum()) for g, way in pairs)
    size = float(np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradients)))
    flat = max(FLAT, 1e-3 * sum(g.size for g in gradients) ** 0.5)
    slopes = []
    for step in STEPS:
        slopes.append((loss(step) - loss(-step)) / (2 * step))
        if abs(found - slopes[-1]) <= SLOPE * max(size, flat):
            return
    raise AssertionError(f"slope {found}, expected one of {slopes}")


def run_all(
    device: str, seeds: Iterable[int], only: Collection[str] = (), small: bool = False
) -> tuple[Observed, list[str]]:
    """All scenarios, and all recipes with each of `seeds`: what was seen, and what was wrong.

    A processor has its usual caches, or some of a few KiB, if they are to be `small`.
    """
    chosen = lambda table: [name for name in table if not only or name in only]
    jobs = [(name, functools.partial(run_scenario, name, device)) for name in chosen(SCENARIOS)]
    jobs += [
        (f"{name} {seed}", functools.partial(run_recipe, name, seed, device))
        for seed in seeds
        for name in chosen(RECIPES)
    ]
    caches = small_device if small else usual_caches
    with caches(device) if kind_of(device) == "processors" else contextlib.nullcontext():
        return _run(jobs)


def run_every_two(device: str, part: slice = slice(None)) -> tuple[Observed, list[str]]:
    """Every two terms beside each other, on a small device; or a `part` of that."""
    programs = itertools.islice(every_two(), part.start, part.stop, part.step)
    jobs = ((name, functools.partial(run_program, made, 0, device)) for name, made in programs)
    with small_device(device):
        return _run(jobs)


def run_meetings(
    device: str, part: slice = slice(None), only: Collection[str] = ()
) -> tuple[Observed, list[str]]:
    """The programs for pairs that meet nowhere else, on a small device; or a `part` of them."""
    chosen = [one for one in MEETINGS.items() if not only or one[0] in only]
    programs = chosen[part]
    jobs = ((name, lambda make=make: run_program(make(), 0, device)) for name, make in programs)
    with small_device(device):
        return _run(jobs)


def _run(jobs: Iterable[tuple[str, Callable[[], Observed]]]) -> tuple[Observed, list[str]]:
    whole, failed = Observed(), []
    for name, job in jobs:
        try:
            whole.kernels.update(job().kernels)
        except Exception as error:  # whatever it is, the other programs run
            failed.append(f"{name}: {type(error).__name__}: {error}")
    return whole, failed


def run_scenario(name: str, device: str) -> Observed:
    """Run the scenario `name`. Raises where anything is wrong."""
    with observing() as seen, Context(CHECK_KERNELS=1):
        SCENARIOS[name](device)
    return seen
