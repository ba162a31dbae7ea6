"""Shared memory that is filled ahead: pipelines, and matmuls of large tiles in them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.compile.nvrtc import NVRTCCompiler
from treadle.compile.ptx import PTXCompiler
from treadle.engine.run import scheduled
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel, verify_linear
from treadle.lower.multi_buffering import ASYNCHRONOUS
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.render.cuda import CUDARenderer
from treadle.render.nvidia import copied
from treadle.render.ptx import PTXRenderer
from treadle.target import parse_target

from .assembler import assembled, need
from .banks import ways_of
from .kernels import empty, launch

RANDOM = np.random.default_rng(5)


def large_tiles(arch):
    """A target that makes no tile smaller to have more workgroups."""
    target = parse_target(arch)
    return dataclasses.replace(target, workgroup=dataclasses.replace(target.workgroup, busy=1))


def kernel(program, arch="sm_80"):
    """The lowered kernel of a program, its arguments, the result's place, and what is expected."""
    held = {}

    def numbers(*shape):
        """Small whole numbers, whose sums are exact."""
        array = RANDOM.integers(-2, 3, shape).astype(np.float16)
        tensor = Tensor(array, device="CPU").realize()
        held[next(n for n in tensor.node.toposort() if n.op is Op.BUFFER)] = array
        return tensor

    tensor = program(numbers)
    (found,) = scheduled([(tensor.node, tensor.device)])
    target = large_tiles(arch)
    ast, _ = optimize(found.ast, target)
    verify_kernel(ast)
    low = lower(ast, len(found.buffers), target)
    for phase in low.phases:
        verify_linear(phase.program)
    given = [
        held[buffer] if buffer in held else empty(buffer.dtype, math.prod(buffer.shape))
        for buffer in found.buffers
    ]
    (out,) = (n for n, buffer in enumerate(found.buffers) if buffer not in held)
    return low, given, out, tensor.numpy()


def slices(steps):
    return lambda t: t(128, 32 * steps) @ t(32 * steps, 128)


CASES = {
    "two slices": slices(2),
    "fewer slices than buffers": slices(3),
    "tails of everything": lambda t: t(200, 136) @ t(136, 72),
    "columns of both": lambda t: t(136, 128).T @ t(72, 136).T,
    "rows at odd places": lambda t: t(130, 101) @ t(101, 67),
    "one computed factor": lambda t: t(64, 96).relu() @ t(96, 136),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_processor(cuda, name):
    low, given, out, expected = kernel(CASES[name])
    ours = launch(cuda, low, given)[out]
    np.testing.assert_array_equal(ours.reshape(expected.shape), expected)


def test_operands_may_begin_at_any_element(cuda):
    low, given, out, expected = kernel(CASES["tails of everything"])
    ours = launch(cuda, low, given, offset=2)[out]
    np.testing.assert_array_equal(ours.reshape(expected.shape), expected)


def program_of(name, arch="sm_80"):
    (phase,) = kernel(CASES[name], arch)[0].phases
    return phase


@pytest.mark.parametrize(("arch", "buffers"), [("sm_80", 4), ("sm_89", 3), ("sm_90", 4)])
def test_as_many_slices_are_on_their_way_as_memory_holds_for_two_workgroups(arch, buffers):
    (phase,) = kernel(slices(8), arch)[0].phases
    nodes = phase.program.src
    kinds = [n.op for n in nodes]
    loop = next(i for i, n in enumerate(nodes) if n.op is Op.RANGE and n.arg.kind == "loop")
    assert kinds[:loop].count(Op.COMMIT) == buffers - 1
    assert kinds[loop:].count(Op.COMMIT) == kinds.count(Op.WAIT) == 1
    assert nodes[kinds.index(Op.WAIT)].arg == buffers - 2
    assert kinds.count(Op.BARRIER) == 1
    assert phase.asked == (buffers * 2 * 128 * 64 if buffers == 4 else 0)


def test_what_memory_holds_as_it_is_is_copied_and_what_is_computed_is_stored():
    stores = lambda name: [
        n for n in program_of(name).program.src
        if n.op is Op.STORE and n.src[0].src and n.src[0].src[0].op is Op.LOCAL
    ]  # fmt: skip
    plain = program_of("tails of everything").program
    assert set(copied(plain)) == set(stores("tails of everything"))
    assert {n.arg for n in stores("one computed factor")} == {ASYNCHRONOUS, None}
    assert not copied(program_of("rows at odd places").program)


@pytest.mark.parametrize("name", ["tails of everything", "columns of both", "one computed factor"])
def test_no_two_work_items_meet_in_a_bank_of_shared_memory(name):
    assert set(ways_of(program_of(name))) == {1}


LARGE = {"sm_80": ("bfloat16", "int8", "float32"), "sm_120a": ("float16", "fp8e4m3")}


@pytest.mark.parametrize("arch", LARGE)
@pytest.mark.parametrize(
    ("renderer", "compiler"), [(CUDARenderer, NVRTCCompiler), (PTXRenderer, PTXCompiler)]
)
def test_the_largest_tiles_fit_into_registers(arch, renderer, compiler, tmp_path):
    target = parse_target(arch)
    target = dataclasses.replace(
        target, matrix_units=(*target.matrix_units, *target.rounding_units)
    )
    phases = []
    for name in LARGE[arch]:
        x = Tensor.empty(4096, 4096, dtype=getattr(dtypes, name), device="CPU").realize()
        (found,) = scheduled([((x @ x).node, "CPU")])
        phases += lower(optimize(found.ast, target)[0], len(found.buffers), target).phases
    code = need(compiler(target)).compile(renderer(target).render("k", phases, ()))
    figures = assembled(code.rstrip(b"\0"), arch, tmp_path)
    assert sorted(figures) == list(range(len(phases)))
    for registers, shared, spilled in figures.values():
        assert registers <= 192  # of 256 that each work item of a workgroup can have
        assert shared <= 48 << 10
        assert spilled == 0
