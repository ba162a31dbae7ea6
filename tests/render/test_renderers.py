"""Both renderers and both compilers against the interpreter, and what the text looks like."""

import itertools
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.compile.clang import ClangCompiler, clang_target
from treadle.compile.llvm import LLVMCompiler
from treadle.dtype import _to_np_dtype
from treadle.engine.memory import read
from treadle.engine.realized import current
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.ir.shape import size_product
from treadle.ir.verify import verify_linear
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.render.c import CRenderer
from treadle.render.llvm import LLVMRenderer
from treadle.render.opencl import OpenCLRenderer
from treadle.render.wgsl import WGSLRenderer
from treadle.runtime.cpu import CpuDevice, Entry, Launch, Phase
from treadle.schedule.passes import schedule
from treadle.target import Workgroup, host_target, parse_target

RNG = np.random.default_rng(0)
A = RNG.standard_normal((100, 70)).astype(np.float32)
B = RNG.standard_normal((70, 130)).astype(np.float32)
PIXELS = RNG.standard_normal((1, 6, 7, 20)).astype(np.float32)
WINDOW = RNG.standard_normal((24, 20, 3, 3)).astype(np.float32)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e10, -1e10, 300.7, -1.5], np.float32)

PROGRAMS = {
    "tail": lambda t: t(A[:, :37]) * 2 + 1,
    "softmax": lambda t: t(A).softmax(),
    "matmul": lambda t: t(A) @ t(B),
    "row sums": lambda t: t(A).sum(axis=1),
    "column maxima": lambda t: t(A).max(axis=0),
    "long sum": lambda t: t(np.abs(np.tile(A, (20, 1)))).sum(),
    "argmax": lambda t: t(A).argmax(axis=1),
    "prefix sums": lambda t: t(A).cumsum(axis=1),
    "transposed": lambda t: t(A).T.contiguous(),
    "bool": lambda t: ((t(A) > 0) & (t(A) < 1)) | (t(A).isnan()),
    "any": lambda t: (t(A) > 2).any(axis=1),
    "int8": lambda t: t(np.arange(-100, 100).astype(np.int8)) * 3,
    "uint64": lambda t: t(np.arange(50).astype(np.uint64) << 58) // 7,
    "floor division": lambda t: t(np.arange(-20, 20)) // 3 + t(np.arange(-20, 20)) % -7,
    "float16": lambda t: (t(A.astype(np.float16)) * 1.5).sum(axis=1),
    "bfloat16": lambda t: t(A).cast(dtypes.bfloat16) + 1,
    "float to int": lambda t: t(SPECIAL).cast(dtypes.int32),
    "float to uint8": lambda t: t(SPECIAL).cast(dtypes.uint8),
    "maximum with nan": lambda t: t(SPECIAL).maximum(t(SPECIAL[::-1].copy())),
    "gather with positions outside": lambda t: t(A)[t(np.array([0, 99, 5], np.int32))],
    "scatter": lambda t: t(np.zeros(5, np.float32)).scatter_reduce(
        0, t(np.array([0, 2, 2, 4], np.int32)), t(np.ones(4, np.float32)), "sum"
    ),
    "an image with borders": lambda t: t(PIXELS).permute(0, 3, 1, 2).conv2d(t(WINDOW), padding=1),
    "borders of halves": lambda t: (
        t(PIXELS.astype(np.float16))
        .permute(0, 3, 1, 2)
        .conv2d(t(WINDOW.astype(np.float16)), padding=1)
    ),
    "transcendentals": lambda t: t(A).sin() + t(A).exp() + (t(A).abs() + 0.1).log() + t(A).erf(),
}


def make(array, device="CPU"):
    return Tensor(array, device=device).realize()


def compiled_value(tensor, target, renderer, compiler):
    """`tensor` computed through these very stages, each checked by the verifier."""
    device = CpuDevice("CPU", target, LLVMCompiler(host_target()).compile)
    roots = current([tensor.node])[0]
    kernels, outputs = schedule(roots, "CPU")
    memory, keep = {}, []

    def address(buffer):
        if buffer.op is Op.BUFFER:
            keep.append(read(buffer.arg))
            return keep[-1].ctypes.data
        size = max(1, size_product(buffer.shape))
        memory.setdefault(buffer, np.zeros(size, _to_np_dtype(buffer.dtype)))
        return memory[buffer].ctypes.data

    for kernel in kernels:
        ast, _ = optimize(kernel.ast, target)
        lowered = lower(ast, len(kernel.buffers), target)
        for phase in lowered.phases:
            verify_linear(phase.program)
        code = compiler.compile(renderer.render("k", lowered.phases, lowered.variables))
        entries = [Entry(f"k_{i}", 1) for i in range(len(lowered.phases))]
        library = device.load(code, entries)
        arguments = [address(b) for b in kernel.buffers]
        for scratch in lowered.scratch:
            keep.append(np.zeros(scratch.arg.size, _to_np_dtype(scratch.dtype)))
            arguments.append(keep[-1].ctypes.data)
        phases = [
            Phase(library.address(f"k_{i}"), loop_size(*p.grid), 1)
            for i, p in enumerate(lowered.phases)
        ]
        device.run([Launch(phases, arguments)])
    return memory[outputs[0]].reshape(tensor.shape)


def check(name, target, renderer, compiler):
    ours = compiled_value(PROGRAMS[name](make), target, renderer, compiler)
    expected = PROGRAMS[name](lambda array: make(array, "REF")).numpy()
    tolerance = 2e-2 if ours.dtype.itemsize == 2 and ours.dtype.kind != "i" else 2e-5
    np.testing.assert_allclose(
        ours.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
    )


LEVELS = ["native", "x86-64-v2", "x86-64-v3"]


def target_of(level):
    if level == "native":
        return host_target()
    if host_target().arch != "x86_64":
        pytest.skip(f"{level} code needs an x86-64 processor")
    return parse_target(level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_llvm_code_for_each_level_gives_what_the_interpreter_gives(name, level):
    target = target_of(level)
    renderer = LLVMRenderer(triple=target.triple, vector_bits=8 * target.vector_bytes)
    check(name, target, renderer, LLVMCompiler(target))


@pytest.mark.parametrize("name", PROGRAMS)
def test_c_code_through_clang_gives_what_the_interpreter_gives(name):
    target = clang_target(host_target())
    compiler = ClangCompiler(target)
    missing = compiler.available()
    if missing:
        pytest.skip(missing)
    check(name, target, CRenderer(), compiler)


def test_code_for_another_architecture_assembles():
    target = parse_target("aarch64")
    tensor = PROGRAMS["matmul"](make)
    for kernel in schedule(current([tensor.node])[0], "CPU")[0]:
        ast, _ = optimize(kernel.ast, target)
        lowered = lower(ast, len(kernel.buffers), target)
        source = LLVMRenderer(triple=target.triple, vector_bits=128).render(
            "k", lowered.phases, lowered.variables
        )
        assert "fmla" in LLVMCompiler(target).assembly(source)


def test_a_maximum_is_one_instruction_beside_what_keeps_nan():
    target = parse_target("x86-64-v4")
    renderer = LLVMRenderer(triple=target.triple, vector_bits=512)
    rows = Tensor.ones(64, 1024, device="CPU").realize()
    assembly = LLVMCompiler(target).assembly(sources(rows.max(1), renderer, target))
    assert assembly.count("vmaxps\t%zmm") >= 4
    assert "vcmpunord" in assembly
    assert "vcmplt" not in assembly


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_accumulators_stay_in_registers(level):
    """Masks of borders are computed before and behind the loop over a window's steps."""
    target = parse_target(level)
    renderer = LLVMRenderer(
        triple=target.triple, vector_bits=8 * target.vector_bytes,
        registers=target.vector_registers,
    )  # fmt: skip
    x, w = Tensor.empty(8, 3, 224, 224, device="CPU"), Tensor.empty(64, 3, 7, 7, device="CPU")
    conv = x.realize().conv2d(w.realize(), stride=2, padding=3)
    assembly = LLVMCompiler(target).assembly(sources(conv, renderer, target))
    blocks = [block.splitlines() for block in re.split(r"^[.\w]+:", assembly, flags=re.MULTILINE)]
    product = r"\tv?(fmadd|mulps)"
    hot = [block for block in blocks if sum(bool(re.match(product, line)) for line in block) > 7]
    assert hot
    for line in itertools.chain(*hot):
        assert not re.search(r"\(%r[sb]p\).*mm|mm.*\(%r[sb]p\)", line), line


def sources(tensor, renderer, target=None):
    target = target or parse_target("x86-64-v3")
    kernel, *_ = schedule(current([tensor.node])[0], "CPU")[0]
    ast, _ = optimize(kernel.ast, target)
    lowered = lower(ast, len(kernel.buffers), target)
    return renderer.render("k", lowered.phases, lowered.variables)


@pytest.mark.parametrize("kind", ["ll", "c"])
def test_the_text_of_a_small_kernel_is_as_recorded(kind, golden):
    target = parse_target("x86-64-v3")
    renderer = (
        CRenderer()
        if kind == "c"
        else LLVMRenderer(triple="x86_64-unknown-linux-gnu", vector_bits=8 * target.vector_bytes)
    )
    golden(f"scaled_row_sum.{kind}", sources((make(A) * 2).sum(axis=1), renderer))


OPENCL = replace(parse_target("x86-64-v3"), max_lanes=8, short_indices=True)
WGSL = replace(
    OPENCL, vector_bytes=16, max_lanes=4, index_bits=32, max_buffers=8, workgroup=Workgroup(64),
    strict_floats=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "renderer"), [("cl", OpenCLRenderer(OPENCL)), ("wgsl", WGSLRenderer(WGSL))]
)
def test_the_text_of_a_small_kernel_for_a_device_is_as_recorded(kind, renderer, golden):
    golden(f"scaled_row_sum.{kind}", sources((make(A) * 2).sum(axis=1), renderer, renderer.target))
    shifted = make(np.arange(64, dtype=np.int32)) * 3 + 2**31 - 1
    golden(f"wrapping.{kind}", sources(shifted.cast(dtypes.int64), renderer, renderer.target))


def test_memory_accessed_in_whole_vectors_is_bound_as_vectors(golden):
    rows, row = make(A[:, :68].copy()), make(A[0, :68].copy())
    golden("vectors.wgsl", sources(rows * row + 1, WGSLRenderer(WGSL), WGSL))
    odd = sources(make(A[:99, :67].copy()) + 1, WGSLRenderer(WGSL), WGSL)
    words = sources(make(np.arange(64, dtype=np.int64)) + 1, WGSLRenderer(WGSL), WGSL)
    narrow = sources(make(np.arange(64, dtype=np.int8)) + 1, WGSLRenderer(WGSL), WGSL)
    assert "array<vec4" not in odd + words + narrow


def with_subgroups(target, least, most):
    workgroup = replace(target.workgroup or Workgroup(64), subgroup=(least, most))
    return replace(target, workgroup=workgroup)


@pytest.mark.parametrize(
    ("name", "renderer"),
    [
        ("fixed.wgsl", WGSLRenderer(with_subgroups(WGSL, 32, 32))),
        ("counted.wgsl", WGSLRenderer(with_subgroups(WGSL, 8, 32))),
        ("fixed.cl", OpenCLRenderer(with_subgroups(OPENCL, 16, 16))),
    ],
)
def test_the_text_of_reductions_by_subgroups_is_as_recorded(name, renderer, golden):
    x, target = make(A), renderer.target
    texts = [
        sources(value, renderer, target)
        for value in (x.sum(axis=1), x.max(axis=1), (x > 0).all(axis=1), x.cast("int8").sum(axis=1))
    ]
    golden(f"subgroups_{name}", "\n".join(texts))


def test_subgroups_are_left_alone_by_what_they_cannot_combine():
    renderer = WGSLRenderer(with_subgroups(WGSL, 32, 32))
    for value in (make(A).prod(axis=1), make(A).cast("int64").sum(axis=1)):
        assert "subgroup" not in sources(value, renderer, renderer.target)


def test_without_contraction_no_operation_may_be_fused():
    plain = LLVMRenderer(triple="x86_64-unknown-linux-gnu", vector_bits=256, contract=False)
    assert "contract" not in sources(make(A) * 2 + 1, plain)
    assert "contract(off)" in sources(make(A) * 2 + 1, CRenderer(contract=False))


def test_clang_is_named_when_it_is_missing(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setenv("PATH", "")
    assert "clang" in (ClangCompiler(host_target()).available() or "")
