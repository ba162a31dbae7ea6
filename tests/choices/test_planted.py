"""Planted numbers stand where loops are cut, and show what numbers at random do not."""

from __future__ import annotations

import os
from weakref import WeakValueDictionary

import numpy as np
import pytest

from treadle import Context
from treadle.engine import kernels
from treadle.lower import linearize

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


def test_memory_that_is_not_filled_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argmax took the place that the step of the grid before had found, if its own was among the
    first rows: at random that was too seldom to be seen.
    """
    monkeypatch.setattr(kernels, "_kernels", WeakValueDictionary())  # without those that are right
    monkeypatch.setattr(linearize._Phase, "_filled_anew", lambda self, deps: {})
    seeds, found = range(20 if FULL else 3), 0
    with Context(CACHE=0):
        for seed in seeds:
            _, failed = run_all("CPU", [seed], ["places_down"], small=seed % 2 == 1)
            found += any("KernelMismatch" in line for line in failed)
    assert found * 2 > len(seeds)  # where some worker has several steps


@pytest.mark.parametrize("name", sorted(n for n in RECIPES if not any(w in n for w in FINITE)))
def test_what_is_not_finite_reaches_what_it_does_in_numpy(name: str) -> None:
    """A row of zeros, a mask or the next row's elements would spread it, or hide it."""
    for seed in range(20 if FULL else 1):
        run_with_one_not_finite(name, seed, "CPU")
