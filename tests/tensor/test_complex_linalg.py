"""Decompositions of complex matrices: values, gradients of two orders against PyTorch."""

import numpy as np
import pytest

from treadle import Tensor, func
from treadle.errors import LinAlgError

RNG = np.random.default_rng(29)


def numbers(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def hermitian(x):
    return (x + x.mH) * 0.5


def squared(x):
    return (x * x.conj()).real


def positive(n):
    a = numbers(n, n)
    return a @ a.conj().T + n * np.eye(n)


# What is computed of the results does not depend on the phases of vectors, nor on their order where
# that is any.
def _of_svd(u, s, vh):
    return squared(u), s, squared(vh), u[..., :1] @ vh[..., :1, :]


def _of_eigh(w, v):
    return w, squared(v), v @ (v.mH * w.unsqueeze(-1).sin())


def _of_eig(w, v):
    lengths = squared(v) * w.abs().unsqueeze(-2)
    return (w * w * w).sum(-1), w.abs().sum(-1), lengths.sum(-1)


# name: (of a Tensor, of torch.linalg, operands)
CASES = {
    "qr tall": (lambda x: x.qr(), lambda L, x: L.qr(x), [numbers(4, 3)]),
    "qr wide": (lambda x: x.qr(), lambda L, x: L.qr(x), [numbers(2, 3, 4)]),
    "svd tall": (
        lambda x: _of_svd(*x.svd(False)), lambda L, x: _of_svd(*L.svd(x, False)), [numbers(4, 3)],
    ),
    "svd wide": (
        lambda x: _of_svd(*x.svd(False)), lambda L, x: _of_svd(*L.svd(x, False)),
        [numbers(2, 3, 4)],
    ),
    "svdvals": (lambda x: x.svdvals(), lambda L, x: L.svdvals(x), [numbers(2, 4, 3)]),
    "eigh": (
        lambda x: _of_eigh(*hermitian(x).eigh()), lambda L, x: _of_eigh(*L.eigh(hermitian(x))),
        [numbers(2, 3, 3)],
    ),
    "eigh of the upper triangle": (
        lambda x: _of_eigh(*hermitian(x).eigh("U")),
        lambda L, x: _of_eigh(*L.eigh(hermitian(x), "U")), [numbers(3, 3)],
    ),
    "eigvalsh": (
        lambda x: hermitian(x).eigvalsh(), lambda L, x: L.eigvalsh(hermitian(x)), [numbers(3, 3)],
    ),
    "eig": (lambda x: _of_eig(*x.eig()), lambda L, x: _of_eig(*L.eig(x)), [numbers(2, 3, 3)]),
    "eig of reals": (
        lambda x: _of_eig(*x.eig()), lambda L, x: _of_eig(*L.eig(x)), [RNG.normal(size=(2, 4, 4))],
    ),
    "eigvals": (
        lambda x: (x.eigvals() ** 3).sum(), lambda L, x: (L.eigvals(x) ** 3).sum(),
        [RNG.normal(size=(4, 4))],
    ),
    "cholesky": (
        lambda x: hermitian(x).cholesky(upper=True),
        lambda L, x: L.cholesky(hermitian(x), upper=True), [positive(3)],
    ),
    "solve": (
        lambda x, y: x.solve(y, left=False), lambda L, x, y: L.solve(x, y, left=False),
        [numbers(3, 3), numbers(2, 3)],
    ),
    "solve, of reals and complex numbers": (
        lambda x, y: x.solve(y), lambda L, x, y: L.solve(x + 0j, y),
        [RNG.normal(size=(3, 3)), numbers(3, 2)],
    ),
    "triangular": (
        lambda x, y: x.solve_triangular(y, upper=False, unitriangular=True),
        lambda L, x, y: L.solve_triangular(x, y, upper=False, unitriangular=True),
        [numbers(3, 3), numbers(3, 2)],
    ),
    "inv": (lambda x: x.inv(), lambda L, x: L.inv(x), [numbers(2, 3, 3)]),
    "pinv": (lambda x: x.pinv(), lambda L, x: L.pinv(x), [numbers(4, 3)]),
    "det": (lambda x: x.det(), lambda L, x: L.det(x), [numbers(2, 3, 3)]),
    "slogdet": (lambda x: x.slogdet(), lambda L, x: L.slogdet(x), [numbers(2, 3, 3)]),
    "logdet": (lambda x: x.logdet(), lambda L, x: x.logdet(), [numbers(3, 3)]),
    "lstsq": (
        lambda x, y: x.lstsq(y).solution, lambda L, x, y: L.lstsq(x, y).solution,
        [numbers(4, 3), numbers(4, 2)],
    ),
    "matrix_power": (
        lambda x: x.matrix_power(-3), lambda L, x: L.matrix_power(x, -3), [numbers(3, 3)],
    ),
    "norms": (
        lambda x: (x.matrix_norm(), x.matrix_norm("nuc"), x.matrix_norm(1), x.vector_norm(3)),
        lambda L, x: (
            L.matrix_norm(x), L.matrix_norm(x, "nuc"), L.matrix_norm(x, 1), L.vector_norm(x, 3)
        ),
        [numbers(3, 4)],
    ),
    "cond": (lambda x: (x.cond(), x.cond(-2)), lambda L, x: (L.cond(x), L.cond(x, -2)),
             [numbers(3, 4)]),
    "cond of a square": (
        lambda x: x.cond(1), lambda L, x: L.matrix_norm(x, 1) * L.matrix_norm(L.inv(x), 1),
        [numbers(3, 3)],
    ),
}  # fmt: skip


def loss(results, weigh):
    """A number that depends on both parts of every element of every result."""
    total = 0
    for i, x in enumerate(results if isinstance(results, (tuple, list)) else [results]):
        rng = np.random.default_rng(i)
        for part in (x.real, x.imag) if x.is_complex() else (x,):
            total = total + (part.sin() * weigh(rng.normal(size=(*x.shape,)))).sum()
    return total


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_of_two_orders_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    ours, theirs, arrays = CASES[name]
    xs = [Tensor(a, device="REF", requires_grad=True) for a in arrays]
    others = [torch.tensor(a, requires_grad=True) for a in arrays]
    ours, theirs = ours(*xs), theirs(torch.linalg, *others)
    weigh = lambda w: Tensor(np.asarray(w), device="REF")
    first = loss(ours, weigh).gradient(*xs)
    wanted = torch.autograd.grad(loss(theirs, torch.tensor), others, create_graph=True)
    second = loss(first, weigh).gradient(*xs)
    again = torch.autograd.grad(loss(wanted, torch.tensor), others)
    flat = lambda x: [*x] if isinstance(x, (tuple, list)) else [x]
    got, want = [*flat(ours), *first, *second], [*flat(theirs), *wanted, *again]
    for mine, other in zip(got, want, strict=True):
        array, expected = mine.numpy(), other.detach().resolve_conj().numpy()
        assert array.dtype == expected.dtype
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(array, expected, rtol=1e-9, atol=1e-10 * scale)


def test_factors_multiply_to_the_matrix(device):
    a = numbers(2, 3, 3).astype(np.complex64)
    x = Tensor(a, device=device) * 1
    close = lambda got, want: np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=2e-5)
    q, r = x.qr()
    close(q @ r, a)
    u, s, vh = x.svd()
    close(u * s.unsqueeze(-2) @ vh, a)
    w, v = hermitian(x).eigh()
    close(v * w.unsqueeze(-2) @ v.mH, (a + a.conj().swapaxes(-1, -2)) / 2)
    w, v = x.eig()
    close(v * w.unsqueeze(-2), a @ v.numpy())
    close(x.inv() @ x, np.broadcast_to(np.eye(3), (2, 3, 3)))
    assert x.matrix_rank().tolist() == [3, 3]
    w, _ = Tensor([[0.0, -1.0], [1.0, 0.0]], device=device).eig()
    assert sorted(w.tolist(), key=lambda z: z.imag) == [-1j, 1j]


def test_forward_mode_and_batches_go_through_decompositions():
    a, d, b = numbers(3, 3), numbers(3, 3), numbers(2, 3, 3)
    f = lambda x: x.inv() @ x.det().reshape(1, 1).expand(3, 3)
    value, tangent = func.jvp(f, (Tensor(a),), (Tensor(d),))
    step = lambda t: f(Tensor(a + t * d)).numpy()
    np.testing.assert_allclose(value.numpy(), step(0), rtol=1e-12)
    np.testing.assert_allclose(tangent.numpy(), (step(1e-6) - step(-1e-6)) / 2e-6, rtol=1e-7)
    mapped = func.vmap(lambda x: hermitian(x).eigvalsh())(Tensor(b))
    np.testing.assert_allclose(
        mapped.numpy(), np.linalg.eigvalsh((b + b.conj().swapaxes(-1, -2)) / 2), rtol=1e-12
    )


def test_singular_matrices():
    singular = np.array([[[1, 1j], [1j, -1]], [[1, 0], [0, 2j]]])
    with pytest.raises(LinAlgError, match=r"\[inv\] of shape \(2, 2, 2\)"):
        Tensor(singular).inv().numpy()
    np.testing.assert_allclose(Tensor(singular).cond(1).numpy(), [np.inf, 2])
    x = Tensor(singular[0], requires_grad=True)
    x.det().real.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.conj([[-1, -1j], [-1j, 1]]), atol=1e-14)
    with pytest.raises(LinAlgError, match=r"\[cholesky\] .* Hermitian"):
        Tensor(singular[1]).cholesky().numpy()
    np.testing.assert_allclose(
        Tensor(singular[0]).pinv().numpy(), np.linalg.pinv(singular[0]), atol=1e-14
    )
