"""sort, argsort and topk against PyTorch, on every device: orders, ties, NaN, gradients."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import IndexOutOfRange, ShapeError

from ..devices import has_float64
from .oracle import compare

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(3)
SHAPES = [((5,), 0), ((3, 7), 1), ((3, 7), 0), ((2, 130, 3), 1), ((3, 300), -1), ((2, 5001), 1)]
DTYPES = ["float32", "float16", "int32", "int8", "uint8", "int64", "uint16", "bool"]


def numbers(shape, dtype):
    """Many ties; among floats NaN, infinities and both zeros."""
    values = RANDOM.integers(-60, 60, shape).astype(np.float32)
    if dtype.startswith("float"):
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, -np.nan]
        flat = values.reshape(-1)
        flat[: min(flat.size, 60)] = np.resize(special, min(flat.size, 60))
        values = RANDOM.permuted(values, axis=None) / 4
        return values.astype(dtype)
    return values.astype(np.int64).astype(dtype)


def check(device, array, dim, descending):
    values, places = Tensor(array, device=device).sort(dim, descending)
    expected = torch.from_numpy(array).sort(dim=dim, descending=descending, stable=True)
    assert (values.dtype.name, places.dtype) == (array.dtype.name, dtypes.int32)
    np.testing.assert_array_equal(places.numpy(), expected.indices.numpy())
    np.testing.assert_array_equal(values.numpy(), expected.values.numpy())
    signs = [np.signbit(v) for v in (values.numpy(), expected.values.numpy())]
    np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_matches_pytorch_in_every_dtype(device, dtype):
    for descending in (False, True):
        check(device, numbers((3, 150), dtype), 1, descending)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_sort_matches_pytorch_along_every_axis(device, shape, dim):
    for descending in (False, True):
        check(device, numbers(shape, "float32"), dim, descending)


@pytest.mark.parametrize("dtype", ["float64", "uint64", "int64"])
def test_all_64_bits_of_a_key_count(device, dtype):
    if not has_float64(device) and dtype == "float64":
        pytest.skip(f"{device} has no float64")
    bits = RANDOM.integers(0, 1 << 63, 1000, dtype=np.uint64) * 2
    bits[::3] = bits[1] + (bits[::3] & np.uint64(3))  # these differ in their lowest bits
    array = bits.view(dtype)
    got = Tensor(array, device=device).argsort()
    if dtype == "float64":
        array = np.where(array == 0, 0.0, array)
    np.testing.assert_array_equal(got.numpy(), np.argsort(array, kind="stable"))


@pytest.mark.parametrize("dtype", ["bfloat16", "fp8e4m3", "fp8e5m2"])
def test_types_that_numpy_lacks_are_sorted(device, dtype):
    array = numbers((4, 140), "float32")
    x = Tensor(array, device=device).cast(dtype)
    values, places = x.sort()
    expected = torch.from_numpy(x.float().numpy()).sort(stable=True)
    np.testing.assert_array_equal(places.numpy(), expected.indices.numpy())
    np.testing.assert_array_equal(values.float().numpy(), expected.values.numpy())


def test_one_long_line_is_sorted_in_blocks(device):
    check(device, RANDOM.normal(size=70001).astype(np.float32), 0, False)
    check(device, RANDOM.integers(0, 9, 40000).astype(np.int32), 0, True)


def test_axes_of_no_and_one_element(device):
    for shape, dim in (((0,), 0), ((4, 0), 1), ((0, 4), 1), ((4, 1), 1), ((1,), 0)):
        x = Tensor(np.zeros(shape, np.float32), device=device)
        values, places = x.sort(dim)
        assert values.shape == places.shape == shape
        assert not places.numpy().any()
    values, places = Tensor(3.0, device=device).sort()
    assert (values.item(), places.item()) == (3.0, 0)


TOPS = [((9,), 0, 3), ((3, 300), 1, 5), ((300, 3), 0, 1), ((2, 1000), 1, 1000), ((3, 5001), 1, 33),
        ((2, 4096), 1, 32), ((2, 3000), 1, 400), ((4, 500), 1, 0), ((70000,), 0, 40)]  # fmt: skip


@pytest.mark.parametrize(("shape", "dim", "k"), TOPS)
def test_topk_is_the_front_of_the_stable_order(device, shape, dim, k):
    for dtype, largest in (("float32", True), ("int8", False)):
        array = numbers(shape, dtype)
        values, places = Tensor(array, device=device).topk(k, dim, largest)
        expected = torch.from_numpy(array).sort(dim=dim, descending=largest, stable=True)
        front = [np.take(x.numpy(), np.arange(k), dim) for x in reversed(expected)]
        np.testing.assert_array_equal(places.numpy(), front[0])
        np.testing.assert_array_equal(values.numpy(), front[1])


def test_gradients_go_back_to_where_the_values_were(device):
    x = RANDOM.permutation(150).reshape(5, 30).astype(np.float32)
    compare(device, lambda t: t.sort(0)[0], lambda t: t.sort(0)[0], x)
    compare(device, lambda t: (t * t).sort(1, True)[0], lambda t: (t * t).sort(1, True)[0], x)
    compare(device, lambda t: t.topk(4)[0], lambda t: t.topk(4)[0], x)


def test_sorting_inside_of_a_graph(device):
    x = RANDOM.normal(size=(6, 200)).astype(np.float32)
    t = Tensor(x, device=device)
    order = t.argsort()
    ranks = order.argsort()
    np.testing.assert_array_equal(ranks.numpy(), x.argsort(-1).argsort(-1))
    median = (t * 2).sort()[0][:, 100] + t.sum(1)
    np.testing.assert_allclose(median.numpy(), np.sort(x * 2)[:, 100] + x.sum(1), rtol=1e-4)


def test_what_cannot_be_sorted():
    x = Tensor(np.zeros((2, 3), np.float32))
    with pytest.raises(IndexOutOfRange, match=r"\[sort\] axis 2 does not exist"):
        x.sort(2)
    with pytest.raises(ShapeError, match=r"\[topk\] axis -1 of shape \(2, 3\) has no 4 elements"):
        x.topk(4)
    with pytest.raises(ShapeError, match=r"\[topk\] .* has no -1 elements"):
        x.topk(-1)
