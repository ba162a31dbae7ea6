"""One operator under the transforms of functions: two ways to the same numbers, each time.

    for case in cases("softmax", "REF", most=4):
        for check in CHECKS:
            check(case)         # AssertionError where the two disagree

Everything is computed in float64, so that disagreement is more than rounding. Gradients are
compared with PyTorch's elsewhere (`check.py`); here they are what the other transforms rest on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle
from treadle import Tensor, dtypes

from .check import CLEAR, samples, variants
from .table import ROWS
from .translate import floats, inputs

__all__ = ["CHECKS", "Case", "cases", "jacobians", "tangents"]

BATCH = 3
LARGEST = 300  # elements of a Jacobian that is computed as a whole


@dataclass(frozen=True)
class Case:
    """A sample as a function of its float tensors."""

    function: Callable[..., list[Tensor]]
    xs: list[Tensor]
    results: list[Tensor]
    shown: str

    def draw(self, like: list[Tensor], seed: int) -> list[Tensor]:
        """Numbers for directions and weights."""
        rng = np.random.default_rng(seed)
        return [_tensor(rng.uniform(0.5, 1.5, x.shape), x) for x in like]

    def total(self, *ys: Tensor) -> Tensor:
        """One number, in which every element of the results has another weight."""
        weights = self.draw(self.results, 7)
        parts = zip(weights, self.function(*ys), strict=True)
        return sum((w * r.double()).sum() for w, r in parts)  # type: ignore[return-value]

    def batches(self) -> list[np.ndarray]:
        """Examples close to the sample: no comparison comes out another way, mostly."""
        scales = [1 + 3e-3 * k for k in range(BATCH)]
        return [np.stack([x.numpy() * scale for scale in scales]) for x in self.xs]


def cases(name: str, device: str, most: int) -> Iterator[Case]:
    """About `most` samples of each variant, from its first to its last, that have derivatives."""
    for op in variants()[name]:
        graded = [sample for sample in samples(op) if op.supports_autograd]
        for sample in graded[:: max(1, -(-len(graded) // most))]:
            case = _case(name, sample, device)
            if case is not None:
                yield case


def _case(name: str, sample: Any, device: str) -> Case | None:
    args, kwargs, pairs = inputs(sample, device)
    leaves = [ours for _, ours in pairs if ours.numel()]
    xs = [x.detach().double() for x in leaves]
    others: dict[int, Tensor] = {}

    def replaced(value: Any, new: dict[int, Tensor]) -> Any:
        if isinstance(value, dict):
            return {key: replaced(item, new) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(replaced(item, new) for item in value)
        if isinstance(value, Tensor) and id(value) not in new and value.dtype is dtypes.float32:
            return others.setdefault(id(value), value.double())
        return new.get(id(value), value)

    def function(*ys: Tensor) -> list[Tensor]:
        new = {id(x): y for x, y in zip(leaves, ys, strict=True)}
        return floats(ROWS[name](*replaced(args, new), **replaced(kwargs, new)))

    if not xs:
        return None
    try:
        results = function(*xs)
    except CLEAR:
        return None  # test_opinfo knows why
    shapes = ", ".join(str(x.shape) for x in xs)
    return Case(function, xs, results, f"{name} of {shapes}") if results else None


def _tensor(values: np.ndarray, like: Tensor) -> Tensor:
    return Tensor(values, device=like.device, dtype=like.dtype)


# -- the checks -----------------------------------------------------------------------------------


def tangents(case: Case) -> None:
    """Forward and reverse mode are each other's adjoint."""
    moving = case.draw(case.xs, 1)
    results, found = treadle.jvp(case.function, tuple(case.xs), tuple(moving))
    arriving = case.draw(results, 2)
    _, products = treadle.vjp(case.function, *case.xs)
    narrow = any(y.dtype.bits < 32 for y in results)
    _same_sums(
        zip(arriving, found, strict=True),
        zip(products(arriving), moving, strict=True),
        2e-2 if narrow else 1e-7,
    )


def tangents_of_gradients(case: Case) -> None:
    """The Hessian's product with a vector: forward over reverse, and reverse over reverse."""
    every = range(len(case.xs))
    gradient = treadle.grad(case.total, tuple(every))
    moving, arriving = case.draw(case.xs, 1), case.draw(case.xs, 2)
    _, found = treadle.jvp(gradient, tuple(case.xs), tuple(moving))

    def along(*ys: Tensor) -> Any:
        parts = zip(arriving, gradient(*ys), strict=True)
        return sum((a * g).sum() for a, g in parts)

    other = treadle.grad(along, tuple(every))(*case.xs)
    _same_sums(zip(arriving, found, strict=True), zip(other, moving, strict=True))


def batches(case: Case) -> None:
    """A batch is its examples, one after the other."""
    _same_batch(case, case.function, (0,) * len(case.xs))


def shared_batches(case: Case) -> None:
    """The last axis has the examples; the last of several arguments is the same for all."""
    axes = [-1] * len(case.xs)
    if len(axes) > 1:
        axes[-1] = None  # type: ignore[call-overload]
    _same_batch(case, case.function, tuple(axes))


def batches_of_gradients(case: Case) -> None:
    """Each example's own gradient."""
    every = tuple(range(len(case.xs)))
    _same_batch(case, treadle.grad(case.total, every), (0,) * len(every))


def batches_of_tangents(case: Case) -> None:
    """Each example's own derivative along one direction."""
    moving = tuple(case.draw(case.xs, 1))
    _same_batch(case, lambda *ys: treadle.jvp(case.function, ys, moving)[1], (0,) * len(case.xs))


def jacobians(case: Case) -> None:
    """Forward and reverse mode give one Jacobian."""
    if case.xs[0].numel() * sum(y.numel() for y in case.results) > LARGEST:
        return
    forward, reverse = (f(case.function)(*case.xs) for f in (treadle.jacfwd, treadle.jacrev))
    for mine, other in zip(forward, reverse, strict=True):
        _close(mine.numpy(), other.numpy())


def hessians(case: Case) -> None:
    """Forward over reverse, and reverse over reverse."""
    if case.xs[0].numel() ** 2 > LARGEST:
        return
    found = treadle.hessian(case.total)(*case.xs)
    other = treadle.jacrev(treadle.jacrev(case.total))(*case.xs)
    _close(found.numpy(), other.numpy())


CHECKS: tuple[Callable[[Case], None], ...] = (
    tangents, tangents_of_gradients, batches, shared_batches, batches_of_gradients,
    batches_of_tangents, jacobians, hessians,
)  # fmt: skip


# -- what they share ------------------------------------------------------------------------------


def _same_batch(case: Case, function: Callable[..., Any], axes: tuple[int | None, ...]) -> None:
    """`function` mapped over examples along `axes` gives what it gives for each of them."""
    rows = case.batches()
    given = [
        x if axis is None else _tensor(np.moveaxis(row, 0, axis), x)
        for row, axis, x in zip(rows, axes, case.xs, strict=True)
    ]
    found = treadle.vmap(function, in_dims=axes)(*given)
    for k in range(BATCH):
        one = [
            x if axis is None else _tensor(row[k], x)
            for row, axis, x in zip(rows, axes, case.xs, strict=True)
        ]
        for mine, expected in zip(found, function(*one), strict=True):
            _close(mine[k].double().numpy(), expected.double().numpy())


def _same_sums(first: Any, second: Any, tolerance: float = 1e-7) -> None:
    """Two sums of products agree, measured by what they are sums of."""
    forward, reverse = ([_product(a, b) for a, b in pairs] for pairs in (first, second))
    size = max(sum(np.abs(part).sum() for part in parts) for parts in (forward, reverse))
    totals = [sum(part.sum() for part in parts) for parts in (forward, reverse)]
    np.testing.assert_allclose(*totals, rtol=0, atol=tolerance * size + 1e-9)


def _product(a: Tensor, b: Tensor) -> np.ndarray:
    return a.double().numpy() * b.double().numpy()


def _close(mine: np.ndarray, expected: np.ndarray) -> None:
    finite = np.abs(expected[np.isfinite(expected)])
    size = finite.max(initial=0.0)
    np.testing.assert_allclose(mine, expected, rtol=1e-6, atol=1e-8 * size + 1e-10)
