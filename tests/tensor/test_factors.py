"""LU factors, the exponential, chains of products and equations of many axes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import DTypeError, ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
rng = np.random.default_rng(5)
A = rng.standard_normal((2, 4, 4)).astype(np.float32)
B = rng.standard_normal((2, 4, 3)).astype(np.float32)


@pytest.mark.parametrize("part", [np.s_[:], np.s_[:, :3], np.s_[:, :, :2]])
def test_the_factors_and_the_exchanged_rows_give_the_matrix_back(part):
    a = A[part]
    p, low, up = (t.numpy() for t in Tensor(a, device="CPU").lu())
    np.testing.assert_allclose(p @ low @ up, a, atol=1e-6)
    assert np.all(np.triu(low, 1) == 0)
    assert np.all(np.tril(up, -1) == 0)
    assert np.abs(low).max() == 1.0


def test_systems_are_solved_from_factors(device):
    a, b = Tensor(A, device=device), Tensor(B, device=device)
    factors, pivots = a.lu_factor()
    assert pivots.dtype is dtypes.int32
    np.testing.assert_allclose((a @ factors.lu_solve(pivots, b)).numpy(), B, atol=1e-5)
    found = factors.lu_solve(pivots, b.mT, left=False)
    np.testing.assert_allclose((found @ a).numpy(), np.swapaxes(B, -1, -2), atol=1e-5)
    square = a @ a.mT + Tensor.eye(4, device=device)
    low = square.cholesky()
    np.testing.assert_allclose((square @ b.cholesky_solve(low)).numpy(), B, atol=2e-4)
    inverse = low.mT.cholesky_inverse(upper=True)
    np.testing.assert_allclose(inverse.numpy(), square.inv().numpy(), rtol=1e-3, atol=1e-4)


def test_singular_matrices_have_factors_and_no_solution():
    a = Tensor([[1.0, 2.0], [2.0, 4.0]], device="CPU")
    p, low, up = a.lu()
    assert (p @ low @ up).tolist() == a.tolist()
    assert Tensor.zeros(2, 2, device="CPU").lu_factor()[1].tolist() == [1, 2]


def test_the_exponential_of_small_large_and_broken_matrices(device):
    compare(device, lambda t: t.matrix_exp(), torch.matrix_exp, A[0] / 8, rtol=1e-5, atol=1e-5)
    scaled = Tensor(A.astype(np.float64) * [[[1e-9]], [[20.0]]], device="CPU")
    wanted = torch.matrix_exp(torch.tensor(scaled.numpy())).numpy()
    np.testing.assert_allclose(scaled.matrix_exp().numpy(), wanted, rtol=1e-9)
    turned = scaled.mul(np.array([[[np.nan]], [[0.0]]])).matrix_exp()
    assert turned[0].isnan().all().item()
    np.testing.assert_allclose(turned[1].numpy(), np.eye(4), atol=1e-15)
    assert Tensor.zeros(3, 0, 0).matrix_exp().shape == (3, 0, 0)


def test_the_gradients_of_tall_and_wide_factors_are_pytorchs():
    for shape in ((4, 2), (2, 4)):
        a = rng.standard_normal(shape)
        compare(
            "CPU", lambda t: t.lu()[1].sum() + t.lu()[2].square().sum(),
            lambda t: torch.linalg.lu(t)[1].sum() + torch.linalg.lu(t)[2].square().sum(), a,
        )  # fmt: skip


def test_a_chain_takes_the_cheapest_order():
    sizes = [(10, 100), (100, 5), (5, 50)]
    chain = [rng.standard_normal(size).astype(np.float32) for size in sizes]
    mine = Tensor.multi_dot(*(Tensor(x, device="CPU") for x in chain))
    np.testing.assert_allclose(mine.numpy(), np.linalg.multi_dot(chain), rtol=1e-4, atol=1e-4)
    listed = Tensor.multi_dot([Tensor(x, device="CPU") for x in chain])
    np.testing.assert_array_equal(listed.numpy(), mine.numpy())
    ends = Tensor.multi_dot(
        *(Tensor(x, device="CPU") for x in (chain[0][0], chain[1], chain[2].T[0]))
    )
    assert ends.shape == ()


def test_equations_of_many_axes():
    a = rng.standard_normal((2, 3, 6)).astype(np.float32)
    b = rng.standard_normal((2, 3)).astype(np.float32)
    x, y = Tensor(a, device="CPU"), Tensor(b, device="CPU")
    wanted = np.linalg.tensorsolve(a, b)
    np.testing.assert_allclose(x.tensorsolve(y).numpy(), wanted, rtol=1e-3)
    np.testing.assert_allclose(x.tensorinv(2).tensordot(y, 2).numpy(), wanted, rtol=1e-3)
    turned = Tensor(np.moveaxis(a, 2, 0), device="CPU").tensorsolve(y, dims=(0,))
    np.testing.assert_allclose(turned.numpy(), wanted, rtol=1e-3)


def test_powers_and_products_of_last_axes():
    x = Tensor([1, 2, 3], device="CPU")
    assert x.vander().tolist() == np.vander([1, 2, 3]).tolist()
    assert x.vander(2, increasing=True).tolist() == [[1, 1], [1, 2], [1, 3]]
    assert x.vander(0).shape == (3, 0)
    assert x.inner(x).item() == 14
    assert x.inner(2).tolist() == [2, 4, 6]
    assert Tensor(A, device="CPU").inner(Tensor(A[0], device="CPU")).shape == (2, 4, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.int().lu(), DTypeError, r"\[lu\] takes float32"),
        (lambda x: x[0, 0].lu_factor(), ShapeError, r"\[lu_factor\] takes matrices"),
        (lambda x: x.lu_solve(x.int(), x), ShapeError, r"integer pivots of \(2, 4\)"),
        (lambda x: x[:, :2].matrix_exp(), ShapeError, "takes square matrices"),
        (lambda x: x.multi_dot(), ShapeError, "two tensors or more"),
        (lambda x: x.multi_dot(x), ShapeError, "takes matrices, vectors only at the ends"),
        (lambda x: x.tensorinv(0), ShapeError, "ind is from 1 to 3"),
        (lambda x: x.tensorinv(1), ShapeError, "2 and 16 elements"),
        (lambda x: x.tensorsolve(x[0]), ShapeError, "no square matrix"),
        (lambda x: x.vander(-1), ShapeError, "at least 0"),
        (lambda x: x[0, :2].cholesky_inverse(), ShapeError, "takes square matrices"),
        (lambda x: x.inner(x[:, :, :2]), ShapeError, "of equal sizes"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(Tensor(A, device="CPU"))
