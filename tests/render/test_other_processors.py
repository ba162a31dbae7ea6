"""Kernels for processors other than this one are assembled; inner loops fit the registers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from treadle import Tensor
from treadle.compile import LLVMCompiler
from treadle.engine.run import scheduled
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.render.llvm import LLVMRenderer
from treadle.target import parse_target

MACHINES = {"aarch64": 183, "aarch64,neoverse-v1,fullfp16": 183, "x86-64-v2": 62, "x86-64-v3": 62}


def of(dtype, *shape):
    return Tensor(np.ones(shape, np.float32), device="CPU").cast(dtype).realize()


def floats(*shape):
    return of("float32", *shape)


PRODUCTS = {
    "matmul": lambda: floats(300, 700) @ floats(700, 500),
    "conv": lambda: floats(2, 64, 28, 28).conv2d(floats(64, 64, 3, 3), padding=1),
    "matmul of float16": lambda: of("float16", 300, 700) @ of("float16", 700, 500),
    "matmul of bfloat16": lambda: of("bfloat16", 300, 700) @ of("bfloat16", 700, 500),
}
OTHERS = {
    "softmax": lambda: floats(300, 4000).softmax(),
    "attention": lambda: floats(1, 4, 256, 64).scaled_dot_product_attention(
        floats(1, 4, 256, 64), floats(1, 4, 256, 64)
    ),
    "sort": lambda: floats(20, 3000).sort(1)[0],
    "int8 weights": lambda: floats(4096) @ of("int8", 4096, 512).float(),
    "scan": lambda: floats(300, 4000).cumsum(1),
    "argmax": lambda: floats(300, 4000).argmax(1),
    "float8": lambda: of("fp8e4m3", 3000).float().exp(),
}


def sources(tensor, target):
    """The LLVM IR of all kernels behind `tensor`."""
    renderer = LLVMRenderer(triple=target.triple, vector_bits=8 * target.vector_bytes)
    for kernel in scheduled([(tensor.node, tensor.device)]):
        ast, _ = optimize(kernel.ast, target)
        low = lower(ast, len(kernel.buffers), target)
        yield renderer.render("k", low.phases, low.variables)


@pytest.mark.parametrize("arch", MACHINES)
@pytest.mark.parametrize("name", [*PRODUCTS, *OTHERS])
def test_every_kernel_is_assembled(name, arch):
    target = parse_target(arch)
    for text in sources((PRODUCTS | OTHERS)[name](), target):
        code = LLVMCompiler(target).compile(text)
        assert b"k_0" in code
        if "linux" in target.triple:
            assert int.from_bytes(code[18:20], "little") == MACHINES[arch]


@pytest.mark.parametrize("arch", MACHINES)
@pytest.mark.parametrize("name", [*PRODUCTS, *OTHERS])
def test_no_kernel_calls_a_function(name, arch):
    # LLVM knows what a target lacks as a function of some library, one element at a time.
    target = parse_target(arch)
    for text in sources((PRODUCTS | OTHERS)[name](), target):
        assembly = LLVMCompiler(target).assembly(text)
        assert not re.findall(r"^\s+(?:bl|blr|callq?)\s.*$", assembly, re.MULTILINE)


PRODUCT = r"fmla|vfmadd|\bmulps"


@pytest.mark.parametrize("arch", ["aarch64", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_the_inner_loop_of_a_product_touches_no_stack(name, arch):
    target = parse_target(arch)
    *_, text = sources(PRODUCTS[name](), target)
    loops = re.finditer(
        r"^(\.LBB\w+):(.*?)(?=^\.LBB|\Z)",
        LLVMCompiler(target).assembly(text),
        re.DOTALL | re.MULTILINE,
    )
    bodies = [body[: max(body.rfind(label), 0)] for label, body in (m.groups() for m in loops)]
    widest = max(bodies, key=lambda body: len(re.findall(PRODUCT, body)))
    assert len(re.findall(PRODUCT, widest)) >= 12
    assert not re.search(r"\[sp|\(%r[sb]p\)|[re][sb]p [+-]", widest)
