"""Hints for the next panel of a packed matrix: each line of it once, and no others."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from treadle import Tensor, TinyJit
from treadle.engine.run import scheduled
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.lower.passes import lower
from treadle.lower.streams import LINE
from treadle.optimize.heuristic import optimize
from treadle.render.c import CRenderer
from treadle.render.llvm import LLVMRenderer
from treadle.render.opencl import OpenCLRenderer
from treadle.target import Target

TARGET = replace(Target.parse("x86-64-v4"), l1=16 << 10, l2=1 << 20)
NARROW = replace(Target.parse("x86-64-v3"), l1=16 << 10, l2=1 << 20)
STEPS, COLUMNS = 512, 320
LLVM = LLVMRenderer(triple="x86_64-unknown-linux-gnu", vector_bits=512)
RANDOM = np.random.default_rng(11)


def values(*shape):
    return Tensor(RANDOM.standard_normal(shape).astype(np.float32), device="CPU").realize()


def product_of(rows, target=TARGET, steps=STEPS):
    """The phase that multiplies by a matrix which is packed once."""
    x, w = values(rows, steps), values(steps, COLUMNS)
    (kernel,) = scheduled([((x @ w).node, "CPU")])
    params = [n for n in kernel.ast.toposort() if n.op is Op.PARAM]
    (weight,) = (n for n in params if n.arg.size == steps * COLUMNS and not n.arg.is_new)
    kept = weight.replace(arg=replace(weight.arg, lasts=True))
    ast, log = optimize(kernel.ast.substitute({weight: kept}), target)
    assert "pack columns (grid)" in log
    return lower(ast, len(kernel.buffers), target).phases[-1]


def hints(phase):
    return [node for node in phase.program.src if node.op is Op.PREFETCH]


def places(phase, index):
    """The values of an index at each step of the loops around it, by the number of the panel."""
    ranges = [n for n in phase.program.src if n.op is Op.RANGE and n.arg.kind in ("grid", "loop")]
    sizes = [r.src[0].arg for r in ranges]
    grid = np.meshgrid(*map(np.arange, sizes), indexing="ij")
    known = dict(zip(ranges, grid, strict=True))
    for node in index.toposort():
        if node.op is Op.CONST:
            known[node] = np.array(node.arg)
        elif node not in known:
            known[node] = MEANING[node.op](*(known[s] for s in node.src))
    panel = known[phase.grid[-1]]
    found = np.broadcast_to(known[index], panel.shape)
    return [found[panel == n] for n in range(panel.max() + 1)]


MEANING = {
    Op.ADD: np.add, Op.MUL: np.multiply, Op.IDIV: np.floor_divide, Op.MOD: np.mod,
    Op.CMPLT: np.less, Op.WHERE: np.where,
}  # fmt: skip


@pytest.mark.parametrize("target", [TARGET, NARROW], ids=["a line each", "two to a line"])
def test_each_panel_asks_for_all_lines_of_the_next_one(target):
    phase = product_of(48, target)
    verify_linear(phase.program)
    (hint,) = hints(phase)
    loads = [n for n in phase.program.src if n.op is Op.LOAD and n.src[0] is hint.src[0]]
    panels = phase.grid[-1].src[0].arg
    assert panels > 1
    read = [places(phase, load.src[1]) for load in loads]
    asked = places(phase, hint.src[1])
    for panel in range(panels - 1):
        wanted = {place * 4 // LINE for one in read for place in one[panel + 1].flat}
        assert {place * 4 // LINE for place in asked[panel].flat} == wanted


@pytest.mark.parametrize(
    ("rows", "target", "steps"),
    [
        pytest.param(6, TARGET, STEPS, id="fewer tiles than vectors of a step"),
        pytest.param(48, TARGET, 48, id="panels that the first-level cache holds"),
        pytest.param(48, replace(TARGET, l2=1 << 17), STEPS, id="no room for two panels"),
    ],
)
def test_nothing_is_asked_for_that_would_not_help(rows, target, steps):
    assert not hints(product_of(rows, target, steps))


@pytest.mark.parametrize(
    ("renderer", "text"),
    [
        (LLVM, r"call void @llvm\.prefetch\.p0\(ptr %\w+, i32 0, i32 2"),
        (CRenderer(), r"__builtin_prefetch\(\w+ \+ \w+, 0, 2\);"),
        (OpenCLRenderer(TARGET), r" prefetch\(\w+ \+ \w+, 1\);"),
    ],
)
def test_every_language_of_processors_has_the_hint(renderer, text):
    assert re.search(text, renderer.render("product", [product_of(48)], ()))


def test_products_with_hints_are_what_they_were():
    """Panels of 256 KiB; the last one's hint is beyond the memory."""
    x, w = values(64, 1024), values(1024, 512)
    product = TinyJit(lambda x: (x @ w).realize())
    for _ in range(3):
        found = product(x).numpy()
    np.testing.assert_allclose(found, x.numpy() @ w.numpy(), rtol=1e-4, atol=1e-3)
