"""Reductions and scans against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import IndexOutOfRange, ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(3)
CUBE = RNG.normal(size=(2, 3, 4)).astype(np.float32)
WITH_ZEROS = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0], [1.0, 2.0, 3.0]], np.float32)
TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], np.float32)

CASES = {
    "sum": lambda x: x.sum(),
    "sum of an axis": lambda x: x.sum(-1),
    "sum of axes kept": lambda x: x.sum((0, 2), True),
    "mean": lambda x: x.mean((0, 1)),
    "std": lambda x: x.std(-1),
    "softmax": lambda x: x.softmax(-1),
    "softmax of the first axis": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(1),
    "cumsum": lambda x: x.cumsum(1),
    "triu": lambda x: x.triu(1),
    "tril": lambda x: x.tril(-1),
    "tril above": lambda x: x.tril(1),
}


@pytest.mark.parametrize("name", CASES)
def test_a_reduction_matches_pytorch_in_value_and_gradient(device, name):
    compare(device, CASES[name], CASES[name], CUBE)


def test_variance_takes_a_correction(device):
    for n in (0, 1, 2):
        compare(
            device,
            lambda x, n=n: x.var(1, correction=n),
            lambda x, n=n: x.var(1, correction=n),
            CUBE,
        )
    pair = Tensor(CUBE, device=device).std_mean(0)
    want = torch.std_mean(torch.tensor(CUBE), 0)
    for a, b in zip(pair, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


def test_logsumexp_matches_pytorch_even_at_infinities(device):
    compare(device, lambda x: x.logsumexp((0, 1)), lambda x: x.logsumexp((0, 1)), CUBE)
    low = np.full((2, 2), -np.inf, np.float32)
    compare(device, lambda x: x.logsumexp(1), lambda x: x.logsumexp(1), low, grad=False)


def test_the_gradient_of_a_product_is_exact_with_zeros(device):
    compare(device, lambda x: x.prod(1), lambda x: x.prod(1), WITH_ZEROS)
    compare(device, lambda x: x.prod(), lambda x: x.prod(), WITH_ZEROS[2:])
    compare(device, lambda x: x.cumprod(1), lambda x: x.cumprod(1), WITH_ZEROS)
    compare(device, lambda x: x.cumprod(0), lambda x: x.cumprod(0), WITH_ZEROS)


def test_equal_extremes_share_the_gradient(device):
    compare(device, lambda x: x.max(1), lambda x: x.amax(1), TIES)
    compare(device, lambda x: x.min(0, keepdim=True), lambda x: x.amin(0, keepdim=True), TIES)
    compare(device, lambda x: x.cummax(1)[0], lambda x: x.cummax(1).values, TIES)
    compare(device, lambda x: x.cummax(0)[0], lambda x: x.cummax(0).values, CUBE)


def test_the_places_of_running_extremes_are_pytorchs(device):
    torch = pytest.importorskip("torch")
    broken = np.array([[1.0, 3.0, np.nan, 5.0, np.nan, 2.0], [2.0, 2.0, 1.0, 3.0, 3.0, -1.0]])
    for data in (TIES, broken.astype(np.float32), np.array([[3, 3, 1], [0, 5, 5]], np.int32)):
        for name in ("cummax", "cummin"):
            for axis in (0, 1):
                values, places = getattr(Tensor(data, device=device), name)(axis)
                wanted = getattr(torch.tensor(data), name)(axis)
                np.testing.assert_array_equal(values.numpy(), wanted.values.numpy())
                np.testing.assert_array_equal(places.numpy(), wanted.indices.numpy())
                assert places.dtype is dtypes.int32
    values, places = Tensor(3.0, device=device).cummax()
    assert (values.item(), places.item()) == (3.0, 0)


def test_the_place_of_an_extreme_is_the_first_one_and_nan_wins(device):
    x = Tensor(TIES, device=device)
    assert x.argmax(1).tolist() == [1, 0]
    assert x.argmin().tolist() == 0
    assert x.argmax(0, keepdim=True).tolist() == [[1, 0, 0]]
    assert x.argmax().dtype is dtypes.int32
    broken = Tensor([1.0, np.nan, 5.0, np.nan], device=device)
    assert broken.argmax().item() == 1
    assert broken.argmin().item() == 1
    assert np.isnan(broken.max().item())
    assert np.isnan(broken.min().item())


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (dtypes.bool, dtypes.int32), (dtypes.int8, dtypes.int32), (dtypes.int64, dtypes.int64),
        (dtypes.uint8, dtypes.uint32), (dtypes.uint64, dtypes.uint64),
        (dtypes.float16, dtypes.float16), (dtypes.bfloat16, dtypes.bfloat16),
    ],
)  # fmt: skip
def test_a_sum_has_the_specified_dtype(dtype, expected):
    x = Tensor([1, 1, 0]).cast(dtype)
    assert x.sum().dtype is expected
    assert x.cumsum().dtype is expected
    assert x.sum().item() == 2


def test_halves_add_in_float32(device):
    x = Tensor.ones(4096, dtype=dtypes.float16, device=device)
    assert x.sum().item() == 4096
    assert (x * 100).mean().item() == 100


def test_any_and_all_are_bool(device):
    x = Tensor([[0.0, 2.0], [0.0, 0.0], [1.0, np.nan]], device=device)
    assert x.any(1).tolist() == [True, False, True]
    assert x.all(1).tolist() == [False, False, True]
    assert x.any().item() is True


def test_an_empty_axis_sums_to_zero_and_has_no_maximum(device):
    x = Tensor.zeros(2, 0, device=device)
    assert x.sum(1).tolist() == [0.0, 0.0]
    assert x.prod(1).tolist() == [1.0, 1.0]
    assert np.isnan(x.mean(1).numpy()).all()
    with pytest.raises(ShapeError, match=r"\[max\] shape \(2, 0\) has no elements"):
        x.max(1)


def test_a_wrong_axis_is_refused_at_the_call():
    with pytest.raises(IndexOutOfRange, match=r"\[sum\] axis 2 does not exist: .* -2 to 1"):
        Tensor.zeros(2, 2).sum(2)
    with pytest.raises(ShapeError, match=r"\[sum\] axes \(0, -2\) name the same axis twice"):
        Tensor.zeros(2, 2).sum((0, -2))


def test_the_standard_deviation_of_equal_numbers_has_the_gradient_0(device):
    x = Tensor([[3.0, 3.0, 3.0], [1.0, 2.0, 3.0]], device=device, requires_grad=True)
    x.std(1).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0, 0], [-0.5, 0, 0.5]], atol=1e-6)
