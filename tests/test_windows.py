"""Window functions against PyTorch's, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import dtypes, windows
from treadle.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")
OPTIONS = {
    "general_cosine": {"a": [0.5, 0.3, 0.2]}, "general_hamming": {"alpha": 0.6},
    "exponential": {"tau": 3.0}, "gaussian": {"std": 2.0}, "kaiser": {"beta": 5.0},
}  # fmt: skip


@pytest.mark.parametrize("name", windows.__all__)
@pytest.mark.parametrize("sym", [True, False])
def test_a_window_is_pytorchs(name, sym):
    options = {"sym": sym, **OPTIONS.get(name, {})}
    theirs = getattr(torch.signal.windows, name)(9, **options).numpy()
    mine = getattr(windows, name)(9, **options)
    np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-6)
    assert getattr(windows, name)(1, **options).tolist() == [1.0]
    assert getattr(windows, name)(0, **options).shape == (0,)


def test_windows_have_the_dtype_asked_for_and_no_overflow():
    assert windows.hann(4, dtype=dtypes.float16).dtype is dtypes.float16
    assert windows.kaiser(5, beta=500.0).tolist()[2] == 1.0


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: windows.hann(-1), ShapeError),
        (lambda: windows.hann(2.5), ShapeError),  # type: ignore[arg-type]
        (lambda: windows.hann(4, dtype=dtypes.int32), DTypeError),
        (lambda: windows.general_cosine(4, a=[]), ValueError),
        (lambda: windows.gaussian(4, std=0), ValueError),
        (lambda: windows.kaiser(4, beta=-1), ValueError),
        (lambda: windows.exponential(4, center=1.0), ValueError),
    ],
)
def test_what_is_no_window_is_refused(call, error):
    with pytest.raises(error, match=r"^\[\w+\]"):
        call()
