"""Treadle's own kernels from their machine code, against the same programs on the CPU."""

import os

import numpy as np
import pytest
from tests.render.corpus import CORPUS

from treadle.backends.amd import AMD
from treadle.dtype import finfo
from treadle.target import amd_target

from .conftest import run_tensor
from .newest_clang import NAME as NEWEST
from .newest_clang import NewestClang

CHIPS = ("gfx1100", "gfx942", "gfx1030", "gfx1201", "gfx90a")
OF_COMGR = ("gfx1030", "gfx90a")  # of these chips, those that Debian's libamd_comgr knows
OTHERS = [chip for chip in CHIPS if chip not in OF_COMGR]
CODE = [(chip, "LLVM") for chip in CHIPS] + [(chip, "HIP") for chip in OF_COMGR]
CODE += [(chip, NEWEST) for chip in OTHERS if "FULL_TESTS" in os.environ]
# Sums of both sides are rounded in another order: so many units in the last place of the largest
# result may they differ by. Results of 16 bits are sums of float32 that are rounded once; those of
# 8 bits are exact here.
UNITS = {1: 0, 2: 2, 4: 64, 8: 64}
SLOW = {"large matmul"}  # the same operations as the smaller one


def toolchain(chip, compiler):
    """A renderer, and the compiler that reads its text."""
    target = amd_target(chip)
    found = AMD.toolchain("HIP" if compiler == NEWEST else compiler)
    made = NewestClang(target) if compiler == NEWEST else found.compiler(target, None)
    missing = made.available()
    if missing is not None:
        pytest.skip(missing)
    return found.renderer(target, True), made


@pytest.mark.parametrize(("chip", "compiler"), CODE)
@pytest.mark.parametrize("name", [name for name in CORPUS if name not in SLOW])
def test_programs_give_what_the_cpu_gives(machine, chip, compiler, name):
    program, expected = CORPUS[name](), CORPUS[name]().numpy()
    found = run_tensor(machine(chip), chip, program, *toolchain(chip, compiler))
    if not program.dtype.is_float:
        np.testing.assert_array_equal(found, expected)
        return
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    allowed = UNITS[program.dtype.itemsize] * finfo(program.dtype).eps * largest
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)
