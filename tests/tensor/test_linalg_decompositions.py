"""Decompositions, systems of equations and norms: values, gradients, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import DeviceError, DTypeError, LinAlgError, ShapeError, UserError

from .oracle import compare

RNG = np.random.default_rng(23)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    a = normal(*shape)
    return a @ a.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])


def symmetric(x):
    return (x + x.mT) * 0.5


def with_weights(*parts):
    """One result of several, so that a gradient arrives at each of them."""
    total = 0
    for number, part in enumerate(parts):
        total = total + (part * (number + 1.5)).sum()
    return total


def torch_linalg():
    return pytest.importorskip("torch").linalg


# Functions of x (and y) for treadle, and for torch.linalg, that do not depend on a choice of signs.
def _qr(x):
    q, r = x.qr()
    return with_weights(q * q * q, q.sin(), r * r, r.sin())


def _torch_qr(L, x):
    q, r = L.qr(x)
    return with_weights(q * q * q, q.sin(), r * r, r.sin())


def _svd(x):
    u, s, vh = x.svd(full_matrices=False)
    return with_weights(u.abs(), s.sin(), (vh * vh).sin(), (u[..., :1] * vh[..., :1, :]).sin())


def _torch_svd(L, x):
    u, s, vh = L.svd(x, full_matrices=False)
    return with_weights(u.abs(), s.sin(), (vh * vh).sin(), (u[..., :1] * vh[..., :1, :]).sin())


def _full_svd(x):
    u, s, vh = x.svd()
    k = s.shape[-1]
    return with_weights(u[..., :k].abs(), s.sin(), (vh[..., :k, :] ** 2).sin())


def _torch_full_svd(L, x):
    u, s, vh = L.svd(x)
    k = s.shape[-1]
    return with_weights(u[..., :k].abs(), s.sin(), (vh[..., :k, :] ** 2).sin())


def _eigh(x):
    w, v = symmetric(x).eigh()
    return with_weights(w.sin(), (v * v).sin(), v.abs())


def _torch_eigh(L, x):
    w, v = L.eigh(symmetric(x))
    return with_weights(w.sin(), (v * v).sin(), v.abs())


GRADIENTS = {
    "qr tall": (_qr, _torch_qr, [normal(5, 3)]),
    "qr square": (_qr, _torch_qr, [normal(4, 4)]),
    "qr wide": (_qr, _torch_qr, [normal(3, 5)]),
    "qr batched": (_qr, _torch_qr, [normal(2, 1, 4, 3)]),
    "qr complete": (
        lambda x: with_weights(*(p.sin() for p in x.qr("complete"))),
        lambda L, x: with_weights(*(p.sin() for p in L.qr(x, "complete"))),
        [normal(3, 5)],
    ),
    "svd tall": (_svd, _torch_svd, [normal(5, 3)]),
    "svd square": (_svd, _torch_svd, [normal(3, 3)]),
    "svd wide": (_svd, _torch_svd, [normal(2, 3, 4)]),
    "svd full": (_full_svd, _torch_full_svd, [normal(5, 3)]),
    "svdvals": (lambda x: x.svdvals(), lambda L, x: L.svdvals(x), [normal(2, 4, 3)]),
    "eigh": (_eigh, _torch_eigh, [normal(2, 4, 4)]),
    "eigvalsh": (
        lambda x: symmetric(x).eigvalsh(), lambda L, x: L.eigvalsh(symmetric(x)), [normal(4, 4)],
    ),
    "cholesky": (
        lambda x: symmetric(x).cholesky(), lambda L, x: L.cholesky(symmetric(x)),
        [positive(2, 3, 3)],
    ),
    "cholesky upper": (
        lambda x: x.cholesky(upper=True), lambda L, x: L.cholesky(x, upper=True), [positive(4, 4)],
    ),
    "solve": (lambda x, y: x.solve(y), lambda L, x, y: L.solve(x, y), [normal(4, 4), normal(4, 2)]),
    "solve broadcast": (
        lambda x, y: x.solve(y), lambda L, x, y: L.solve(x, y),
        [normal(2, 1, 3, 3), normal(5, 3, 1)],
    ),
    "solve vector": (
        lambda x, y: x.solve(y), lambda L, x, y: L.solve(x, y), [normal(3, 3), normal(3)],
    ),
    "solve vectors": (
        lambda x, y: x.solve(y), lambda L, x, y: L.solve(x, y), [normal(2, 3, 3), normal(2, 3)],
    ),
    "solve right": (
        lambda x, y: x.solve(y, left=False), lambda L, x, y: L.solve(x, y, left=False),
        [normal(3, 3), normal(2, 3)],
    ),
    "triangular upper": (
        lambda x, y: x.solve_triangular(y, upper=True),
        lambda L, x, y: L.solve_triangular(x, y, upper=True), [normal(4, 4), normal(4, 2)],
    ),
    "triangular lower": (
        lambda x, y: x.solve_triangular(y, upper=False, unitriangular=True),
        lambda L, x, y: L.solve_triangular(x, y, upper=False, unitriangular=True),
        [normal(2, 4, 4), normal(2, 4, 2)],
    ),
    "triangular right": (
        lambda x, y: x.solve_triangular(y, upper=True, left=False),
        lambda L, x, y: L.solve_triangular(x, y, upper=True, left=False),
        [normal(4, 4), normal(2, 4)],
    ),
    "inv": (lambda x: x.inv(), lambda L, x: L.inv(x), [normal(2, 4, 4)]),
    "pinv tall": (lambda x: x.pinv(), lambda L, x: L.pinv(x), [normal(5, 3)]),
    "pinv wide": (lambda x: x.pinv(), lambda L, x: L.pinv(x), [normal(2, 3, 4)]),
    "det": (lambda x: x.det(), lambda L, x: L.det(x), [normal(2, 3, 3)]),
    "slogdet": (lambda x: x.slogdet()[1], lambda L, x: L.slogdet(x)[1], [normal(2, 3, 3)]),
    "lstsq": (
        lambda x, y: x.lstsq(y).solution, lambda L, x, y: L.lstsq(x, y).solution,
        [normal(5, 3), normal(5, 2)],
    ),
    "matrix_power": (
        lambda x: x.matrix_power(-3), lambda L, x: L.matrix_power(x, -3), [normal(3, 3)],
    ),
    "nuclear norm": (
        lambda x: x.matrix_norm("nuc"), lambda L, x: L.matrix_norm(x, "nuc"), [normal(2, 3, 4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_values_and_gradients_match_pytorch(name):
    ours, theirs, arrays = GRADIENTS[name]
    L = torch_linalg()
    compare("CPU", ours, lambda *x: theirs(L, *x), *arrays, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_match_finite_differences(name):
    ours, _, arrays = GRADIENTS[name]
    xs = [Tensor(a, requires_grad=True) for a in arrays]
    out = ours(*xs)
    weights = np.random.default_rng(3).normal(size=out.shape)
    grads = out.gradient(*xs, gradient=Tensor(weights))
    for number, grad in enumerate(grads):
        step = np.random.default_rng(number).normal(size=arrays[number].shape)
        if "upper" in name and "cholesky" in name:
            step = step + step.T  # only the lower triangle is read

        def along(t, number=number, step=step):
            moved = [Tensor(a + t * step if i == number else a) for i, a in enumerate(arrays)]
            return float((ours(*moved).numpy() * weights).sum())

        expected = (along(1e-6) - along(-1e-6)) / 2e-6
        assert (grad.numpy() * step).sum() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", [n for n in GRADIENTS if n != "lstsq"])
def test_second_derivatives_match_pytorch(name):
    torch = pytest.importorskip("torch")
    ours, theirs, arrays = GRADIENTS[name]
    xs = [Tensor(a, requires_grad=True) for a in arrays]
    others = [torch.tensor(a, requires_grad=True) for a in arrays]
    firsts = (ours(*xs).sin().sum()).gradient(*xs)
    expected = torch.autograd.grad(
        theirs(torch.linalg, *others).sin().sum(), others, create_graph=True
    )
    weights = [np.random.default_rng(5).normal(size=a.shape) for a in arrays]
    total = sum((g * Tensor(w)).sum() for g, w in zip(firsts, weights, strict=True))
    wanted = sum((g * torch.tensor(w)).sum() for g, w in zip(expected, weights, strict=True))
    seconds = total.gradient(*xs, materialize_grads=True)
    for got, want in zip(seconds, torch.autograd.grad(wanted, others), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, atol=1e-6)


# -- values on every device -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3), (1, 1), (0, 3), (3, 0), (0, 2, 2)])
def test_factors_multiply_to_the_matrix(device, shape):
    a = normal(*shape).astype(np.float32)
    x = Tensor(a, device=device)
    m, n = shape[-2:]
    for mode, k in (("reduced", min(m, n)), ("complete", m)):
        q, r = x.qr(mode)
        assert (q.shape, r.shape) == ((*shape[:-2], m, k), (*shape[:-2], k, n))
        assert q.dtype is r.dtype is dtypes.float32
        np.testing.assert_allclose(q.numpy() @ r.numpy(), a, atol=1e-5)
        np.testing.assert_allclose(r.numpy(), np.triu(r.numpy()))
    u, s, vh = x.svd(full_matrices=False)
    np.testing.assert_allclose((u.numpy() * s.numpy()[..., None, :]) @ vh.numpy(), a, atol=1e-5)
    u, s, vh = x.svd()
    assert (u.shape, vh.shape) == ((*shape[:-2], m, m), (*shape[:-2], n, n))
    np.testing.assert_allclose(x.svdvals().numpy(), s.numpy(), rtol=1e-5)


def test_square_matrices_on_every_device(device):
    a, b = positive(2, 3, 3).astype(np.float32), normal(2, 3, 2).astype(np.float32)
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    close = lambda got, want: np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=1e-6)
    close(x.inverse() @ x, np.broadcast_to(np.eye(3), (2, 3, 3)))
    close((x * 2).solve(y + 1), np.linalg.solve(a * 2, b + 1))
    close(x.det(), np.linalg.det(a))
    sign, logarithm = (-x).slogdet()
    close(sign, [-1, -1])
    close(logarithm, np.linalg.slogdet(-a)[1])
    close(x.logdet(), np.linalg.slogdet(a)[1])
    w, v = x.eigh()
    close((v * w.unsqueeze(-2)) @ v.mT, a)
    close(x.eigvalsh(), np.linalg.eigvalsh(a))
    close(x.cholesky(), np.linalg.cholesky(a))
    solution, matrix = y.triangular_solve(x, upper=True, transpose=True)
    assert matrix is x
    close(solution, np.linalg.solve(np.triu(a).swapaxes(-1, -2), b))
    assert x.matrix_rank().tolist() == [3, 3]


def test_tolerances_decide_what_counts_as_zero():
    torch = pytest.importorskip("torch")
    a = np.diag([2.0, -0.1, 1e-3]).astype(np.float32)
    for options in ({"atol": 0.5}, {"rtol": 0.01}, {"atol": 1e-2, "rtol": 0.2}, {"atol": 0.0},
                    {"hermitian": True}):  # fmt: skip
        expected = torch.linalg.pinv(torch.tensor(a), **options).numpy()
        np.testing.assert_allclose(Tensor(a).pinv(**options).numpy(), expected, rtol=1e-5)
        rank = torch.linalg.matrix_rank(torch.tensor(a), **options)
        assert Tensor(a).matrix_rank(**options).item() == rank.item()
    found = Tensor(np.stack([a, a])).matrix_rank(atol=Tensor([0.5, 0.01]))
    assert found.tolist() == [1, 2]
    assert Tensor(np.tril(a + 0.1)).matrix_rank(hermitian=True).item() == 3


def test_constants_are_computed_on_the_device_of_their_tensor(device):
    assert Tensor.eye(3, device=device).inv().tolist() == np.eye(3).tolist()
    assert Tensor.ones(3, 3, device=device).det().item() == pytest.approx(0)
    assert Tensor.eye(2, device=device).solve(Tensor.ones(2, device=device)).tolist() == [1, 1]


def test_a_rank_deficient_matrix_has_a_pseudo_inverse_and_least_squares():
    a = np.outer(normal(4), normal(3))
    x = Tensor(a)
    np.testing.assert_allclose(x.pinv().numpy(), np.linalg.pinv(a), rtol=1e-8, atol=1e-12)
    assert x.matrix_rank().item() == 1
    b = normal(4)
    np.testing.assert_allclose(
        x.lstsq(b).solution.numpy(), np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-8, atol=1e-12
    )
    full, right = normal(5, 2), normal(5, 3)
    found, expected = Tensor(full).lstsq(Tensor(right)), np.linalg.lstsq(full, right, rcond=None)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-8)


def test_the_determinant_of_a_singular_matrix_has_a_gradient():
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    x = Tensor(a, requires_grad=True)
    x.det().backward()
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    np.testing.assert_allclose(x.grad.numpy(), minors, atol=1e-12)


# -- errors ---------------------------------------------------------------------------------------


def test_singular_matrices_raise_when_they_are_computed():
    lazy = Tensor.zeros(3, 3).inv()
    with pytest.raises(LinAlgError, match=r"\[inv\] of shape \(3, 3\): Singular matrix; pinv"):
        lazy.numpy()
    with pytest.raises(np.linalg.LinAlgError, match=r"\[solve\] of shape \(2, 2\) and \(2, 1\)"):
        Tensor.ones(2, 2).solve(Tensor.ones(2)).numpy()
    with pytest.raises(LinAlgError, match=r"\[cholesky\] of shape \(2, 2\): .* positive definite"):
        Tensor([[1.0, 2.0], [2.0, 1.0]]).cholesky().numpy()
    with pytest.raises(LinAlgError, match=r"\[svd\] of shape \(2, 2\): .* NaNs"):
        Tensor([[math.nan, 1.0], [1.0, 1.0]]).svd()[1].numpy()


@pytest.mark.parametrize(
    "name",
    ["qr", "svd", "svdvals", "eigh", "eigvalsh", "cholesky", "inv", "pinv", "det", "slogdet",
     "matrix_rank"],
)  # fmt: skip
def test_operands_that_do_not_fit_raise_at_once(name):
    for dtype in (dtypes.int32, dtypes.bool, dtypes.float16, dtypes.bfloat16):
        with pytest.raises(DTypeError, match=r"takes .* complex numbers, not \w+ \(shape"):
            getattr(Tensor.ones(2, 2, dtype=dtype), name)()
    for shape in ((), (3,)):
        with pytest.raises(ShapeError, match=r"takes matrices"):
            getattr(Tensor.ones(shape), name)()
    if name not in ("qr", "svd", "svdvals", "pinv", "matrix_rank"):
        with pytest.raises(ShapeError, match=r"square .* \(2, 2, 3\) has 2 rows and 3 columns"):
            getattr(Tensor.ones(2, 2, 3), name)()


def test_right_sides_that_do_not_fit_raise_at_once():
    x = Tensor.eye(3)
    with pytest.raises(ShapeError, match=r"\(3, 3\) and right side \(4, 2\) .* 3 rows"):
        x.solve(Tensor.ones(4, 2))
    with pytest.raises(ShapeError, match=r"right side \(3, 2\) .* 3 columns"):
        x.solve(Tensor.ones(3, 2), left=False)
    with pytest.raises(ShapeError, match="not the number 2"):
        x.solve(2)
    with pytest.raises(ShapeError, match=r"\[solve\] shapes .* do not broadcast"):
        x.expand(2, 3, 3).solve(Tensor.ones(5, 3, 1))
    with pytest.raises(DTypeError, match=r"\[solve\] takes float32"):
        Tensor.ones(2, 2, dtype=dtypes.int32).solve(Tensor.ones(2, dtype=dtypes.int32))
    with pytest.raises(ShapeError, match="expected 3 elements, got 2"):
        x.lstsq(Tensor.ones(2))
    with pytest.raises(ShapeError, match="mode 'raw' is not known"):
        x.qr("raw")
    with pytest.raises(DeviceError):
        x.solve(Tensor.ones(3, device="REF"))


def test_the_columns_that_complete_q_have_no_gradient():
    x = Tensor(normal(4, 2), requires_grad=True)
    with pytest.raises(UserError, match=r"\[qr\] mode='complete' of shape \(4, 2\)"):
        x.qr("complete")[0].sum().backward()


def test_no_gradient_is_recorded_where_none_is_wanted():
    x = Tensor(positive(3, 3), requires_grad=True)
    with Tensor.no_grad():
        assert not x.inv().requires_grad
    sign, _ = x.slogdet()
    assert sign.gradient(x)[0].tolist() == np.zeros((3, 3)).tolist()


def test_least_squares_have_the_gradients_of_the_pseudo_inverse():
    a, b, w = normal(5, 3), normal(5, 2), Tensor(normal(2))

    def gradients(function):
        x, y = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
        found = function(x, y).gradient(x, y, materialize_grads=True)
        return [one.numpy() for one in found]

    def by_pinv(x, y):
        solution = x.pinv() @ y
        left = (x @ solution - y).square().sum(0)
        return solution.sin().sum() + (left * w).sum() + x.svdvals().sin().sum()

    def at_once(x, y):
        found = x.lstsq(y)
        left = (found.residuals * w).sum()
        return found.solution.sin().sum() + left + found.singular_values.sin().sum()

    for ours, wanted in zip(gradients(at_once), gradients(by_pinv), strict=True):
        np.testing.assert_allclose(ours, wanted, atol=1e-10)
    assert Tensor(a).lstsq(Tensor(b)).rank.item() == 3
