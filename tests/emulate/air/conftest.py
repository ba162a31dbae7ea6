"""Kernels of Metal's language and of AIR's text, run on arrays."""

import numpy as np
import pytest

from treadle.emulate.air import compile_msl, find_clang
from treadle.emulate.air.execute import Program
from treadle.emulate.air.kernels import Module
from treadle.emulate.simt.machine import Region

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def launch(program, name, grid, block, buffers, threadgroup_memory=None):
    """Arrays are bound by their addresses, bytes as they are."""
    arrays = [data for data in buffers.values() if isinstance(data, np.ndarray)]
    memory = [Region(array.ctypes.data, array.nbytes) for array in arrays]
    bound = {
        index: data.ctypes.data if isinstance(data, np.ndarray) else data
        for index, data in buffers.items()
    }
    sizes = [(*size, 1, 1)[:3] if isinstance(size, tuple) else (size, 1, 1)
             for size in (grid, block)]  # fmt: skip
    program.launch(name, *sizes, bound, memory, threadgroup_memory)


@pytest.fixture(scope="session")
def msl(compile_ir):
    """msl(source) is a Program of a text of Metal's language; `using namespace` is before it."""
    if find_clang() is None:
        pytest.skip("no clang 15 or newer: `apt-get install clang-19` installs one")
    made = {}

    def make(source, checks_races=True):
        key = (source, checks_races)
        if key not in made:
            module = Module(compile_msl(HEAD + source))
            made[key] = Program(module, compile_ir, checks_races=checks_races)
        return made[key]

    return make


@pytest.fixture(scope="session")
def air(compile_ir):
    """air(text) is a Program of a module."""
    return lambda text: Program(Module(text.encode()), compile_ir, checks_races=True)
