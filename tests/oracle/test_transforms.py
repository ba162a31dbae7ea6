"""Forward mode and batches of every operator in OpInfo, by the interpreter: nothing is compiled.

Tangents are checked against gradients, which `test_opinfo` compares with PyTorch's: each is the
other's adjoint. Batches are checked against one example at a time.
"""

from __future__ import annotations

import warnings
from itertools import islice
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch's OpInfo database: pip install treadle[oracle]")
pytest.importorskip("expecttest", reason="PyTorch's tests need it: pip install treadle[oracle]")

import treadle
from treadle import Tensor

from .opinfo.check import CLEAR, samples, variants
from .opinfo.table import ROWS
from .opinfo.translate import floats, inputs

# Of several writes to one place PyTorch gives each the gradient; the last one moves the result.
LAST_WRITES = {f"nn.functional.max_unpool{n}d" for n in (1, 2, 3)}


def _case(name: str) -> tuple[Any, list[Tensor]] | None:
    """A function of the operator's float inputs, and a sample of them."""
    found = None
    for sample in islice(samples(variants()[name][0]), 4):
        args, kwargs, pairs = inputs(sample, "REF")
        xs = [ours for _, ours in pairs if ours.numel()]
        if xs:
            found = _function(ROWS[name], args, kwargs, xs), xs
    return found


def _function(row: Any, args: Any, kwargs: Any, xs: list[Tensor]) -> Any:
    def replaced(value: Any, new: dict[int, Tensor]) -> Any:
        if isinstance(value, dict):
            return {key: replaced(item, new) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(replaced(item, new) for item in value)
        return new.get(id(value), value)

    def function(*ys: Tensor) -> list[Tensor]:
        new = {id(x): y for x, y in zip(xs, ys, strict=True)}
        return floats(row(*replaced(args, new), **replaced(kwargs, new)))

    return function


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_operator_has_tangents_and_works_on_batches(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = _case(name)
        if case is None:
            return  # nothing that could be differentiated
        function, xs = case
        try:
            results = function(*xs)
        except CLEAR:
            return  # test_opinfo knows why
        if results:
            if name not in LAST_WRITES:
                _check_tangents(function, xs)
            _check_batches(function, xs)


def _check_tangents(function: Any, xs: list[Tensor]) -> None:
    rng = np.random.default_rng(0)
    moving = [Tensor(rng.normal(size=x.shape), device="REF", dtype=x.dtype) for x in xs]
    results, tangents = treadle.jvp(function, tuple(xs), tuple(moving))
    _, products = treadle.vjp(function, *xs)
    arriving = [Tensor(rng.normal(size=y.shape), device="REF", dtype=y.dtype) for y in results]
    gradients = products(arriving)
    forward = [_product(a, b) for a, b in zip(arriving, tangents, strict=True)]
    reverse = [_product(a, b) for a, b in zip(gradients, moving, strict=True)]
    size = sum(np.abs(part).sum() for part in forward)
    narrow = any(y.dtype.bits < 32 for y in results)
    total = [sum(part.sum() for part in parts) for parts in (forward, reverse)]
    np.testing.assert_allclose(*total, rtol=0, atol=(2e-2 if narrow else 1e-4) * size + 1e-5)


def _product(a: Tensor, b: Tensor) -> np.ndarray:
    return a.double().numpy() * b.double().numpy()


def _check_batches(function: Any, xs: list[Tensor]) -> None:
    def other(x: Tensor) -> np.ndarray:
        return x.numpy() * np.float32(0.97) + np.float32(1e-3)

    batches = [Tensor(np.stack([x.numpy(), other(x)]), device="REF") for x in xs]
    found = treadle.vmap(function)(*batches)
    for k in range(2):
        expected = function(*[batch[k] for batch in batches])
        for mine, one in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                mine[k].float().numpy(), one.float().numpy(), rtol=1e-4, atol=1e-5
            )
