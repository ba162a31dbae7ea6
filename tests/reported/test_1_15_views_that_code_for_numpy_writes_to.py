"""Code for NumPy that adds to a view finds the sum in what the view was taken of."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from treadle import Tensor

CONVOLUTIONS = """
import numpy as np
from scipy import signal
from treadle import Tensor

rng = np.random.default_rng(0)
cases = [((1000,), (50,), 0), ((40, 500), (40, 30), 1), ((90, 300), (7, 20), None)]
for shape, other, axes in cases:
    a, b = (rng.standard_normal(s).astype(np.float32) for s in (shape, other))
    for name in ("oaconvolve", "fftconvolve"):
        found = getattr(signal, name)(Tensor(a), Tensor(b), axes=axes)
        assert isinstance(found, Tensor)
        wanted = getattr(signal, name)(a.astype(float), b.astype(float), axes=axes)
        assert np.abs(found.numpy() - wanted).max() < 1e-4, (name, shape)
"""


def test_1_15_scipys_overlap_add_adds():
    pytest.importorskip("scipy", minversion="1.15")
    done = subprocess.run(
        [sys.executable, "-c", CONVOLUTIONS], check=False, timeout=300, capture_output=True,
        text=True, env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_1_15_a_view_sees_writes_through_a_view_of_a_view_that_is_gone(device):
    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device=device)
    row = x[1]
    part = row[1:][:2]  # the view between them is gone
    part += 10
    assert row.tolist() == [4, 15, 16, 7]
    assert x.tolist()[1] == [4, 15, 16, 7]
    end = (x * 2)[2:][0][3:]  # all that these were taken of is gone
    end += 1
    assert end.tolist() == [23]
