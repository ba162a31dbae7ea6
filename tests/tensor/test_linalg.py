"""Products against PyTorch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 2)), ((2, 3, 4), (4,)), ((1, 1), (1, 1)),
    ],
)  # fmt: skip
def test_matmul_matches_pytorch_in_value_and_gradient(device, left, right):
    compare(device, lambda a, b: a @ b, lambda a, b: a @ b, normal(*left), normal(*right))


@pytest.mark.parametrize("given", ["uint8", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("wanted", ["int8", "int32", "uint32", "int64", "uint64"])
def test_products_of_integers_wrap_in_the_type_that_is_asked_for(given, wanted):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 200, shape).astype(given) for shape in ((37, 88), (88, 64)))
    exact = x.astype(np.int64) @ y.astype(np.int64)
    found = Tensor(x, device="CPU").matmul(Tensor(y, device="CPU"), dtype=wanted)
    np.testing.assert_array_equal(found.numpy(), exact.astype(wanted))


def test_matmul_keeps_the_promoted_dtype_and_accumulates_wider(device):
    a = Tensor.ones(2, 4096, dtype=dtypes.float16, device=device)
    b = Tensor.ones(4096, 2, dtype=dtypes.float16, device=device)
    assert (a @ b).dtype is dtypes.float16
    assert (a @ b).tolist() == [[4096.0] * 2] * 2
    assert a.matmul(b, dtype=dtypes.float32).dtype is dtypes.float32
    small = Tensor([[100, 100]], dtype=dtypes.int8, device=device)
    assert (small @ small.T).dtype is dtypes.int8
    assert small.matmul(small.T, dtype=dtypes.int32).item() == 20000


def test_matmul_reversed_exchanges_the_operands(device):
    a, b = normal(2, 3), normal(3, 4)
    got = Tensor(b, device=device).matmul(Tensor(a, device=device), reverse=True)
    np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-5)
    np.testing.assert_allclose((a @ Tensor(b, device=device)).numpy(), a @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("ij->ji", [(2, 3)]), ("ij", [(2, 3)]),
        ("...ij,jk->...ik", [(2, 5, 3, 4), (4, 6)]), ("i,j->ij", [(3,), (4,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("i,i", [(3,), (3,)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]), ("ij->", [(2, 3)]),
        ("iji->j", [(3, 2, 3)]),
    ],
)  # fmt: skip
def test_einsum_matches_pytorch(device, formula, shapes):
    arrays = [normal(*shape) for shape in shapes]
    compare(
        device, lambda *t: Tensor.einsum(formula, *t), lambda *t: torch.einsum(formula, *t), *arrays
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Tensor.ones(2, 3) @ Tensor.ones(4, 5),
         r"\[matmul\] shapes \(2, 3\) and \(4, 5\) do not fit: 3 columns .*, 4 rows"),
        (lambda: Tensor.ones(2, 2, 3) @ Tensor.ones(3, 3, 4), r"\[matmul\] .*do not broadcast"),
        (lambda: Tensor(2.0) @ Tensor.ones(3), r"\[matmul\] needs at least one axis"),
        (lambda: Tensor.einsum("ij,jk->ik", Tensor.ones(2, 3), Tensor.ones(4, 5)),
         r"\[einsum\] .* axis 'j' has size 3 .* and size 4"),
        (lambda: Tensor.einsum("ij", Tensor.ones(2)), r"\[einsum\] 'ij': 'ij' does not name"),
    ],
)  # fmt: skip
def test_products_that_do_not_fit_are_refused_at_the_call(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


@pytest.mark.parametrize(
    ("name", "shapes", "ours", "theirs"),
    [
        ("outer", [(3,), (4,)], lambda a, b: a.outer(b), torch.outer),
        ("vecdot", [(2, 1, 3), (4, 3)], lambda a, b: a.vecdot(b), torch.linalg.vecdot),
        (
            "vecdot axis", [(3, 4), (3, 4)], lambda a, b: a.vecdot(b, 0),
            lambda a, b: torch.linalg.vecdot(a, b, dim=0),
        ),
        ("cross", [(1, 2, 3), (4, 1, 3)], lambda a, b: a.cross(b), torch.linalg.cross),
        (
            "cross axis", [(3, 4), (3, 4)], lambda a, b: a.cross(b, dim=0),
            lambda a, b: torch.linalg.cross(a, b, dim=0),
        ),
        ("tensordot", [(2, 3, 4), (3, 4, 5)], lambda a, b: a.tensordot(b), torch.tensordot),
        (
            "tensordot none", [(2, 3), (4,)], lambda a, b: a.tensordot(b, 0),
            lambda a, b: torch.tensordot(a, b, 0),
        ),
        (
            "tensordot axes", [(3, 2, 4), (4, 5, 3)],
            lambda a, b: a.tensordot(b, ([0, -1], [2, 0])),
            lambda a, b: torch.tensordot(a, b, ([0, -1], [2, 0])),
        ),
        (
            "tensordot all", [(3, 2), (3, 2)], lambda a, b: a.tensordot(b),
            lambda a, b: torch.tensordot(a, b),
        ),
        ("kron", [(2, 3), (4, 2)], lambda a, b: a.kron(b), torch.kron),
        ("kron ranks", [(2,), (2, 1, 3)], lambda a, b: a.kron(b), torch.kron),
    ],
)  # fmt: skip
def test_products_match_pytorch_in_value_and_gradient(device, name, shapes, ours, theirs):
    compare(device, ours, theirs, *(normal(*shape) for shape in shapes))


def test_trace_sums_the_diagonal_of_the_last_two_axes(device):
    compare(device, lambda x: x.trace(), lambda x: x.trace(), normal(3, 4))
    a = normal(2, 4, 3)
    got = Tensor(a, device=device).trace()
    np.testing.assert_allclose(got.numpy(), np.trace(a, axis1=-2, axis2=-1), rtol=1e-5)
    assert Tensor([[1, 2], [3, 4]], dtype=dtypes.int8).trace().item() == 5


def test_products_that_do_not_fit_raise_at_once():
    x = Tensor.ones(2, 3)
    with pytest.raises(ShapeError, match=r"\[outer\] takes two vectors"):
        x.outer(Tensor.ones(3))
    with pytest.raises(ShapeError, match=r"\[outer\] takes two vectors"):
        Tensor.ones(3).outer(2.0)
    with pytest.raises(ShapeError, match=r"\[vecdot\] shapes"):
        x.vecdot(Tensor.ones(2))
    with pytest.raises(ShapeError, match=r"\[cross\] axis 0 of shape \(2, 3\) has not the size 3"):
        x.cross(x, dim=0)
    with pytest.raises(ShapeError, match=r"have not 3 axes to sum"):
        x.tensordot(x, 3)
    with pytest.raises(ShapeError, match=r"axes \(1,\) of shape \(2, 3\) do not pair"):
        x.tensordot(x, ([1], [0]))
    with pytest.raises(ShapeError, match=r"do not pair"):
        x.tensordot(x, ([0, 1], [0]))
    with pytest.raises(ShapeError, match=r"\[trace\] needs at least two axes"):
        Tensor.ones(3).trace()
