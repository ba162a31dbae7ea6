"""Subscripts, gather and scatter against NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Context, Tensor, dtypes
from treadle.errors import DTypeError, IndexOutOfRange, ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
CUBE = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
ROWS = np.array([2, 0, -1])

SUBSCRIPTS = [
    np.s_[1], np.s_[-1], np.s_[1:], np.s_[:, ::2], np.s_[..., 1], np.s_[None, 1, ..., None],
    np.s_[::-1, 1:3, ::-2], np.s_[5:2], np.s_[:, -3:-1], np.s_[1, 2, 3], np.s_[:, 3:0:-2],
    np.s_[[0, 2]], np.s_[:, [1, -1, 0]], np.s_[[0, 1], [2, 3]], np.s_[[0, 1], :, [2, 3]],
    np.s_[[[0], [1]], [2, 3]], np.s_[:, [0, 1], [2, 3]], np.s_[0, :, [1, 2]], np.s_[0, [1, 2]],
    np.s_[:, 1, [0, 4]], np.s_[[0, 1], None, [2, 3]], np.s_[1:, [0, 1], ::2], np.s_[ROWS, ..., 0],
    np.s_[CUBE > 30], np.s_[:, np.array([True, False, True, True])], np.s_[()], np.s_[...],
    np.s_[np.array([], int)],
]  # fmt: skip


@pytest.mark.parametrize("index", SUBSCRIPTS, ids=[str(i) for i in range(len(SUBSCRIPTS))])
def test_a_subscript_follows_numpy(device, index):
    expected = CUBE[index]
    got = Tensor(CUBE, device=device)[index]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("index", SUBSCRIPTS, ids=[str(i) for i in range(len(SUBSCRIPTS))])
def test_an_assignment_to_a_subscript_follows_numpy(device, index):
    expected, x = CUBE.copy(), Tensor(CUBE, device=device)
    value = -np.arange(expected[index].size, dtype=np.float32).reshape(expected[index].shape)
    expected[index] = value
    x[index] = Tensor(value, device=device)
    np.testing.assert_array_equal(x.numpy(), expected)
    expected[index], x[index] = 99, 99
    np.testing.assert_array_equal(x.numpy(), expected)


def test_integer_tensors_index_without_being_computed(device):
    x = Tensor(CUBE, device=device)
    rows, columns = Tensor([2, -1], device=device), Tensor([[0], [3]], device=device)
    np.testing.assert_array_equal(x[rows].numpy(), CUBE[[2, -1]])
    np.testing.assert_array_equal(x[rows, columns].numpy(), CUBE[[2, -1], [[0], [3]]])
    np.testing.assert_array_equal(x[:, rows[0]].numpy(), CUBE[:, 2])
    with Context(CHECK_INDEX=0):  # what is out of range reads 0
        assert x[Tensor([7], device=device)].tolist() == np.zeros((1, 4, 5)).tolist()
        assert x[Tensor([0, 1], device=device), Tensor([0, 9], device=device)].numpy()[1].sum() == 0


def test_a_subscript_has_a_gradient(device):
    compare(device, lambda x: x[1:, ::2, None], lambda x: x[1:, ::2, None], CUBE)
    compare(
        device, lambda x: x[[0, 0, 1], :, [1, 1, 2]], lambda x: x[[0, 0, 1], :, [1, 1, 2]], CUBE
    )


def test_places_known_on_the_host_are_checked_at_the_call():
    x = Tensor(CUBE)
    for index, message in [
        (3, "index 3 .* axis 0 of size 3"),
        ((0, -5), "index -5 .* axis 1 of size 4"),
        ((0, [1, 4]), "index 4 .* axis 1 of size 4"),
    ]:
        with pytest.raises(IndexOutOfRange, match=message):
            x[index]
    with pytest.raises(IndexOutOfRange, match="4 indices for the 3 axes"):
        x[0, 0, 0, 0]
    assert x[[]].shape == (0, 4, 5)
    with pytest.raises(DTypeError, match="float32"):
        x[Tensor([1.0])]
    with pytest.raises(ShapeError, match=r"\[setitem\]"):
        x[0] = Tensor.zeros(3)


def test_views_taken_before_an_assignment_keep_their_values(device):
    x = Tensor([1.0, 2.0, 3.0, 4.0], device=device)
    view, doubled = x[:2], x * 2
    x[0] = 100
    assert x.tolist() == [100, 2, 3, 4]
    assert view.tolist() == [1, 2]
    assert doubled.tolist() == [2, 4, 6, 8]


def test_an_assignment_to_a_view_changes_it_and_its_owner(device):
    x = Tensor.zeros(2, 2, device=device)
    y = x.reshape(4)
    x[0, 1] = 5
    assert y.tolist() == [0, 0, 0, 0]
    y[3] = 7
    assert x.tolist() == [[0, 5], [0, 7]]
    assert y.tolist() == [0, 5, 0, 7]


def test_many_assignments_in_a_row_all_count(device):
    x = Tensor.zeros(20, device=device)
    for i in range(20):
        x[i] = i * i
    assert x.tolist() == [float(i * i) for i in range(20)]


def test_gather_matches_pytorch(device):
    index = np.array([[[0, 1], [2, 2]], [[1, 1], [0, 2]]])
    for dim in (0, 1, 2):
        compare(
            device, lambda x, i, d=dim: x.gather(d, i), lambda x, i, d=dim: x.gather(d, i),
            CUBE, index,
        )  # fmt: skip
    with pytest.raises(ShapeError, match=r"\[gather\] the index has shape"):
        Tensor(CUBE).gather(0, Tensor([[0]]))


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_matches_pytorch(device, reduce, include_self):
    rng = np.random.default_rng(5)
    base, source = (rng.normal(size=s).astype(np.float32) for s in ((4, 3), (5, 3)))
    index = rng.integers(0, 4, size=(5, 3))
    compare(
        device, lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self),
        lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self),
        base, index, source,
    )  # fmt: skip


HALVES = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])


@HALVES
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod"])
def test_what_scatters_combine_of_halves_is_rounded_once(device, reduce, dtype):
    data = np.random.default_rng(0).uniform(0.9, 1.12, 700).astype(np.float32)
    source = Tensor(data, device=device).cast(dtype).realize()
    values = source.float().numpy().astype(np.float64)
    wanted = getattr(np, reduce)(values)
    start = Tensor.full((2,), reduce == "prod", dtype=dtype, device=device).contiguous()
    places = Tensor.ones(700, dtype="int32", device=device)
    with Context(CHECK_KERNELS=device != "REF"):
        found = start.scatter_reduce(0, places, source, reduce, include_self=reduce != "mean")
        half_a_unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
        assert found[1].item() == pytest.approx(wanted, rel=1.01 * half_a_unit)


@HALVES
def test_rows_of_halves_add_up_in_float32(device, dtype):
    weight = Tensor.full((3, 4), 1.5, dtype=dtype, device=device).contiguous()
    bag = Tensor.ones(1, 700, dtype="int32", device=device)
    assert bag.embedding_bag(weight, mode="mean").tolist() == [[1.5] * 4]
    rows = Tensor.zeros(3, dtype=dtype, device=device).index_add(
        0, bag[0], Tensor.ones(700, dtype=dtype, device=device)
    )
    assert rows.tolist() == [0, Tensor([700.0]).cast(dtype).item(), 0]


@HALVES
def test_all_that_tie_for_a_scattered_maximum_share_its_gradient(device, dtype):
    source = Tensor.ones(700, dtype=dtype, device=device, requires_grad=True)
    start = Tensor.zeros(1, dtype=dtype, device=device)
    places = Tensor.zeros(700, dtype="int32", device=device)
    start.scatter_reduce(0, places, source, "amax").sum().backward()
    assert source.grad.tolist() == [Tensor([1 / 700]).cast(dtype).item()] * 700


def test_scatter_matches_pytorch(device):
    base = np.zeros((2, 4), np.float32)
    index = np.array([[3, 0], [1, 2]])
    source = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    compare(device, lambda x, i, s: x.scatter(1, i, s), lambda x, i, s: x.scatter(1, i, s),
            base, index, source)  # fmt: skip
    compare(device, lambda x, i: x.scatter(1, i, 9.0), lambda x, i: x.scatter(1, i, 9.0),
            base, index)  # fmt: skip
    product = Tensor(base + 2, device=device).scatter(
        1, Tensor(index, device=device), Tensor(source, device=device), reduce="multiply"
    )
    assert product.tolist() == [[4, 2, 2, 2], [2, 6, 8, 2]]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_and_scatter_along_each_axis_of_larger_tensors(device, dim):
    rng = np.random.default_rng(dim)
    base = rng.normal(size=(17, 20, 33)).astype(np.float32)
    shape = tuple(n if at == dim else n - 3 for at, n in enumerate(base.shape))
    index = rng.integers(0, base.shape[dim], shape)
    source = rng.normal(size=shape).astype(np.float32)
    compare(device, lambda x, i: x.gather(dim, i), lambda x, i: x.gather(dim, i), base, index)
    compare(device, lambda x, i, s: x.scatter_reduce(dim, i, s, "sum"),
            lambda x, i, s: x.scatter_reduce(dim, i, s, "sum"), base, index, source)  # fmt: skip


def test_scatter_along_an_axis_keeps_the_last_and_drops_what_is_outside(device):
    index = np.array([[1, 1, -1], [2, 9, 2], [-4, 0, 0]], np.int32)
    source = np.arange(1.0, 10.0, dtype=np.float32).reshape(3, 3)
    base = Tensor.zeros(3, 3, device=device)
    with Context(CHECK_INDEX=0):
        rows = base.scatter(1, Tensor(index, device=device), Tensor(source, device=device))
        assert rows.tolist() == [[0, 2, 0], [0, 0, 6], [9, 0, 0]]
        columns = base.scatter(0, Tensor(index, device=device), Tensor(source, device=device))
        assert columns.tolist() == [[0, 8, 9], [1, 2, 0], [4, 0, 6]]
        assert Tensor(source, device=device).gather(1, Tensor(index, device=device)).tolist() == [
            [2, 2, 0], [6, 0, 6], [0, 7, 7]
        ]  # fmt: skip


def test_one_hot_and_masks(device):
    x = Tensor([2, 0, 1], device=device)
    assert x.one_hot(4).tolist() == [[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert x.one_hot().shape == (3, 3)
    y = Tensor([1.0, 2.0, 3.0], device=device)
    assert y.masked_fill(y > 1, 0).tolist() == [1, 0, 0]
    assert y.masked_select(y > 1).tolist() == [2, 3]
    y[y > 2] = -1
    assert y.tolist() == [1, 2, -1]


def test_a_tensor_can_be_iterated(device):
    rows = [row.tolist() for row in Tensor([[1, 2], [3, 4]], device=device)]
    assert rows == [[1, 2], [3, 4]]
    assert Tensor([1, 2]).dtype is dtypes.int32


@pytest.mark.parametrize("axis", [0, 1])
def test_what_a_reduction_finds_is_a_place_and_a_number_in_the_same_kernel(device, axis):
    """The index of a load is a reduction of its own lanes, next to that reduction's value."""
    rows, blocks, size = 6, 64, 4
    data = np.random.default_rng(0).standard_normal((rows, blocks, size)).astype(np.float32)
    if axis == 0:
        data = np.ascontiguousarray(data.transpose(1, 2, 0))
    x = Tensor(data, device=device)
    block = x.max(1 if axis == 0 else 2).argmax(axis)
    shape = (1, 1, rows) if axis == 0 else (rows, 1, 1)
    wide = (1, size, rows) if axis == 0 else (rows, 1, size)
    found = x.gather(axis, block.reshape(shape).expand(wide)).squeeze(axis)
    whole = data.reshape((blocks * size, rows) if axis == 0 else (rows, blocks * size))
    assert (block * size + found.argmax(axis)).tolist() == whole.argmax(axis).tolist()
