"""Short-time Fourier transforms against PyTorch's, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, windows
from treadle.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")
X = np.random.default_rng(4).standard_normal((2, 50)).astype(np.float32)


@pytest.mark.parametrize("options", [{}, {"normalized": True, "onesided": False}])
def test_a_signal_comes_back_from_its_spectra(device, options):
    window = windows.hann(8, sym=False)
    parts = {"hop_length": 3, "win_length": 8, **options}
    theirs = torch.stft(
        torch.tensor(X), 12, window=torch.tensor(window.numpy()), return_complex=True, **parts
    )
    mine = Tensor(X, device=device).stft(12, window=window.to(device), **parts)
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), atol=1e-5)
    back = mine.istft(12, window=window.to(device), length=50, **parts)
    np.testing.assert_allclose(back.numpy(), X, atol=1e-5)


def test_signals_lead_to_gradients_through_their_spectra():
    x, y = Tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    x.stft(10).abs().square().sum().backward()
    window = torch.ones(10)
    torch.stft(y, 10, window=window, return_complex=True).abs().square().sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.stft(0), ShapeError, r"n_fft and hop_length are at least 1"),
        (lambda x: x.stft(64, center=False), ShapeError, "has no piece of 64"),
        (lambda x: x.stft(8, win_length=9), ShapeError, "a window of 9 elements, at most n_fft=8"),
        (lambda x: x.stft(8, window=x[0, :4]), ShapeError, r"not one of shape \(4,\)"),
        (lambda x: x.int().stft(8), DTypeError, r"\[stft\] takes signals"),
        (lambda x: x.stft(8).istft(6), ShapeError, r"\[istft\] takes complex spectra"),
        (lambda x: x.istft(8), ShapeError, r"\[istft\] takes complex spectra"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(Tensor(X, device="CPU"))
