"""Matmuls on matrix units: when they are, what their kernels look like, and their values."""

import math

import numpy as np
import pytest

from treadle import Context, Device, Tensor, dtypes
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel, verify_linear
from treadle.lower.passes import lower
from treadle.target import parse_target

from .references import kernel, on_device_and_exactly

TARGET = parse_target("sm_80")
RANDOM = np.random.default_rng(3)


def numbers(*shape, dtype=dtypes.bfloat16, device="CPU"):
    values = RANDOM.integers(-8, 9, shape).astype(np.float32)
    return Tensor(values, device=device).cast(dtype).realize()


def is_on_units(tensor, target=TARGET):
    return any(n.op is Op.MMA for n in kernel(tensor, target)[1].toposort())


def test_halves_and_bfloat16_are_multiplied_by_matrix_units():
    for dtype in (dtypes.float16, dtypes.bfloat16):
        assert is_on_units(numbers(64, 64, dtype=dtype) @ numbers(64, 64, dtype=dtype))
    x, y = numbers(64, 64), numbers(64, 64)
    assert is_on_units((x.relu() @ y.T).gelu())
    assert not is_on_units(x @ y, parse_target("sm_75"))


def test_what_has_other_types_or_few_lines_is_not():
    assert not is_on_units(numbers(64, 64, dtype=dtypes.float32) @ numbers(64, 64).float())
    assert not is_on_units(numbers(64, 64).float() @ numbers(64, 64, dtype=dtypes.float16).float())
    assert not is_on_units(numbers(8, 512) @ numbers(512, 64))


def test_a_tile_is_as_large_as_leaves_workgroups_enough():
    for rows, workgroups in ((4096, 32 * 32), (512, 16 * 8)):
        _, ast, _ = kernel(numbers(rows, 32) @ numbers(32, rows), TARGET)
        grid = [loop_size(n) for n in ast.toposort() if n.op is Op.RANGE and n.arg.kind == "grid"]
        assert math.prod(grid) == workgroups


def test_kernels_are_legal_at_every_stage_and_keep_to_shared_memory():
    found, ast, _ = kernel(numbers(130, 70) @ numbers(70, 100), TARGET)
    verify_kernel(ast)
    (phase,) = lower(ast, len(found.buffers), TARGET).phases
    verify_linear(phase.program)
    assert phase.work_items == 256
    held = {n for n in phase.program.toposort() if n.op is Op.LOCAL}
    assert sum(n.arg.size * n.dtype.itemsize for n in held) <= TARGET.workgroup.shared_bytes
    assert all(n.dtype.scalar is dtypes.bfloat16 for n in held)  # copied as they are


CASES = {
    "whole tiles": lambda t: t(64, 64) @ t(64, 64),
    "one slice": lambda t: t(32, 16) @ t(16, 96),
    "tails of everything": lambda t: t(33, 70) @ t(70, 35),
    "columns of both": lambda t: t(70, 64).T @ t(40, 70).T,
    "batches and an epilogue": lambda t: (t(3, 40, 33) @ t(3, 33, 24)).relu() + 1,
    "convolution": lambda t: t(2, 16, 9, 11).conv2d(t(24, 16, 3, 3), padding=1),
}


@pytest.mark.parametrize("device", ["CUDA", "CUDA:PTX"], indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_values_are_exact_where_integers_are(name, device):
    np.testing.assert_array_equal(*on_device_and_exactly(CASES[name], device, RANDOM))


KINDS = {
    "int8": lambda t: t(40, 144, "int8").matmul(t(144, 72, "int8"), dtype=dtypes.int32),
    "wrapping": lambda t: t(40, 144, "uint8") @ t(72, 144, "uint8").T,
    "tf32": lambda t: t(40, 144, "float32") @ t(144, 72, "float32"),
    "fp8": lambda t: t(40, 144, "fp8e5m2") @ t(72, 144, "fp8e5m2").T,
}


@pytest.mark.parametrize("device", ["CUDA:0:NVRTC:sm_89", "CUDA:0:PTX:sm_89"], indirect=True)
@pytest.mark.parametrize("name", KINDS)
def test_other_types_are_multiplied_as_they_are(name, device):
    given = []

    def make(rows, columns, dtype):
        given.append(RANDOM.integers(0, 5, (rows, columns)))
        return Tensor(given[-1].astype(np.float32), device=device).cast(dtype).realize()

    with Context(ALLOW_TF32=1):
        ours = KINDS[name](make)
        assert is_on_units(ours, Device[device].code_target)
        ours = ours.numpy()
    arrays = iter(given)
    on_cpu = lambda *_: Tensor(next(arrays).astype(np.float32), device="CPU").cast(_[2]).realize()
    np.testing.assert_array_equal(ours, KINDS[name](on_cpu).numpy())


def test_float32_is_rounded_only_where_that_is_allowed():
    x = numbers(64, 64, dtype=dtypes.float32)
    assert not is_on_units(x @ x)
    assert {unit.name for unit in TARGET.rounding_units} == {"tf32"}


@pytest.mark.parametrize("device", ["CUDA"], indirect=True)
def test_reproducible_sums_are_not_left_to_matrix_units(device):
    with Context(REPRODUCIBLE=1):
        assert not Device[device].code_target.matrix_units
    assert Device[device].code_target is Device[device].target
