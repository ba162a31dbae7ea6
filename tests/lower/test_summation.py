"""Long sums of float32 are added up in parts, running totals in float64, and all is printed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Context, Tensor, dtypes
from treadle.engine.run import scheduled
from treadle.ir.choices import observing
from treadle.ir.loops import has_fixed_size, loop_size
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.ir.views import bound_of
from treadle.lower.passes import lower
from treadle.lower.summation import PART, SHORT_PART
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

TARGET = parse_target("x86-64-v3")
RANDOM = np.random.default_rng(5)


def filled(*shape, dtype="float32"):
    return Tensor(np.ones(shape, dtype)).realize()


def programs(tensor, target=TARGET):
    """The programs of all phases that compute `tensor`, each checked."""
    found = []
    for kernel in scheduled([(tensor.node, tensor.device)]):
        ast, _ = optimize(kernel.ast, target)
        found += lower(ast, len(kernel.buffers), target).phases
    for phase in found:
        verify_linear(phase.program)
    return [phase.program for phase in found]


def most_steps(loop):
    """Of a last part, which is shorter, as many as of the others; of loops without a size PART."""
    size = bound_of(loop)
    known = [n.arg for n in size.src if n.op is Op.CONST] if size.op is Op.MIN else []
    return loop_size(loop) if has_fixed_size(loop) else min(known, default=PART)


def rows(program):
    """How many numbers are added one after the other at most, for each float32 sum."""
    return {
        math.prod(map(most_steps, node.src[2:]))
        for node in program.src
        if node.op is Op.UPDATE
        and node.arg is Op.ADD
        and node.src[0].dtype.scalar is dtypes.float32
    }


def test_the_steps_of_a_matmul_are_added_in_equal_parts():
    assert {128, 8} in map(rows, programs(filled(64, 1024) @ filled(1024, 64)))


def test_a_number_of_steps_without_divisors_has_a_shorter_last_part():
    product = programs(filled(64, 1009) @ filled(1009, 64))[-1]
    sizes = [n.src[0] for n in product.src if n.op is Op.RANGE and n.arg.kind == "loop"]
    assert any(size.op is not Op.CONST for size in sizes)


def test_windows_of_an_image_are_added_in_parts():
    (product,) = filter(rows, programs(filled(2, 64, 20, 20).conv2d(filled(64, 64, 3, 3))))
    assert max(rows(product)) <= PART


def test_each_step_of_a_loop_whose_length_is_not_known_is_a_part():
    images = filled(2, 32, 28, 28).conv2d(filled(32, 32, 3, 3), padding=1)
    found = programs(images, parse_target("x86-64-v4"))
    (product,) = filter(rows, found)
    loops = [n for n in product.src if n.op is Op.RANGE and n.arg.kind == "loop"]
    assert any(not has_fixed_size(loop) for loop in loops)
    assert max(rows(product)) <= PART


def test_short_sums_that_take_all_registers_are_left_alone():
    product = filled(64, 128) @ filled(128, 64)
    assert {128} in map(rows, programs(product, parse_target("x86-64-v4")))


@pytest.mark.parametrize("steps", [40, 64, 100, 130, 160])
def test_short_sums_are_added_in_parts_where_there_are_registers(steps):
    found = [rows(program) for program in programs(filled(1, steps) @ filled(steps, 512))]
    assert max(max(one) for one in found if one) <= SHORT_PART


@pytest.mark.parametrize("arch", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_columns_in_many_registers_load_each_number_once_and_have_short_parts(arch):
    x = filled(130, 512)
    found = [rows(program) for program in programs(x - x.mean(0), parse_target(arch))]
    assert max(max(one) for one in found if one) <= SHORT_PART


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_tiles_of_workgroups_add_up_in_parts_slice_by_slice(arch):
    (program,) = programs(filled(512, 4096) @ filled(4096, 512), parse_target(arch))
    assert {128, 32} == rows(program)


def test_what_matrix_units_add_up_stays_whole():
    x, y = filled(64, 4096, dtype="float16"), filled(4096, 64, dtype="float16")
    (program,) = programs(x @ y, parse_target("sm_80"))
    assert any(node.op is Op.MMA for node in program.src)
    assert not any(node.op is Op.REGISTER and node.arg.part for node in program.src)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_other_types_are_left_alone(dtype):
    (program,) = programs(filled(64, 4096, dtype=dtype).sum(1))
    loops = [n for n in program.src if n.op is Op.RANGE and n.arg.kind == "loop"]
    assert len(loops) == 1


@pytest.mark.parametrize("steps", [161, 200, 1000, 1009, 4099, 70001])
@pytest.mark.parametrize(
    "device", ["CPU", "CPU:LLVM:x86-64-v2", "CPU:CLANG", "CL:0:OPENCL:gpu", "WEBGPU", "CUDA"]
)
def test_results_are_right_and_closer_than_those_of_one_long_row(steps, device):
    try:
        x = Tensor(RANDOM.standard_normal((5, steps)).astype("f"), device=device).realize()
    except Exception as error:
        pytest.skip(f"{device}: {error}")
    y = Tensor(RANDOM.standard_normal((steps, 40)).astype("f"), device=device)
    a, b = x.numpy().astype(np.float64), y.numpy().astype(np.float64)
    in_a_row = np.cumsum((a[:, :, None] * b[None]).astype("f"), axis=1, dtype="f")[:, -1]
    exact = a @ b
    error = np.sqrt(np.mean(((x @ y).numpy() - exact) ** 2))
    assert error < np.sqrt(np.mean((in_a_row - exact) ** 2))
    np.testing.assert_allclose(x.sum(1).numpy(), a.sum(1), rtol=1e-5, atol=1e-5 * steps**0.5)
    np.testing.assert_allclose(y.sum(0).numpy(), b.sum(0), rtol=1e-5, atol=1e-5 * steps**0.5)


@pytest.mark.parametrize("device", ["CPU", "CL:0:OPENCL:gpu", "WEBGPU", "CUDA"])
@pytest.mark.parametrize("rows", [4, 64])
def test_equal_terms_which_round_alike_are_off_by_little(rows, device):
    try:
        x = Tensor.full((rows, 4096), 0.3, device=device).contiguous().realize()
    except Exception as error:
        pytest.skip(f"{device}: {error}")
    y = Tensor.full((4096, rows), 0.7, device=device).contiguous().realize()
    with Context(CHECK_KERNELS=1):
        product, total = (x @ y).numpy(), x.sum(1).numpy()
    one, other = (np.float64(np.float32(n)) for n in (0.3, 0.7))
    np.testing.assert_allclose(product, 4096 * one * other, rtol=4e-6)  # in one row: 3e-5
    np.testing.assert_allclose(total, 4096 * one, rtol=4e-6)


@pytest.mark.parametrize(
    "device", ["CPU", "CPU:LLVM:x86-64-v3", "CPU:LLVM:x86-64-v2", "CPU:CLANG", "CL"]
)
@pytest.mark.parametrize("columns", [16, 64, 300])
def test_short_columns_of_equal_terms_are_off_by_less_than_in_a_row(columns, device):
    """The mean square of a column that hardly varies, by which normalisations divide."""
    values = (RANDOM.random(columns) + 0.5).astype("f")
    ours, in_a_row = [], []
    for steps in (100, 130, 160):
        x = np.broadcast_to(values, (steps, columns)).copy()
        try:
            found = Tensor(x, device=device).square().sum(0).numpy()
        except Exception as error:
            pytest.skip(f"{device}: {error}")
        exact = steps * values.astype(np.float64) ** 2
        one_by_one = np.cumsum(x * x, axis=0, dtype="f")[-1]
        ours.append(np.abs(found / exact - 1).max())
        in_a_row.append(np.abs(one_by_one / exact - 1).max())
    assert max(ours) < max(in_a_row) / 2


# -- running totals --------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "is_wide"), [(1, False), (5, True)])
def test_a_scan_of_one_step_has_no_total_to_keep_wide(steps: int, is_wide: bool) -> None:
    x = np.random.default_rng(0).standard_normal((3, steps, 4)).astype(np.float32)
    t = Tensor(x, device="CPU").realize()
    with observing() as seen:
        found = t.cumsum(1).numpy()
    np.testing.assert_allclose(found, x.cumsum(1), rtol=0, atol=1e-6)
    assert ("float64_scan" in seen.reached()) == is_wide


@pytest.mark.parametrize("arch", ["x86-64-v2", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize(
    ("scan", "total"),
    [
        pytest.param(Tensor.cumsum, dtypes.float64, id="sum"),
        pytest.param(Tensor.cumprod, dtypes.float64, id="product"),
        pytest.param(lambda x, axis: x.cummax(axis)[0], dtypes.float32, id="maximum"),
    ],
)
@pytest.mark.parametrize("shape", [(100, 4), (100, 256), (4, 100), (400, 100), (64, 1024)], ids=str)
def test_what_is_rounded_on_the_way_is_float64_in_every_schedule(shape, scan, total, arch):
    for axis in (0, 1):
        (program,) = programs(scan(filled(*shape), axis), parse_target(arch))
        kept = {n.dtype.scalar for n in program.src if n.op in (Op.REGISTER, Op.LOCAL)}
        assert kept == {total}


def test_totals_of_gpus_are_as_narrow_as_their_numbers():
    (program,) = programs(filled(100, 200).cumsum(1), parse_target("sm_80"))
    assert {n.dtype for n in program.src if n.op is Op.REGISTER} == {dtypes.float32}


def test_copies_of_a_total_that_add_one_value_are_right():
    x = RANDOM.standard_normal((100, 1)).astype("f")
    found = Tensor(x, device="CPU").expand(100, 48).cumsum(0).numpy()
    np.testing.assert_allclose(found, np.repeat(x.cumsum(0), 48, 1), rtol=0, atol=1e-5)
