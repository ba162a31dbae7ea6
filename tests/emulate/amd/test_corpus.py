"""Treadle's own kernels from their machine code, against the same programs on the CPU."""

import numpy as np
import pytest
from tests.render.corpus import CORPUS

from .conftest import run_tensor

CHIPS = ("gfx1100", "gfx942", "gfx1030", "gfx1201", "gfx90a")
SLOW = {"large matmul"}  # the same operations as the smaller one


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", [name for name in CORPUS if name not in SLOW])
def test_programs_give_what_the_cpu_gives(machine, chip, name):
    found = run_tensor(machine(chip), chip, CORPUS[name]())
    expected = CORPUS[name]().numpy()
    if expected.dtype.kind not in "biu":  # floats, those of NumPy and others
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(found, expected)
