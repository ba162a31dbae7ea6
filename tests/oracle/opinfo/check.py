"""One operator against PyTorch: values, gradients of first and second order, and its errors.

check("softmax", "CPU")  -> an Outcome for each kind of check: how much ran, what failed and why
"""

from __future__ import annotations

import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo

from treadle import Tensor
from treadle.errors import InternalError, TreadleError

from .table import ROWS
from .translate import flat, floats, inputs, to_torch

__all__ = ["CLEAR", "KINDS", "Outcome", "check", "names", "samples", "variants"]

KINDS = ("values", "gradients", "second", "errors")
CLEAR = (TreadleError, TypeError, ValueError, IndexError)


@dataclass
class Outcome:
    """What one kind of check found for one name."""

    ran: int = 0
    failures: list[str] = field(default_factory=list)


class Absent(Exception):
    """Treadle has no such method yet."""


@cache
def variants() -> dict[str, list[Any]]:
    """The entries of each name."""
    found = defaultdict(list)
    for op in op_db:
        found[op.name].append(op)
    return found


def names() -> list[str]:
    """Every name in OpInfo."""
    return sorted(variants())


def check(
    name: str, device: str, kinds: tuple[str, ...] = KINDS, most: int | None = None
) -> dict[str, Outcome] | None:
    """Run every sample of every variant of `name`; None if treadle lacks the method.

    `most`: about so many samples of a variant, from its first to its last, if it has more.
    """
    found = {kind: Outcome() for kind in kinds}
    row = ROWS[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for op in variants()[name]:
                chosen = list(samples(op))
                for sample in chosen[:: max(1, len(chosen) // most) if most else 1]:
                    _compare(op, row, sample, device, found)
                if "errors" in found:
                    _check_errors(op, row, device, found["errors"])
    except Absent:
        return None
    return found


def samples(op: Any) -> Iterator[Any]:
    """The float32 samples; those of integers where floats make no sense."""
    known = op.supported_dtypes("cpu")
    kinds = (torch.float32, torch.int64, torch.bool)
    dtype = next((kind for kind in kinds if kind in known), None)
    if dtype is None:
        return
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    graded = op.supports_autograd and dtype is torch.float32
    yield from op.sample_inputs("cpu", dtype, requires_grad=graded)


def _tolerance(op: Any, dtype: torch.dtype) -> tuple[float, float]:
    """PyTorch's default for the dtype, or what the operator's own tests allow beyond it."""
    rtol, atol = {torch.float64: (1e-7, 1e-7)}.get(dtype, (1.3e-6, 1e-5))
    if dtype in (torch.float16, torch.bfloat16):
        rtol, atol = 1.6e-2, 1e-5
    for info in op.decorators:
        for decorator in getattr(info, "decorators", ()):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                own = decorator.d[dtype]
                rtol, atol = max(rtol, own.rtol), max(atol, own.atol)
    return rtol, atol


# -- values and gradients ---------------------------------------------------------------------


def _compare(op: Any, row: Callable[..., Any], sample: Any, device: str, found: Any) -> None:
    """Values, then gradients, then theirs: each only where the one before agreed."""
    args, kwargs, pairs = inputs(sample, device)
    pairs = [pair for pair in pairs if pair[0].numel()]
    theirs = op(sample.input, *sample.args, **sample.kwargs)
    with _noted(found["values"], sample) as agreed:
        ours = row(*args, **kwargs)
        _assert_same(op, ours, theirs)
    for kind in ("gradients", "second"):
        tops = [x for x in floats(theirs) if x.requires_grad]
        if not agreed or kind not in found or not tops or not pairs:
            return
        if kind == "second" and not op.supports_gradgrad:
            return
        mine = [x for x, y in zip(floats(ours), floats(theirs), strict=True) if y.requires_grad]
        weights = _weights(tops)
        try:
            theirs = _their_gradients(tops, pairs, weights, again=kind == "gradients")
        except RuntimeError:  # some of PyTorch's own have no second derivative
            return
        with _noted(found[kind], sample) as agreed:
            ours = _our_gradients(mine, pairs, weights)
            _assert_same(op, ours, theirs, scaled=kind == "second")


def _weights(results: list[torch.Tensor]) -> list[np.ndarray]:
    """Numbers between 1 and 2, one for each element of each result."""
    rng = np.random.default_rng(len(results))
    return [rng.uniform(1, 2, tuple(x.shape)) for x in results]


def _their_gradients(tops: Any, pairs: Any, weights: Any, again: bool) -> list[torch.Tensor]:
    seeds = [torch.tensor(w).to(x.dtype) for w, x in zip(weights, tops, strict=True)]
    targets = [pair[0] for pair in pairs]
    return list(
        torch.autograd.grad(
            tops, targets, seeds, create_graph=again, allow_unused=True, materialize_grads=True
        )
    )


def _our_gradients(tops: Any, pairs: Any, weights: Any) -> list[Tensor]:
    total: Any = 0
    for x, w in zip(tops, weights, strict=True):
        total = (x * Tensor(w, device=x.device, dtype=x.dtype)).sum().double() + total
    return total.gradient(*(pair[1] for pair in pairs), materialize_grads=True)


def _assert_same(op: Any, ours: Any, theirs: Any, scaled: bool = False) -> None:
    """`scaled`: the absolute tolerance grows with the largest value, as what cancels there does."""
    mine, expected = flat(ours), flat(theirs)
    assert len(mine) == len(expected), f"{len(mine)} results, expected {len(expected)}"
    tensors = [x for x in mine if isinstance(x, Tensor)]
    if tensors:
        tensors[0].realize(*tensors[1:])
    for a, b in zip(mine, expected, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b, f"{a} instead of {b}"
            continue
        value, b = to_torch(a), b.detach().resolve_conj().resolve_neg()
        assert _family(value) == _family(b), f"{value.dtype} instead of {b.dtype}"
        rtol, atol = _tolerance(op, b.dtype)
        if scaled and b.isfinite().any():
            atol *= max(1.0, b[b.isfinite()].abs().max().item())
        torch.testing.assert_close(
            value, b, rtol=rtol, atol=atol, equal_nan=True, check_dtype=False, check_stride=False
        )


def _family(value: torch.Tensor) -> Any:
    """Integers may differ in width: places are int32 here, int64 in PyTorch."""
    if value.dtype is torch.bool or value.is_floating_point():
        return value.dtype
    return "integer"


# -- errors -----------------------------------------------------------------------------------


def _check_errors(op: Any, row: Callable[..., Any], device: str, outcome: Outcome) -> None:
    """What PyTorch refuses, treadle refuses clearly, when the call is made or its result read."""
    if op.error_inputs_func is None:
        return
    for case in op.error_inputs("cpu"):
        sample = case.sample_input
        if isinstance(op, BinaryUfuncInfo) and not isinstance(sample.input, torch.Tensor):
            continue  # numbers have no methods of a tensor
        with _noted(outcome, sample):
            try:
                args, kwargs, _ = inputs(sample, device)
                result = row(*args, **kwargs)
                for tensor in flat(result):
                    if isinstance(tensor, Tensor):
                        tensor.numpy()
            except CLEAR as error:
                if isinstance(error, InternalError) or not str(error):
                    raise
            else:
                raise AssertionError(f"computes; PyTorch: {str(case.error_regex)[:80]}")


class _noted:
    """Count a sample; note what was raised in it as a failure. False afterwards if so."""

    def __init__(self, outcome: Outcome, sample: Any) -> None:
        self.outcome, self.sample, self.fine = outcome, sample, True

    def __enter__(self) -> Self:
        self.outcome.ran += 1
        return self

    def __bool__(self) -> bool:
        return self.fine

    def __exit__(self, *raised: object) -> bool:
        kind, error, _ = raised
        if error is None:
            return False
        if isinstance(error, AttributeError) and _lacks_method(error):
            raise Absent(error.name) from error
        self.fine = False
        words = " ".join(str(error).split())[:200]
        self.outcome.failures.append(f"{_shown(self.sample)}: {kind.__name__}: {words}")
        return isinstance(error, Exception)


def _lacks_method(error: AttributeError) -> bool:
    of_tensor = error.obj is Tensor or isinstance(error.obj, Tensor)
    return of_tensor and not error.name.startswith("_")


def _shown(sample: Any) -> str:
    def show(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(show, value))}]"
        return repr(value)

    named = [f"{key}={show(value)}" for key, value in sample.kwargs.items()]
    return ", ".join([*map(show, (sample.input, *sample.args)), *named])
