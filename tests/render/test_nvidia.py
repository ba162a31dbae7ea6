"""Kernels for every NVIDIA architecture, through both compilers, as far as their assembler."""

import os
import re
from functools import cache

import numpy as np
import pytest

from treadle import Context, Device, Tensor, dtypes
from treadle.compile.nvrtc import NVRTCCompiler
from treadle.compile.ptx import PTXCompiler
from treadle.engine.realized import current
from treadle.errors import SettingError
from treadle.ir.elementwise import numpy_dtype
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.render.cuda import CUDARenderer
from treadle.render.ptx import PTXRenderer
from treadle.schedule.passes import schedule
from treadle.target import NVIDIA_ARCHITECTURES, parse_target

from .assembler import assembled, need, touches_sums
from .corpus import CORPUS, DEVICE, floats, whole
from .kernels import apply, elementwise, empty, run

RANDOM = np.random.default_rng(7)
FEW = ("formulas", "layer norm", "convolution bfloat16")
# One of each family gets all of it in short runs; the others get a few.
_EACH = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
FAMILIES = NVIDIA_ARCHITECTURES if "FULL_TESTS" in os.environ else _EACH


@cache
def phases(program, arch):
    """The linear programs of one program of the corpus."""
    target, found = parse_target(arch), []
    for kernel in schedule(current([CORPUS[program]().node])[0], "CPU", target)[0]:
        ast, _ = optimize(kernel.ast, target)
        found += lower(ast, len(kernel.buffers), target).phases
    return found


@cache
def lowered_for(arch):
    """What an architecture is tested with; those that convert the same types get the same."""
    alike = "sm_75" if arch == "sm_75" else "sm_80"
    programs = CORPUS if arch in FAMILIES else FEW
    return [phase for program in programs for phase in phases(program, alike)]


@pytest.mark.parametrize("arch", NVIDIA_ARCHITECTURES)
def test_nvrtc_makes_machine_code_of_every_kernel(arch):
    target = parse_target(arch)
    compiler = need(NVRTCCompiler(target, "cubin"))
    source = CUDARenderer(target).render("k", lowered_for(arch), ())
    assert compiler.compile(source).startswith(b"\x7fELF")


@pytest.mark.parametrize("arch", NVIDIA_ARCHITECTURES)
def test_ptx_of_the_embedded_llvm_assembles(arch, tmp_path):
    target = parse_target(arch)
    ptx = PTXCompiler(target).compile(PTXRenderer(target).render("k", lowered_for(arch), ()))
    figures = assembled(ptx, arch, tmp_path)
    assert sorted(figures) == list(range(len(lowered_for(arch))))
    for kernel, (registers, shared, spilled) in figures.items():
        assert registers * lowered_for(arch)[kernel].work_items <= 1 << 15  # half of what there is
        assert shared <= 48 << 10
        assert spilled <= 32  # for sm_100a ptxas spills a little of doubles, though it has room


def _of_float32(rows, columns, steps):
    """In each layout."""
    a, b, c, d = (floats(*n) for n in ((rows, steps), (steps, rows), (steps, columns),
                                       (columns, steps)))  # fmt: skip
    return [a @ c, a @ d.T, b.T @ c, b.T @ d.T]


@cache
def phases_for_warpgroups():
    """Products that wgmma makes: in bulk, turned, by copies, of bytes, of float32, held."""
    make = lambda *shape, dtype=dtypes.bfloat16: floats(*shape, dtype=dtype)
    x = make(4096, 128)
    products = [
        x @ make(4096, 128).T, make(128, 4096).T @ make(128, 2048),
        make(512, 130) @ make(130, 1000), (make(3, 512, 128) @ make(3, 128, 512)).relu(),
        make(512, 256, dtype=dtypes.fp8e4m3) @ make(512, 256, dtype=dtypes.fp8e4m3).T,
        whole(512, 256, dtype=dtypes.int8) @ whole(512, 256, dtype=dtypes.int8).T,
        make(512, 128, dtype=dtypes.float32) @ make(512, 128, dtype=dtypes.float32).T,
        *_of_float32(4096, 4096, 64), x @ make(128, 4096), (x @ make(128, 4096)).float().relu(),
    ]  # fmt: skip
    with Context(ALLOW_TF32=1):
        target, found = Device["NULL:PTX:sm_90a"].code_target, []
    for product in products:
        (kernel,) = schedule(current([product.node])[0], "CPU", target)[0]
        found += lower(optimize(kernel.ast, target)[0], len(kernel.buffers), target).phases
    return found


BOTH = pytest.mark.parametrize(
    ("renderer", "compiler"), [(CUDARenderer, NVRTCCompiler), (PTXRenderer, PTXCompiler)]
)


@BOTH
def test_totals_of_a_large_tile_leave_registers_for_a_second_workgroup(
    renderer, compiler, tmp_path
):
    """They are of use once in a part of a long sum, and wait in memory of the work item."""
    target, product = parse_target("sm_80"), floats(2048, 512) @ floats(512, 2048)
    (kernel,) = schedule(current([product.node])[0], "CPU", target)[0]
    (phase,) = lower(optimize(kernel.ast, target)[0], len(kernel.buffers), target).phases
    ptx = need(compiler(target)).compile(renderer(target).render("k", [phase], ())).rstrip(b"\0")
    ((registers, _, spilled),) = assembled(ptx, "sm_80", tmp_path).values()
    sums = sum(node.op is Op.REGISTER for node in phase.program.src) // 2
    assert sums == 64
    assert registers * phase.work_items <= 1 << 15
    assert spilled <= 2 * 4 * sums


@BOTH
def test_products_by_warpgroups_keep_to_their_registers(renderer, compiler, tmp_path):
    target, found = parse_target("sm_90a"), phases_for_warpgroups()
    text = renderer(target).render("k", found, ())
    ptx = need(compiler(target)).compile(text).rstrip(b"\0")
    figures = assembled(ptx, "sm_90a", tmp_path)
    assert sorted(figures) == list(range(len(found)))
    for kernel, (registers, _, spilled) in figures.items():
        assert registers * found[kernel].launched <= 1 << 16
        assert not spilled
    assert "setmaxnreg.inc" in ptx.decode()
    for kind in ("f32.bf16", "f32.e4m3", "s32.s8", "f32.tf32"):
        assert re.search(rf"wgmma\.mma_async\.sync\.aligned\.m64n\d+k\d+\.{kind}", ptx.decode())
    assert "cp.async.bulk.tensor.3d" in ptx.decode()  # matrices of a batch


@BOTH
def test_sums_are_not_read_before_they_are_there(renderer, compiler, tmp_path):
    """Assemblers know of the wait, but did put instructions before it that they made of two."""
    text = renderer(parse_target("sm_90a")).render("k", phases_for_warpgroups(), ())
    ptx = need(compiler(parse_target("sm_90a"))).compile(text).rstrip(b"\0")
    assembled(ptx, "sm_90a", tmp_path)
    found = touches_sums(tmp_path)
    assert len(found) == len(phases_for_warpgroups())
    assert not any(found.values())


@cache
def phases_of_attention(arch):
    """Causal attention with as many columns as q's words stay in registers for, and at most."""
    target, found = parse_target(arch), []
    for width in (64, 128):
        q, k, v = (Tensor.zeros(16, 2048, width, dtype=dtypes.bfloat16) for _ in range(3))
        q, k, v = (t.contiguous().realize() for t in (q, k, v))
        result = q.scaled_dot_product_attention(k, v, is_causal=True)
        (kernel,) = schedule(current([result.node])[0], "CPU", target)[0]
        found += lower(optimize(kernel.ast, target)[0], len(kernel.buffers), target).phases
    return found


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@BOTH
def test_attention_keeps_to_its_registers(renderer, compiler, arch, tmp_path):
    target = parse_target(arch)
    text = renderer(target).render("k", phases_of_attention(arch), ())
    ptx = need(compiler(target)).compile(text).rstrip(b"\0")
    figures = assembled(ptx, arch, tmp_path)
    assert sorted(figures) == [0, 1]
    assert not figures[0][2]
    # Addresses that a tile of 64 keys reads once. Tiles of 32 take a fifth more instructions.
    assert figures[1][2] <= (128 if arch == "sm_90a" else 0)
    assert "ex2.approx" in ptx.decode()


def ptx_of(program, renderer, compiler, contract):
    target = parse_target("sm_80")
    text = renderer(target, contract).render("k", phases(program, "sm_80"), ())
    return need(compiler(target)).compile(text).decode()


@BOTH
def test_products_fuse_with_sums_only_where_that_is_allowed(renderer, compiler):
    assert "fma.rn.f32" in ptx_of("matmul", renderer, compiler, True)
    strict = ptx_of("matmul", renderer, compiler, False)
    assert "fma" not in strict
    assert "mul.rn.f32" in strict  # without .rn the assembler may fuse


def test_matmuls_read_and_add_in_turns():
    """A step of 8 x 8 products a work item has little else to do: two at a time share the rest."""
    text = ptx_of("large matmul", PTXRenderer, PTXCompiler, True)
    assert text.count("fma.rn.f32") == 2 * 64


@BOTH
def test_floats_are_those_of_ieee_754(renderer, compiler):
    text = ptx_of("arithmetic float32", renderer, compiler, True)
    assert {"div.rn.f32", "sqrt.rn.f32"} <= set(re.findall(r"(?:div|sqrt)[.\w]*", text))
    assert ".ftz" not in text
    assert ".approx" not in text


@BOTH
def test_aligned_memory_is_read_and_written_in_whole_vectors(renderer, compiler):
    text = ptx_of("arithmetic float32", renderer, compiler, True)
    assert re.search(r"ld\.global\.nc\.v4", text)
    assert re.search(r"st\.global\.v4", text)
    halves = ptx_of("arithmetic float16", renderer, compiler, True)
    assert re.search(r"ld\.global\.nc\.v4\.[bu]32", halves)  # eight of them


VALUES = (
    "arithmetic bfloat16", "arithmetic fp8e4m3", "arithmetic int64", "sums bool", "sums float16",
    "casts", "shifted", "softmax", "argmax", "sort float16", "scatter", "matmul",
    "convolution bfloat16",
)  # fmt: skip


@pytest.mark.parametrize("program", VALUES)
def test_values_are_those_of_the_processor(cuda, program):
    expected = CORPUS[program]().realize()
    token = DEVICE.set(cuda.name)
    try:
        ours = CORPUS[program]().realize().to("CPU")
    finally:
        DEVICE.reset(token)
    wide = dtypes.float64 if expected.dtype.is_float else expected.dtype
    tolerance = 1e-2 if expected.dtype.bits < 32 else 1e-5
    right = expected.cast(wide).numpy()
    # Sums in another order are off by a part of their terms, not of what is left of these.
    largest = max(1.0, float(np.abs(right[np.isfinite(right)]).max(initial=0)))
    np.testing.assert_allclose(
        ours.cast(wide).numpy(), right, rtol=tolerance, atol=tolerance * largest
    )


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.float16, dtypes.float32])
def test_memory_may_begin_at_any_element(cuda, dtype):
    ast = elementwise([dtype], [dtype], lambda x: [x + x], 64, lanes=8 if dtype.bits < 32 else 4)
    given = np.arange(64).astype(numpy_dtype(dtype))
    for offset in (0, dtype.itemsize):
        ours = run(cuda, ast, [empty(dtype, 64), given], offset=offset)[0]
        np.testing.assert_array_equal(ours, given + given)


def test_of_two_products_the_first_is_fused_with_the_other(cuda):
    kind = dtypes.float32
    a, b, c, d = (np.float32(1 + n) + RANDOM.random(64, np.float32) for n in range(4))
    function = lambda a, b, c, d: [a * b + c * d, a * b - c * d, -3.0 - a * b, (a * b) * -1.0]
    given = [(kind, array) for array in (a, b, c, d)]
    ours = apply(cuda, function, [kind] * 4, given, lanes=4)
    x, y = (array.astype(np.float64) for array in (a, b))  # exact in the product
    second = (c * d).astype(np.float64)
    expected = [x * y + second, x * y - second, -3.0 - x * y, -(x * y)]
    for found, exact in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(found, exact.astype(np.float32))


@pytest.mark.parametrize("compiler", ["NVRTC", "PTX"])
def test_whole_programs_compile_for_any_architecture_without_a_gpu(compiler):
    device = f"NULL:{compiler}:sm_90a"
    x = Tensor.empty(64, 64, device=device, dtype=dtypes.bfloat16)
    (x @ x).softmax().realize()
    assert Device[device].target.cpu == "sm_90a"


@pytest.mark.parametrize("device", ["CPU:LLVM:sm_90", "NULL:LLVM:sm_90", "NULL:PTX:x86_64"])
def test_architectures_belong_to_their_compilers(device):
    with pytest.raises(SettingError, match=r"no processor's architecture|unknown NVIDIA"):
        Device[device]
