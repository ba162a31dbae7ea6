"""Scaling by one instruction gives what scaling by two products gives, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.compile.clang import ClangCompiler
from treadle.compile.llvm import LLVMCompiler
from treadle.dtype import dtypes
from treadle.engine.run import scheduled
from treadle.ir.interpret import evaluate
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.math import lower_math, scale_by_powers
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.render.c import CRenderer
from treadle.render.llvm import LLVMRenderer
from treadle.target import parse_target

SPECIAL = [0.0, -0.0, 88.7, 88.8, -87.4, -103.9, -104.1, np.inf, -np.inf, np.nan]


def samples(scalar):
    most = 128 if scalar is dtypes.float32 else 1024
    near = np.random.default_rng(3).uniform(-1.2 * most, 1.1 * most, 4000)
    return np.concatenate([near, SPECIAL]).astype(scalar.name)


@pytest.mark.parametrize("op", [Op.EXP, Op.EXP2])
@pytest.mark.parametrize("scalar", [dtypes.float32, dtypes.float64], ids=str)
def test_a_scaled_vector_is_what_it_was(op, scalar):
    lanes = 64 // scalar.itemsize
    source = Node(Op.WILDCARD, scalar.vec(lanes), (), ("x", False))
    products = lower_math(source.alu(op))
    scale = scale_by_powers(products, 64)
    assert [n.op for n in scale.toposort()].count(Op.SCALE) == 1
    x = np.resize(samples(scalar), (500, lanes))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(scale, {source: x}), evaluate(products, {source: x}))


def test_what_is_no_whole_vector_is_left_alone():
    for dtype in (dtypes.float32, dtypes.float32.vec(8), dtypes.float64.vec(16)):
        products = lower_math(Node(Op.WILDCARD, dtype, (), ("x", False)).alu(Op.EXP))
        assert scale_by_powers(products, 64) is products


@pytest.mark.parametrize(("arch", "has_it"), [("x86-64-v4", True), ("x86-64-v3", False)])
def test_targets_that_have_the_instruction_use_it(arch, has_it):
    target = parse_target(arch)
    (kernel,) = scheduled([(Tensor.ones(64, 256, device="CPU").realize().exp().node, "CPU")])
    ast, _ = optimize(kernel.ast, target)
    lowered = lower(ast, len(kernel.buffers), target)
    llvm = LLVMRenderer(triple=target.triple, vector_bits=8 * target.vector_bytes)
    text = llvm.render("k", lowered.phases, lowered.variables)
    assert ("vscalefps" in LLVMCompiler(target).assembly(text)) == has_it
    clang = ClangCompiler(target)
    if clang.available() is None:
        text = CRenderer().render("k", lowered.phases, lowered.variables)
        assert ("vscalefps" in clang.assembly(text)) == has_it
