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
         r"\[matmul\] shapes \(2, 3\) and \(4, 5\) do not fit.*has 3 elements.*has 4"),
        (lambda: Tensor.ones(2, 2, 3) @ Tensor.ones(3, 3, 4), r"\[matmul\] .*do not broadcast"),
        (lambda: Tensor(2.0) @ Tensor.ones(3), r"\[matmul\] needs at least one axis"),
        (lambda: Tensor.einsum("ij,jk->ik", Tensor.ones(2, 3), Tensor.ones(4, 5)),
         r"\[einsum\] axis 'j' has size 3 and size 4"),
        (lambda: Tensor.einsum("ij", Tensor.ones(2)), r"\[einsum\] 'ij' does not name"),
    ],
)  # fmt: skip
def test_products_that_do_not_fit_are_refused_at_the_call(call, message):
    with pytest.raises(ShapeError, match=message):
        call()
