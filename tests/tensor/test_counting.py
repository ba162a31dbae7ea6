"""Places, counts, draws and statistics against NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import DTypeError, ShapeError

from .oracle import compare, compare_twice

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(17)
TABLE = RNG.normal(size=(3, 7)).astype(np.float32)


def test_nonzero_and_unique_match_numpy(device):
    x = RNG.integers(-2, 3, size=(4, 5)).astype(np.int32)
    mine = Tensor(x, device=device)
    np.testing.assert_array_equal(mine.nonzero().numpy(), np.argwhere(x))
    for a, b in zip(mine.nonzero(as_tuple=True), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    want = np.unique(x.ravel(), return_index=True, return_inverse=True, return_counts=True)
    found = mine.unique_all()
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a.numpy().ravel(), b)
    assert found.inverse_indices.shape == (4, 5)
    assert Tensor.zeros(3, device=device).nonzero().shape == (0, 1)
    assert mine.count_nonzero().item() == np.count_nonzero(x)


@pytest.mark.parametrize(("shape", "dim"), [((9, 3), 0), ((2, 9, 2), 1), ((3, 8), -1), ((6,), 0)])
def test_unique_slices_match_numpy(device, shape, dim):
    x = RNG.integers(0, 2, size=shape).astype(np.float32)
    found = Tensor(x, device=device).unique(return_inverse=True, return_counts=True, dim=dim)
    want = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.reshape(a.shape))


def test_slices_of_nothing_are_all_the_same(device):
    empty = Tensor.zeros(4, 0, device=device)
    values, counts = empty.unique(return_counts=True, dim=0)
    assert values.shape == (1, 0)
    assert counts.tolist() == [4]
    assert empty.unique(dim=1).shape == (4, 0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_matches_numpy(device, side):
    line = np.sort(np.array([1, 2, 2, 5, 5, 9, 11], np.float32))
    values = np.array([[0, 1, 2], [5, 6, 99]], np.float32)
    got = Tensor(line, device=device).searchsorted(Tensor(values, device=device), side=side)
    np.testing.assert_array_equal(got.numpy(), np.searchsorted(line, values, side))
    assert Tensor(line, device=device).searchsorted(5.0, side=side).shape == ()


def test_counts_match_numpy(device):
    x = np.array([1, 4, 1, 0, 4, 4], np.int32)
    mine = Tensor(x, device=device)
    np.testing.assert_array_equal(mine.bincount(minlength=7).numpy(), np.bincount(x, minlength=7))
    values = np.array([0.0, 0.1, 0.5, 1.0, 2.0, -1.0], np.float32)
    want = torch.histc(torch.tensor(values), 4, 0, 1).numpy()
    got = Tensor(values, device=device).histc(4, 0, 1).numpy()
    np.testing.assert_array_equal(got, want)
    with pytest.raises(DTypeError, match="counts numbers in their dtype, not bool"):
        Tensor([True, False], device=device).histc(2)
    with pytest.raises(ShapeError, match="-1 is negative"):
        Tensor([-1, 2]).bincount()
    with pytest.raises(DTypeError, match="counts integers"):
        Tensor([1.0]).bincount()


def test_places_of_an_axis_are_read_and_written(device):
    index = np.array([2, 0, 2])
    rows = RNG.normal(size=(3, 3)).astype(np.float32)
    compare(device, lambda x, i: x.index_select(1, i), lambda x, i: x.index_select(1, i),
            TABLE, index)  # fmt: skip
    compare(device, lambda x, i, s: x.index_add(1, i, s, alpha=2),
            lambda x, i, s: x.index_add(1, i, s, alpha=2), TABLE, index, rows)  # fmt: skip
    compare(device, lambda x, i: x.take(i), lambda x, i: x.take(i), TABLE, index)


def test_drawn_places_are_permutations_and_follow_weights():
    Tensor.manual_seed(5)
    assert sorted(Tensor.randperm(257).tolist()) == list(range(257))
    assert Tensor.randperm(0).shape == (0,)
    drawn = Tensor([1.0, 0.0, 3.0, 0.0]).multinomial(20_000, replacement=True).numpy()
    assert set(np.unique(drawn)) == {0, 2}
    assert abs((drawn == 2).mean() - 0.75) < 0.02
    several = Tensor([[0.0, 1.0, 5.0, 2.0]] * 50).multinomial(3).numpy()
    assert all(set(row) == {1, 2, 3} for row in several)
    with pytest.raises(ShapeError, match="without replacement"):
        Tensor([1.0, 2.0]).multinomial(3)


def test_running_sums_of_exponentials_match_pytorch(device):
    x = np.array([[-200.0, 3.0, 90.0, 1.0, -5.0], [0.0, 1.0, 2.0, 3.0, 4.0]], np.float32)
    compare(device, lambda x: x.logcumsumexp(1), lambda x: x.logcumsumexp(1), x, atol=1e-5)
    compare(device, lambda x: x.cummin(1)[0], lambda x: x.cummin(1).values, TABLE)
    compare_twice(lambda x: x.logcumsumexp(1), lambda x: x.logcumsumexp(1), x.astype(np.float64))


def test_statistics_match_pytorch(device):
    q = np.array([0.1, 0.5, 0.9], np.float32)
    compare(device, lambda x: x.quantile(Tensor(q, device=x.device), 1),
            lambda x: x.quantile(torch.tensor(q), 1), TABLE, atol=1e-5)  # fmt: skip
    compare(device, lambda x: x.quantile([0.1, 0.5], 1),
            lambda x: x.quantile(torch.tensor([0.1, 0.5]), 1), TABLE, atol=1e-5)  # fmt: skip
    compare(device, lambda x: x.median(1)[0], lambda x: x.median(1).values, TABLE)
    compare(device, lambda x: x.diff(2), lambda x: x.diff(n=2), TABLE)
    compare(device, lambda x: x.trapezoid(dx=0.5), lambda x: torch.trapezoid(x, dx=0.5), TABLE)


@pytest.mark.parametrize(
    "name", ["l1_loss", "mse_loss", "huber_loss", "smooth_l1_loss", "soft_margin_loss"]
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_matches_pytorch(name, reduction):
    target = np.sign(RNG.normal(size=TABLE.shape)).astype(np.float32)
    compare("CPU", lambda x, y: getattr(x, name)(y.detach(), reduction=reduction),
            lambda x, y: getattr(F, name)(x, y.detach(), reduction=reduction), TABLE, target,
            atol=1e-5)  # fmt: skip


def test_gradients_that_are_stored_are_the_same(device):
    compare(device, lambda x: x.sin().contiguous_backward().exp(), lambda x: x.sin().exp(), TABLE)
    x = Tensor(TABLE, device=device)
    assert x.add(1).kernelize().mul(2).schedule_with_vars()[1] == {}


def test_orthogonal_matrices_are_approached():
    x = Tensor(TABLE).newton_schulz(12, (1.5, -0.5))
    np.testing.assert_allclose(x.dot(x.mT).numpy(), np.eye(3), atol=1e-3)
