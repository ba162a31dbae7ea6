"""Reductions whose operands results share: each has the tiles of products, and its values."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.ir.choices import choices_of
from treadle.optimize.grouped_reductions import TileGroup
from treadle.optimize.heuristic import optimize
from treadle.optimize.shared_tiles import ShareTiles
from treadle.optimize.tile_reduction import TileReduction
from treadle.target import parse_target

PROCESSOR, GPU = "x86-64-v3", "sm_90a"

# Of x[i, None, k] and y[None, j, k], over k.
REDUCTIONS = {
    "city block": lambda x, y: abs(x - y).sum(-1),
    "squared distance": lambda x, y: ((x - y) ** 2).sum(-1),
    "largest difference": lambda x, y: abs(x - y).max(-1),
    "least sum": lambda x, y: (x + y).min(-1),
    "how many are larger": lambda x, y: (x > y).sum(-1),
    "whether one is larger": lambda x, y: (x > y + 60).any(-1),
    "whether all are": lambda x, y: (x > y - 60).all(-1),
}
OF_INTEGERS = ("least sum", "how many are larger", "whether one is larger")


def exact(*shape, dtype="float32"):
    """Whole numbers, whose sums and products are not rounded."""
    return np.random.default_rng(len(shape)).integers(0, 100, shape).astype(dtype)


def lazy(run, *arrays):
    return run(*(Tensor(array, device="CPU").realize() for array in arrays))


def table(rows, columns, steps, dtype="float32"):
    return exact(rows, 1, steps, dtype=dtype), exact(1, columns, steps, dtype=dtype)


def moves(tensor, target):
    *_, kernel = scheduled([(tensor.node, tensor.device)])
    return optimize(kernel.ast, parse_target(target))[1]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(("target", "kind"), [(PROCESSOR, TileReduction), (GPU, ShareTiles)])
def test_any_cheap_function_of_both_operands_has_tiles(name, target, kind):
    found = lazy(REDUCTIONS[name], *table(96, 80, 64))
    assert len(moves(found, target).of_kind(kind)) == 1


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("sizes", [(96, 80, 64), (61, 67, 35), (5, 131, 300), (130, 9, 513)])
def test_values_of_even_and_awkward_sizes(name, sizes):
    given = table(*sizes)
    found, wanted = lazy(REDUCTIONS[name], *given), REDUCTIONS[name](*given)
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_values_of_integers(name, dtype):
    given = table(61, 67, 70, dtype=dtype)
    found, wanted = lazy(REDUCTIONS[name], *given), REDUCTIONS[name](*given)
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("name", ["least sum", "largest difference", "how many are larger"])
def test_a_reduction_too_long_for_a_panel_is_cut_and_the_last_chunk_masked(name):
    given = table(40, 48, 20011)
    found, wanted = lazy(REDUCTIONS[name], *given), REDUCTIONS[name](*given)
    assert len(moves(found, PROCESSOR).of_kind(TileReduction)) == 1
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_what_is_the_same_for_all_results_is_read_where_it_is():
    weights = exact(70)
    run = lambda x, y, w: ((x - y).relu() * w).sum(-1)
    x, y = table(61, 67, 70)
    found = lazy(run, x, y, weights)
    assert len(moves(found, PROCESSOR).of_kind(TileReduction)) == 1
    np.testing.assert_array_equal(found.numpy(), (np.maximum(x - y, 0) * weights).sum(-1))


def test_a_mask_of_rows_and_columns_stays_where_it_is():
    run = lambda x, y: (x - y).abs().triu().sum(0)
    x, y = exact(70, 61, 1), exact(70, 1, 67)
    found = lazy(run, x, y)
    assert len(moves(found, PROCESSOR).of_kind(TileReduction)) == 1
    np.testing.assert_array_equal(found.numpy(), np.triu(abs(x - y)).sum(0))


def test_windows_of_an_image_are_compared_with_patterns():
    image, patterns = exact(40, 40, 16), exact(8, 3, 3, 16)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (0, 1))
    wanted = abs(windows.transpose(0, 1, 3, 4, 2)[:, :, None] - patterns).sum((-1, -2, -3))

    def run(x, p):
        seen = x.unfold(0, 3, 1).unfold(1, 3, 1).permute(0, 1, 3, 4, 2)
        return (seen.unsqueeze(2) - p).abs().sum((-1, -2, -3))

    found = lazy(run, image, patterns)
    (tiled,) = moves(found, PROCESSOR).of_kind(TileReduction)
    assert tiled.rows.startswith("image")
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_padding_that_is_never_the_largest_takes_no_steps():
    image, weight = exact(2, 16, 14, 14), exact(24, 16, 5, 5)

    def run(x, w):
        seen = x.pad((2, 2, 2, 2), value=-float("inf")).unfold(2, 5, 1).unfold(3, 5, 1)
        return (seen.unsqueeze(1) + w.reshape(1, 24, 16, 1, 1, 5, 5)).max((2, 5, 6))

    padded = np.pad(image, ((0, 0), (0, 0), (2, 2), (2, 2)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), (2, 3))
    wanted = (windows[:, None] + weight[:, :, None, None]).max((2, 5, 6))
    found = lazy(run, image, weight)
    with choices_of() as choices:
        moves(found, PROCESSOR)
    assert "skip_padding" in choices
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_several_reductions_of_the_same_operands_are_in_one_tile():
    run = lambda x, y: (abs(x - y).sum(-1) + abs(x - y).max(-1)) / (x + y).max(-1)
    given = table(61, 67, 70)
    found = lazy(run, *given)
    assert len(moves(found, PROCESSOR).of_kind(TileGroup)) == 1
    np.testing.assert_allclose(found.numpy(), run(*given), rtol=1e-6)


@pytest.mark.parametrize("name", ["exponential", "three operands", "one operand"])
def test_what_is_costly_or_not_of_two_operands_has_no_tiles(name):
    others = {
        "exponential": lambda x, y: (x / 64 - y).exp().sum(-1),
        "three operands": lambda x, y: (x * y - x.flip(1) * y.flip(-1)).sum(-1),
        "one operand": lambda x, y: (x - 1).abs().sum(-1) + y.sum(-1),
    }
    assert not moves(lazy(others[name], *table(96, 80, 64)), PROCESSOR).of_kind(TileReduction)
