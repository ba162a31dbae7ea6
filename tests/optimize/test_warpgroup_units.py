"""Matmuls on units of warpgroups: when they are, how slices get there, and the values."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from treadle import Context, Device, Tensor, TinyJit, dtypes
from treadle.compile.nvrtc import NVRTCCompiler
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel, verify_linear
from treadle.lower.passes import lower
from treadle.optimize import warpgroup_units
from treadle.target import parse_target

from .references import kernel, on_device_and_exactly

TARGET = parse_target("sm_90a")
DEVICES = ["CUDA:NVRTC:sm_90a", "CUDA:PTX:sm_90a"]
RANDOM = np.random.default_rng(5)


def numbers(*shape, dtype=dtypes.bfloat16, device="CPU"):
    values = RANDOM.integers(-2, 3, shape).astype(np.float32)
    return Tensor(values, device=device).cast(dtype).realize()


def ops(tensor, target=TARGET):
    return {n.op for n in kernel(tensor, target)[1].toposort()}


def test_products_of_bytes_and_of_float32_where_that_is_allowed():
    for dtype in (dtypes.fp8e4m3, dtypes.fp8e5m2):
        x = numbers(128, 128, dtype=dtype)
        assert Op.WGMMA in ops(x @ x.T)
    for dtype in (dtypes.int8, dtypes.uint8):
        x = numbers(128, 128, dtype=dtype)
        assert Op.WGMMA in ops(x @ x.T)
        assert Op.WGMMA in ops(x.cast(dtypes.int32) @ x.cast(dtypes.int32))
        assert Op.WGMMA not in ops(x.cast(dtypes.int64) @ x.cast(dtypes.int64))
    x = numbers(128, 128, dtype=dtypes.float32)
    assert Op.WGMMA not in ops(x @ x)
    assert Op.WGMMA not in ops(numbers(128, 128, dtype=dtypes.float64) @ x.double())
    with Context(ALLOW_TF32=1):
        assert Op.WGMMA in ops(x @ x, Device["NULL:PTX:sm_90a"].code_target)


def phase_of(tensor):
    found, ast, _ = kernel(tensor, TARGET)
    verify_kernel(ast)
    (phase,) = lower(ast, len(found.buffers), TARGET).phases
    verify_linear(phase.program)
    return phase


def test_what_is_large_enough_is_multiplied_by_warpgroups():
    for dtype in (dtypes.float16, dtypes.bfloat16):
        assert Op.WGMMA in ops(numbers(128, 128, dtype=dtype) @ numbers(128, 128, dtype=dtype))
    x, y = numbers(128, 128), numbers(128, 128)
    assert Op.WGMMA in ops((x.relu() @ y.T).gelu())
    assert Op.WGMMA not in ops(x @ y, parse_target("sm_90"))
    assert Op.WGMMA not in ops(x @ y, parse_target("sm_100a"))
    assert Op.MMA in ops(numbers(32, 128) @ y)


@pytest.mark.parametrize(
    ("size", "tile"), [(512, (64, 64)), (2048, (128, 256)), (4096, (128, 256))]
)
def test_tiles_fill_the_processor(size, tile):
    *_, log = kernel(numbers(size, 64) @ numbers(64, size), TARGET)
    (move,) = log.of_kind(warpgroup_units.TileForWarpgroups)
    assert (move.tile.rows, move.tile.columns) == tile


def test_tensors_are_copied_in_bulk_by_a_producer():
    phase = phase_of(numbers(2, 136, 128) @ numbers(2, 128, 72))
    assert phase.producer is not None
    verify_linear(phase.producer)
    assert phase.launched == phase.work_items + 128
    (_, one), (_, other) = phase.boxes
    assert {one.shape, other.shape} == {(128, 136, 2), (72, 128, 2)}


def matrices(layout, rows, columns, steps, dtype=dtypes.float32, device="CPU"):
    """Both factors, "n" as their shapes say or "t" the other way round in memory."""
    given = []
    for turned, shape in zip(layout, ((rows, steps), (steps, columns)), strict=True):
        x = numbers(*(shape[::-1] if turned == "t" else shape), dtype=dtype, device=device)
        given.append(x.T if turned == "t" else x)
    return given


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_float32_of_any_layout_is_copied_in_bulk(layout):
    with Context(ALLOW_TF32=1):
        target = Device["NULL:PTX:sm_90a"].code_target
    x, y = matrices(layout, 1024, 1024, 128)
    found, ast, log = kernel(x @ y, target)
    *before, phase = lower(ast, len(found.buffers), target).phases
    assert phase.producer is not None
    assert len(before) == (layout == "tn")  # one of them is turned in memory first
    (move,) = log.of_kind(warpgroup_units.TileForWarpgroups)
    assert move.is_swapped == (layout == "nn")
    (product,) = (n for n in phase.program.src if n.op is Op.WGMMA)
    assert (product.arg.x is None) == (layout != "nt")
    for program in (phase.program, phase.producer):
        verify_linear(program)


@pytest.mark.parametrize("make", [
    lambda: numbers(128, 130).T @ numbers(128, 128),  # columns of 260 bytes
    lambda: numbers(128, 132)[:, :130] @ numbers(130, 128),  # rows of 264 bytes
    lambda: numbers(128, 136)[:, 1:129] @ numbers(128, 128),  # begins at byte 2
    lambda: numbers(128, 64) @ numbers(64, 128),  # one slice
])  # fmt: skip
def test_what_no_tensor_map_describes_is_stored_by_the_work_items(make):
    phase = phase_of(make())
    assert phase.producer is None
    assert any(n.op is Op.WGMMA for n in phase.program.src)


CASES = {
    "whole tiles": lambda t: t(128, 128) @ t(128, 128),
    "tails of everything": lambda t: t(130, 136) @ t(136, 72),
    "columns of both": lambda t: t(136, 72).T @ t(80, 136).T,
    "batches and an epilogue": lambda t: (t(2, 72, 128) @ t(2, 128, 64)).relu() + t(64),
    "stored slices": lambda t: t(66, 130) @ t(130, 70),
    "stored columns of both": lambda t: t(130, 66).T @ t(70, 130).T,
    "convolution": lambda t: t(1, 16, 9, 11).conv2d(t(64, 16, 3, 3), padding=1),
}


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_values_are_exact_where_integers_are(name, device):
    np.testing.assert_array_equal(*on_device_and_exactly(CASES[name], device, RANDOM))


WIDE = {dtypes.int8: dtypes.int32, dtypes.uint8: dtypes.int32}


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize(("name", "turned"), [
    ("float16", True), ("fp8e4m3", True), ("fp8e5m2", True), ("int8", True), ("uint8", True),
    ("float32", True), ("float32", False),
])  # fmt: skip
def test_values_of_every_dtype(name, turned, device):
    dtype = getattr(dtypes, name)
    low = 0 if dtype is dtypes.uint8 else -3
    x, y = (RANDOM.integers(low, 4, shape).astype(np.float32) for shape in ((72, 272), (272, 64)))
    a = Tensor(x, device=device).cast(dtype).realize()
    b = Tensor(y.T.copy() if turned else y, device=device).cast(dtype).realize()
    wide = WIDE.get(dtype, dtypes.float32)
    with Context(ALLOW_TF32=1):
        product = a.cast(wide) @ (b.T if turned else b).cast(wide)
        np.testing.assert_array_equal(product.numpy(), x @ y)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_buffers_are_used_again(layout, dtype, device, monkeypatch):
    """Eleven slices go through four buffers while products of two are under way."""
    monkeypatch.setattr(warpgroup_units, "ENOUGH", 64)
    steps = 11 * 128 // getattr(dtypes, dtype).itemsize
    x, y = matrices(layout, 136, 72, steps, getattr(dtypes, dtype), device)
    expected = x.float().numpy() @ y.float().numpy()
    with Context(ALLOW_TF32=1):
        np.testing.assert_array_equal((x.float() @ y.float()).numpy(), expected)
        np.testing.assert_array_equal((x.float() @ y.float()).T.contiguous().numpy(), expected.T)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_what_is_turned_first_may_end_anywhere(device, monkeypatch):
    """Matrices of a batch, in a captured call as well."""
    monkeypatch.setattr(warpgroup_units, "ENOUGH", 64)
    x, y = (numbers(3, 132, n, dtype=dtypes.float32, device=device) for n in (72, 80))
    expected = np.swapaxes(x.numpy(), 1, 2) @ y.numpy()
    with Context(ALLOW_TF32=1):
        multiply = TinyJit(lambda a, b: (a.transpose(1, 2) @ b).realize())
        for _ in range(3):
            np.testing.assert_array_equal(multiply(x, y).numpy(), expected)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("name", ["bfloat16", "float32", "fp8e4m3", "int8"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_what_begins_anywhere_is_packed(layout, name, device, monkeypatch):
    """Rows of 131 or 73 elements, which no copy engine brings."""
    monkeypatch.setattr(warpgroup_units, "ENOUGH", 64)
    dtype = getattr(dtypes, name)
    x, y = matrices(layout, 73, 81, 131, dtype, device)
    wide = WIDE.get(dtype, dtypes.float32)
    expected = x.float().numpy() @ y.float().numpy()
    with Context(ALLOW_TF32=1):
        np.testing.assert_array_equal((x.cast(wide) @ y.cast(wide)).numpy(), expected)


def test_what_is_packed_is_copied_in_bulk():
    for shape in ((1000, 999, 1001), (1000, 256, 1000)):
        rows, steps, columns = shape
        dtype = dtypes.bfloat16 if steps == 999 else dtypes.fp8e4m3
        x, y = matrices("nn", rows, columns, steps, dtype)
        found, ast, _ = kernel(x @ y, TARGET)
        *before, phase = lower(ast, len(found.buffers), TARGET).phases
        assert len(before) == (2 if steps == 999 else 1)
        assert phase.producer is not None


TOO_EARLY = """
from treadle import Tensor, dtypes
from treadle.render import cuda_text
text, wait = cuda_text.instructions, "wgmma.wait_group.sync.aligned {};"
cuda_text.instructions = lambda *given: [
    line.replace(wait.format(1), wait.format(2)) for line in text(*given)
]
x = Tensor.ones(128, 704, device="CUDA:NVRTC:sm_90a", dtype=dtypes.bfloat16).contiguous()
(x @ x.T).numpy()
"""


def test_buffers_that_units_still_read_are_not_filled():
    """With one product more under way than "empty" allows for, the emulator objects."""
    missing = NVRTCCompiler(TARGET).available()
    if missing:
        pytest.skip(missing)
    environment = os.environ | {"EMULATE": "1", "CACHE": "0"}
    command = [sys.executable, "-c", TOO_EARLY]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "of shared memory that a wgmma or bulk copy of warp 0 may still read" in done.stderr


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("layout", ["nt", "nn", "tn"], ids=["bulk", "held", "stored"])
def test_float32_is_rounded_to_the_nearest_tf32(layout, device):
    """Units cut it off, which would make each product of positive numbers smaller."""
    x, y = (RANDOM.random(shape, np.float32) + 0.5 for shape in ((64, 256), (256, 64)))

    def product():
        a, b = (
            Tensor(data.T.copy(), device=device).realize().T
            if turned == "t"
            else Tensor(data, device=device).realize()
            for turned, data in zip(layout, (x, y), strict=True)
        )
        with Context(ALLOW_TF32=1):
            return (a @ b).numpy()

    found = product()
    error = found / (x.astype(np.float64) @ y) - 1
    assert abs(error.mean()) < 1e-5, "cut off, it is -5e-4"
    assert abs(error).max() < 2e-4
    x[3, 5] = np.nan
    found = product()
    assert np.isnan(found[3]).all()
    assert np.isfinite(found[:3]).all()


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_sums_of_small_integers_wrap(device):
    x = RANDOM.integers(-128, 128, (64, 128)).astype(np.int8)
    given = Tensor(x, device=device)
    expected = (x.astype(np.int64) @ x.T.astype(np.int64)).astype(np.int8)
    np.testing.assert_array_equal((given @ given.T).numpy(), expected)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_memory_that_is_not_aligned_is_copied_for_the_launch(device):
    """Alone and in a captured call, where a graph has no place for that."""
    data = (np.arange(128 * 128 + 1) % 5 - 2).astype(ml_dtypes.bfloat16)
    opened = Device[device]
    memory = opened.allocator.alloc(data.nbytes)
    opened.runtime.write(memory, memoryview(data.view(np.uint8)))
    begin = memory.argument + data.itemsize
    x = Tensor.from_blob(begin, (128, 128), dtypes.bfloat16, device, owner=memory)
    y = numbers(128, 128, device=device)
    expected = x.float().numpy() @ y.float().numpy()
    np.testing.assert_array_equal((x @ y).float().numpy(), expected)
    multiply = TinyJit(lambda a, b: (a @ b).float().realize())
    for _ in range(4):
        np.testing.assert_array_equal(multiply(x, y).numpy(), expected)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_a_captured_call_follows_its_arguments(device):
    given = [numbers(128, 128, device=device) for _ in range(4)]
    multiply = TinyJit(lambda a, b: (a @ b).float().realize())
    for x in given:
        expected = x.float().numpy() @ given[0].float().numpy()
        np.testing.assert_array_equal(multiply(x, given[0]).numpy(), expected)


@pytest.mark.parametrize("device", DEVICES[:1], indirect=True)
def test_reproducible_sums_are_not_left_to_warpgroups(device):
    with Context(REPRODUCIBLE=1):
        assert not Device[device].code_target.warpgroup_units
