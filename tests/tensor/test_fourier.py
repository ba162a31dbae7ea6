"""Fourier transforms against NumPy's, in every length, and their gradients against PyTorch's."""

import numpy as np
import pytest

from treadle import Tensor, dtypes, fft
from treadle.errors import DTypeError, ShapeError
from treadle.tensor.fourier.dft import _fast_length, _first_factor, _roots

RNG = np.random.default_rng(5)


def numbers(*shape, dtype=np.complex128):
    values = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.normal(size=shape)
    return values.astype(dtype)


def close(got, want, tol):
    """Errors are relative to the largest value: a transform mixes all of them."""
    array = got.numpy()
    assert array.shape == want.shape
    assert array.dtype.kind == want.dtype.kind
    assert np.abs(array - want).max(initial=0.0) <= tol * max(np.abs(want).max(initial=0.0), 1e-300)


# one matmul; two and three of them; primes in one matmul, in two, and as a convolution
LENGTHS = [1, 2, 3, 7, 60, 100, 251, 257, 1024, 2 * 509, 67 * 71, 5040]


@pytest.mark.parametrize("n", LENGTHS)
def test_every_length_is_exact_to_rounding(n):
    x = numbers(2, n)
    close(Tensor(x).fft(), np.fft.fft(x), 2e-15)
    close(Tensor(x.astype(np.complex64)).ifft(), np.fft.ifft(x), 1e-6)
    close(Tensor(x.real).rfft(), np.fft.rfft(x.real), 2e-15)
    close(Tensor(x).irfft(n), np.fft.irfft(x, n), 2e-15)
    close(Tensor(x[:, : n // 2 + 1]).irfft(n), np.fft.irfft(x, n), 2e-15)


def test_on_every_device(device):
    x = numbers(3, 120, dtype=np.complex64)
    close(Tensor(x, device=device).fft(), np.fft.fft(x), 1e-6)
    close(Tensor(x.real, device=device).rfft().irfft(120), x.real, 1e-6)


def test_a_length_splits_into_short_matmuls():
    assert _first_factor(64) == 64
    assert _first_factor(1 << 16) in (32, 64)
    assert _first_factor(251) == 251
    assert _first_factor(1000003) == 1
    smooth = [2**a * 3**b * 5**c for a in range(22) for b in range(14) for c in range(10)]
    for n in (1, 7, 11, 1021, 2000005):
        assert _fast_length(n) == min(m for m in smooth if m >= n)


def test_roots_of_unity_are_exact_on_the_axes():
    turns = np.arange(16)
    roots = _roots(turns, 8, False)
    assert roots[[0, 2, 4, 6]].tolist() == [1, -1j, -1, 1j]
    np.testing.assert_allclose(roots, np.exp(-2j * np.pi * turns / 8), atol=1e-15)
    assert np.array_equal(_roots(turns, 8, True), roots.conj())


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward", None])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lines_are_cut_padded_and_divided_as_in_numpy(name, norm):
    real = name in ("rfft", "ihfft")
    x = numbers(4, 10, dtype=np.float64 if real else np.complex128)
    for n, axis in ((None, -1), (7, 0), (16, 1)):
        theirs = getattr(np.fft, name)(x, n=n, axis=axis, norm=norm)
        close(getattr(fft, name)(Tensor(x, device="REF"), n=n, axis=axis, norm=norm), theirs, 1e-14)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(name):
    x = numbers(3, 4, 6, dtype=np.float64 if name == "rfftn" else np.complex128)
    for s, axes in ((None, None), (None, (2, 0)), ((5, 4), (0, 1)), ((4, -1), (1, 2))):
        theirs = getattr(np.fft, name)(x, s=s, axes=axes)
        close(getattr(Tensor(x, device="REF"), name)(s, axes), theirs, 1e-14)
    flat = name[:-1] + "2"
    close(getattr(fft, flat)(Tensor(x, device="REF"), norm="ortho"),
          getattr(np.fft, flat)(x, norm="ortho"), 1e-14)  # fmt: skip


@pytest.mark.parametrize("name", ["hfftn", "ihfftn", "hfft2", "ihfft2"])
def test_hermitian_transforms_of_several_axes_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    x = numbers(3, 4, 6, dtype=np.float64 if name[0] == "i" else np.complex128)
    for s, axes in ((None, (2, 0)), ((5, 4), (0, 1))):
        for norm in ("backward", "ortho", "forward"):
            theirs = getattr(torch.fft, name)(torch.tensor(x), s, axes, norm)
            got = getattr(fft, name)(Tensor(x, device="REF"), s, axes, norm)
            close(got, theirs.resolve_conj().numpy(), 1e-14)


def test_other_types_become_complex():
    assert Tensor([1, 2, 3]).fft().dtype is dtypes.complex64
    assert Tensor([1.0], dtype="float16").fft().dtype is dtypes.complex64
    assert Tensor([1.0], dtype="float64").rfft().dtype is dtypes.complex128
    assert Tensor([1j], dtype="complex128").irfft(1).dtype is dtypes.float64


def test_frequencies_and_shifts():
    for n in (1, 8, 9):
        close(fft.fftfreq(n, d=0.1, dtype="float64"), np.fft.fftfreq(n, 0.1), 1e-15)
        close(fft.rfftfreq(n, d=0.1), np.fft.rfftfreq(n, 0.1).astype(np.float32), 1e-7)
    x = numbers(4, 5, dtype=np.float32)
    for axes in (None, 0, (1,)):
        close(fft.fftshift(Tensor(x), axes=axes), np.fft.fftshift(x, axes), 0)
        close(fft.ifftshift(fft.fftshift(Tensor(x), axes=axes), axes=axes), x, 0)


@pytest.mark.parametrize("size", [9, 66])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_gradients_are_those_of_pytorch(name, size):
    torch = pytest.importorskip("torch")
    x = numbers(2, size, dtype=np.float64 if name in ("rfft", "ihfft") else np.complex128)
    ours, theirs = Tensor(x, device="REF", requires_grad=True), torch.tensor(x, requires_grad=True)
    got, want = getattr(ours, name)(), getattr(torch.fft, name)(theirs)
    weights = numbers(*want.shape)
    (got * Tensor(weights, device="REF")).real.sum().backward()
    (want * torch.tensor(weights)).real.sum().backward()
    close(ours.grad, theirs.grad.resolve_conj().numpy(), 1e-14)


def test_mistakes_are_named():
    x = Tensor([1.0, 2.0])
    for call, error in (
        (lambda: x.hfftn(norm="other"), ValueError),
        (lambda: x.cfloat().ihfft2(), DTypeError),
        (lambda: x.fft(0), ShapeError),
        (lambda: x.fft(2.0), ShapeError),
        (lambda: Tensor(1.0).fft(), ShapeError),
        (lambda: x.fft(norm="both"), ValueError),
        (lambda: (x * 1j).rfft(), DTypeError),
        (lambda: x.reshape(1, 2).fftn(s=(2,), axes=(0, 1)), ShapeError),
        (lambda: x.reshape(1, 2).fftn(axes=(0, -2)), ShapeError),
        (lambda: x.reshape(2, 1).irfft(), ShapeError),
        (lambda: Tensor.fftfreq(3, dtype="int32"), DTypeError),
    ):
        with pytest.raises(error, match=r"^\[\w+\] "):
            call()
