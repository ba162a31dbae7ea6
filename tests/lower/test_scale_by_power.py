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
from treadle.lower.decompose import decompose
from treadle.lower.math import lower_math, round_explicitly
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
    formula = lower_math(source.alu(op))
    products, scale = decompose(formula), decompose(formula, scaled_bytes=64)
    assert not any(n.op is Op.SCALE for n in products.toposort())
    assert [n.op for n in scale.toposort()].count(Op.SCALE) == 1
    x = np.resize(samples(scalar), (500, lanes))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(scale, {source: x}), evaluate(products, {source: x}))


def test_what_is_no_whole_vector_is_scaled_by_products():
    for dtype in (dtypes.float32, dtypes.float32.vec(8), dtypes.float64.vec(16)):
        formula = lower_math(Node(Op.WILDCARD, dtype, (), ("x", False)).alu(Op.EXP))
        assert decompose(formula, scaled_bytes=64) is decompose(formula)


@pytest.mark.parametrize("scalar", [dtypes.float32, dtypes.float64], ids=str)
def test_loose_floats_are_scaled_alike(scalar):
    """There a ROUND gives the exponent; that of float64 is a difference everywhere."""
    source = Node(Op.WILDCARD, scalar, (), ("x", False))
    formula = lower_math(source.alu(Op.EXP))
    strict, loose = decompose(formula), decompose(round_explicitly(formula), strict_floats=False)
    assert not any(n.op is Op.SCALE for n in loose.toposort())
    x = samples(scalar)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(loose, {source: x}), evaluate(strict, {source: x}))


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
