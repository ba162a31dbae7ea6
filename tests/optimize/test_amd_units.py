"""Products on AMD's matrix units, step by step: every lane's words are where the maps say."""

from dataclasses import replace

import numpy as np
import pytest
from tests.lower.workgroups import run

from treadle import Tensor, dtypes
from treadle.engine.realized import current
from treadle.ir.elementwise import numpy_dtype
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.schedule.passes import schedule
from treadle.target import amd_target

RANDOM = np.random.default_rng(3)
KINDS = {
    "gfx90a": ("float16", "bfloat16", "int8", "float32"),
    "gfx942": ("float16", "int8", "float32"),
    "gfx950": ("bfloat16", "int8", "fp8e4m3"),
    "gfx1100": ("float16", "int8", "uint8"),
    "gfx1201": ("bfloat16", "uint8", "fp8e4m3", "fp8e5m2"),
}
CASES = [(chip, kind) for chip, kinds in KINDS.items() for kind in kinds]
SIDES = ["xy", "xY", "Xy", "XY"]  # a capital letter is a factor that is transposed in memory


def whole_numbers(kind, *shape):
    """Values that every dtype has, and whose sums are exact."""
    low = 0 if kind == "uint8" else -3
    return RANDOM.integers(low, 4, shape).astype(np.float32)


def large_tiles(target):
    """The target as a processor that one workgroup keeps busy."""
    return replace(target, workgroup=replace(target.workgroup, busy=1))


def of_memory(array, kind, dtype):
    """Flat numbers as memory holds them, those of narrow floats as bits where `dtype` says so."""
    flat = np.ascontiguousarray(array).astype(numpy_dtype(getattr(dtypes, kind))).reshape(-1)
    return flat.view(numpy_dtype(dtype))


def product(chip, kind, rows, steps, columns, sides="xy"):
    """What a product is in memory before and after its kernel, whether it is made of products of
    matrices, and what it should be."""
    target = large_tiles(amd_target(chip))
    x, y = whole_numbers(kind, rows, steps), whole_numbers(kind, steps, columns)
    stored = (x.T if "X" in sides else x, y.T if "Y" in sides else y)
    a, b = (Tensor(n, device="CPU").cast(getattr(dtypes, kind)).realize() for n in stored)
    sums = dtypes.int32 if a.dtype.is_int else dtypes.float32
    wide = (a.T if "X" in sides else a).cast(sums) @ (b.T if "Y" in sides else b).cast(sums)
    (kernel,) = schedule(current([wide.node])[0], "CPU", target)[0]
    phases = lower(optimize(kernel.ast, target)[0], len(kernel.buffers), target).phases
    assert any(node.op is Op.MMA for phase in phases for node in phase.program.src)
    (out,) = kernel.writes
    by_size = {array.size: array for array in stored}
    params = {param.arg.slot: param for phase in phases for param, _ in phase.params}
    memory = {slot: of_memory(by_size[param.arg.size], kind, param.dtype)
              for slot, param in params.items() if slot != out}  # fmt: skip
    assert len(memory) == 2
    memory[out] = np.zeros(rows * columns, np.int32 if a.dtype.is_int else np.float32)
    return run(phases, memory, target)[out].reshape(rows, columns), x @ y


@pytest.mark.parametrize(("chip", "kind"), CASES)
def test_a_product_of_whole_numbers_is_exact(chip, kind):
    np.testing.assert_array_equal(*product(chip, kind, 70, 40, 90))


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize(("chip", "kind"), [("gfx1100", "float16"), ("gfx942", "float32"),
                                            ("gfx1201", "uint8")])  # fmt: skip
def test_factors_lie_in_memory_in_either_order(chip, kind, sides):
    np.testing.assert_array_equal(*product(chip, kind, 64, 32, 128, sides))
