"""Joining, splitting and choices against NumPy, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import DTypeError, ShapeError

A = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack"])
def test_stacks_of_vectors_and_matrices_are_numpys(device, name):
    for parts in ([A, A + 1], [A[0], A[1] * 2]):
        mine = getattr(Tensor, name)(*(Tensor(part, device=device) for part in parts))
        np.testing.assert_array_equal(mine.numpy(), getattr(np, name)(parts))


@pytest.mark.parametrize("places", [4, [2, 5], [-3, 9], [5, 2], [0], []])
def test_pieces_between_places_are_numpys(places):
    x = np.arange(7, dtype=np.float32)
    mine = Tensor(x, device="CPU").tensor_split(places)
    theirs = np.array_split(x, places)
    assert [part.tolist() for part in mine] == [part.tolist() for part in theirs]


def test_blocks_of_different_dtypes_promote():
    mixed = Tensor(A, device="CPU").block_diag(Tensor([7], device="CPU"), Tensor(2, device="CPU"))
    assert mixed.dtype is dtypes.float32
    assert mixed.tolist() == [[0, 1, 2, 0, 0], [3, 4, 5, 0, 0], [0, 0, 0, 7, 0], [0, 0, 0, 0, 2]]


def test_choices_of_a_vector():
    x = Tensor([1, 2, 3], device="CPU")
    assert x.combinations(2).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert x.combinations(4).shape == (0, 4)
    assert x.combinations(2, with_replacement=True).tolist()[:3] == [[1, 1], [1, 2], [1, 3]]
    assert x.cartesian_prod(Tensor([9], device="CPU")).tolist() == [[1, 9], [2, 9], [3, 9]]


@pytest.mark.parametrize("count", [3, 40])
def test_membership_by_comparison_and_by_search_knows_nan(device, count):
    tests = np.concatenate([np.arange(count, dtype=np.float32), [np.nan, np.inf]])
    x = np.array([0.0, 2.0, 0.5, 99.0, np.nan, np.inf, -np.inf], np.float32)
    mine = Tensor(x, device=device).isin(Tensor(tests.astype(np.float32), device=device))
    assert mine.tolist() == np.isin(x, tests).tolist()


def test_runs_of_equal_elements():
    x = Tensor([1, 1, 2, 2, 2, 1], device="CPU")
    values, inverse, counts = x.unique_consecutive(return_inverse=True, return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 2, 1], [2, 3, 1])
    assert inverse.tolist() == [0, 0, 1, 1, 1, 2]
    assert x.reshape(3, 2).unique_consecutive(dim=0).shape == (3, 2)
    assert x._slice(0, 0, 0).unique_consecutive().tolist() == []


def test_each_element_has_its_own_repeats(device):
    x, times = Tensor(A, device=device), Tensor([2, 0, 3], device=device)
    assert x.repeat_interleave(times, 1).tolist() == np.repeat(A, [2, 0, 3], 1).tolist()
    assert (
        x.repeat_interleave(times, 1, output_size=5).tolist() == np.repeat(A, [2, 0, 3], 1).tolist()
    )
    assert x.repeat_interleave(times.mul(0), 1).shape == (2, 0)
    with pytest.raises(ShapeError, match="must not be negative"):
        x.repeat_interleave(times.sub(1), 1)
    with pytest.raises(ShapeError, match="2 elements take as many integers"):
        x.repeat_interleave(times, 0)


def test_an_empty_vector_joins_to_anything():
    nothing, x = Tensor([], device="CPU"), Tensor(A, device="CPU")
    assert nothing.cat(x, nothing, dim=1).tolist() == x.cat(nothing).tolist() == A.tolist()
    assert nothing.cat(nothing).shape == (0,)
    with pytest.raises(ShapeError, match="2 axes"):
        Tensor([1.0], device="CPU").cat(x)


def test_places_of_a_flat_tensor_and_back():
    places = Tensor([0, 5, 11], device="CPU")
    found = places.unravel_index((3, 4))
    assert [t.tolist() for t in found] == [[0, 1, 2], [0, 1, 3]]
    lower = np.stack(np.tril_indices(3, 1, 4))
    assert Tensor.tril_indices(3, 4, 1, device="CPU").tolist() == lower.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.hsplit(2), ShapeError, r"\[hsplit\] axis 1 .* no 2 equal pieces"),
        (lambda x: x.dsplit(1), ShapeError, r"\[dsplit\] needs 3 axes"),
        (lambda x: x.tensor_split(0), ShapeError, "at least 1 piece"),
        (lambda x: x.tensor_split("ab"), ShapeError, "places are integers"),
        (lambda x: x.hstack(3.0), DTypeError, r"\[hstack\] joins tensors, not a float"),
        (lambda x: x.hstack(x[0]), ShapeError, r"\[cat\]"),
        (lambda x: x.block_diag(x[None]), ShapeError, r"\[block_diag\] takes up to two axes"),
        (lambda x: x.combinations(), ShapeError, r"\[combinations\] takes a vector"),
        (lambda x: x.cartesian_prod(), ShapeError, r"\[cartesian_prod\] takes vectors"),
        (lambda x: x.diag_embed(0, 1, 1), ShapeError, "same axis"),
        (lambda x: x.unravel_index((2, 3)), DTypeError, "places are integers, not float32"),
        (lambda x: x.masked_scatter(x, x), DTypeError, "takes a bool mask"),
        (lambda x: x.put(x.int(), x[0]), ShapeError, "one value for each place"),
        (lambda x: x.index_reduce(0, x.int(), x, "prod"), ShapeError, "a vector of integers"),
        (lambda x: Tensor.triu_indices(-1, 2), ShapeError, "must not be negative"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(Tensor(A, device="CPU"))


def test_a_thousand_tensors_are_joined_by_few_kernels():
    parts = [Tensor([float(i), -float(i)]).realize() for i in range(1000)]
    assert len({kernel.ast for kernel in Tensor.stack(*parts).schedule()}) <= 3
    kernels = Tensor.cat(*parts).schedule()
    assert len(kernels) < 20
    assert len({kernel.ast for kernel in kernels}) <= 3


def test_many_parts_of_any_size_are_joined_in_order_and_get_their_gradients():
    sizes = [1 + i % 7 for i in range(150)]
    data = [np.arange(2 * n, dtype=np.float32).reshape(2, n) + n for n in sizes]
    parts = [Tensor(part, requires_grad=True) for part in data]
    joined = Tensor.cat(*parts, dim=1)
    (joined * joined).sum().backward()
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(data, axis=1))
    for part, values in zip(parts, data, strict=True):
        np.testing.assert_array_equal(part.grad.numpy(), 2 * values)
