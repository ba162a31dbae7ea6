"""Planted numbers stand where loops are cut, and show what numbers at random do not."""

from __future__ import annotations

import os
from dataclasses import replace
from weakref import WeakValueDictionary

import numpy as np
import pytest

from treadle import Context
from treadle.engine import check_kernels, kernels
from treadle.engine.cache import CompileCache
from treadle.ir import accumulators
from treadle.ir.accumulators import Items
from treadle.ir.node import alu
from treadle.ir.op import Op

from . import running
from .planted import edges, planted
from .recipes import RECIPES
from .running import run_all, run_with_one_not_finite

FULL = bool(os.environ.get("FULL_TESTS"))
# Where a mask is added to scores, or a window has steps beyond an image that are left out, what is
# not finite reaches other results than in NumPy (docs/design/attention.md, convolution.md). NaN is
# the largest of a row, as in PyTorch.
FINITE = ("attention", "convolution", "images", "pooled", "top_of_rows")


def test_edges_are_the_ends_of_a_line_and_of_vectors_and_tiles_in_it() -> None:
    found = set(edges(975).tolist())
    assert found >= {0, 1, 7, 8, 9, 15, 16, 127, 128, 487, 959, 960, 961, 972, 973, 974}
    assert edges(1).tolist() == [0] * len(edges(1))
    for size in (1, 2, 3, 7, 100):
        assert {0, size - 1} <= set(edges(size).tolist()) <= set(range(size))


@pytest.mark.parametrize("is_smooth", [True, False])
def test_many_lines_have_extremes_at_edges(is_smooth: bool) -> None:
    rng = np.random.default_rng(0)
    array = rng.standard_normal((4, 200, 300)).astype(np.float32)
    found = planted(rng, array, is_smooth)
    assert (found.shape, found.dtype) == (array.shape, array.dtype)
    changed = found != array
    lines = [changed.any(axis).mean() for axis in range(3)]
    assert max(lines) > 0.4
    assert changed.mean() < 0.1
    extremes = found[changed & (found > array.max())]
    is_tied = len(np.unique(extremes)) < len(extremes)
    assert is_tied is not is_smooth
    assert (found == 0).any() is np.bool_(not is_smooth)


def test_what_has_no_lines_of_floats_stays() -> None:
    rng = np.random.default_rng(0)
    for array in (np.arange(5), np.ones((1, 1), np.float32), np.ones(3, bool)):
        assert planted(rng, array, False) is array


@pytest.mark.parametrize("are_planted", [True, False])
def test_a_wrong_one_of_equals_is_found(monkeypatch: pytest.MonkeyPatch, are_planted: bool) -> None:
    """An argmax that takes the last of equals is right for numbers at random: none are equal."""
    # All kernels are made here, and none is kept.
    monkeypatch.setattr(kernels, "_kernels", WeakValueDictionary())
    monkeypatch.setattr(kernels, "compile_cache", lambda: CompileCache(None))
    monkeypatch.setattr(check_kernels, "_optimised", check_kernels._optimised.__wrapped__)
    for op, rule in accumulators.ACCUMULATORS.items():
        monkeypatch.setitem(accumulators.ACCUMULATORS, op, replace(rule, combine=_last_of_equals))
    if not are_planted:
        monkeypatch.setattr(running, "planted", lambda rng, array, is_smooth: array)
    with Context(COMPILE_PROCESSES=0):
        _, failed = run_all("CPU", range(20 if FULL else 2), ["places_down"])
    assert bool(failed) is are_planted


def _last_of_equals(op: Op, before: Items, after: Items, in_order: bool) -> Items:
    is_better = alu(Op.CMPLT, *((before[0], after[0])[:: 1 if op is Op.MAX else -1]))
    is_equal, is_later = before[0].eq(after[0]), before[1] < after[1]
    takes = is_better | (is_equal & is_later)
    return tuple(alu(Op.WHERE, takes, new, old) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("name", sorted(n for n in RECIPES if not any(w in n for w in FINITE)))
def test_what_is_not_finite_reaches_what_it_does_in_numpy(name: str) -> None:
    """A row of zeros, a mask or the next row's elements would spread it, or hide it."""
    for seed in range(20 if FULL else 1):
        run_with_one_not_finite(name, seed, "CPU")
