"""Treadle's own kernels from their machine code, against the same programs on the CPU."""

import numpy as np
import pytest
from tests.render.corpus import CORPUS

from .conftest import run_tensor

CHIPS = ("gfx1100", "gfx942", "gfx1030", "gfx1201", "gfx90a")
# Relative and absolute. A row's mean that is rounded elsewhere moves all of it by 2**-22 of 3, over
# a deviation of 0.06; floats of 16 bits are sums that are rounded in another order.
TOLERANCES = {
    "layer norm": (2e-5, 1.2e-5),
    "matmul float16": (2e-3, 2e-3),
    "convolution bfloat16": (1e-2, 1e-2),
}
SLOW = {"large matmul"}  # the same operations as the smaller one


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", [name for name in CORPUS if name not in SLOW])
def test_programs_give_what_the_cpu_gives(machine, chip, name):
    found = run_tensor(machine(chip), chip, CORPUS[name]())
    expected = CORPUS[name]().numpy()
    if expected.dtype.kind not in "biu":  # floats, those of NumPy and others
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(found, expected, *TOLERANCES.get(name, (2e-5, 2e-6)))
    else:
        np.testing.assert_array_equal(found, expected)
