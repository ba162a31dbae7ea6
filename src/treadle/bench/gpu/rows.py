"""What is measured on a GPU, with the bars that a Hopper chip is held to.

Arrays are larger than any GPU's cache, so that rows which are bound by memory show its speed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from ..work import Bar, Form, Input, Work

__all__ = ["gpu_works"]

CUBLAS, FLASH = Bar(("torch",), 0.8), Bar(("torch",), 0.7)
COPY = Bar((), 0.9)
GRAPH = Bar(("torch graph",), 0.909)  # 1.1 times as long
_BYTES = {"float32": 4, "bfloat16": 2}

Array: TypeAlias = Any  # of either side's, and `lib` the side itself


def gpu_works(small: bool) -> list[Work]:
    """The rows, those that matter most first; `small` ones are for an emulated GPU."""
    sides = (64,) if small else (4096, 8192)
    tokens = (64,) if small else (2048, 8192)
    hidden = (True,) if small else (False, True)
    axes = (0,) if small else (None, 0, 1)
    n, kernels = (64, 10) if small else (8192, 1000)
    rows = [
        *(_matmul(side, "bfloat16") for side in sides),
        *(_attention(count, causal) for count in tokens for causal in hidden),
        _row(f"softmax {n}x{n}", n, lambda lib, x: lib.softmax(x)),
        _row(f"layer norm {n}x{n}", n, lambda lib, x, a, b: lib.layer_norm(x, a, b), 2),
        _row(f"gelu(2x+1)*x {n}x{n}", n, lambda lib, x: lib.gelu(2 * x + 1) * x),
        _row(f"bfloat16 softmax {n}x{n}", n, lambda lib, x: lib.softmax(x), dtype="bfloat16"),
        *(_sum(n, axis) for axis in axes),
        _graph(kernels),
        *(_matmul(side, "float32") for side in sides),
        *(_matmul(side, "float32", "tf32") for side in sides),
    ]
    return [replace(row, repeat=1) for row in rows] if small else rows


def _product(_: object, a: Array, b: Array) -> Array:
    return a @ b


def _product_tf32(lib: Array, a: Array, b: Array) -> Array:
    return lib.matmul_tf32(a, b)


def _matmul(n: int, dtype: str, kind: str = "") -> Work:
    name, ceiling = f"{kind or dtype} matmul {n}", "matrix" if dtype == "bfloat16" else "flops"
    form = _product_tf32 if kind else _product
    given = (Input((n, n), dtype),) * 2
    return Work("products", name, ceiling, 2.0 * n**3, given, form, (CUBLAS,), repeat=10)


def _attention(tokens: int, causal: bool) -> Work:
    """Sixteen heads of 64 in bfloat16, for as many batches as make 16384 tokens."""
    batch, heads, width = max(16384 // tokens, 1) if tokens > 64 else 1, 16, 64
    shape = (batch, heads if tokens > 64 else 2, tokens, width)
    flops = 4.0 * batch * shape[1] * tokens**2 * width / (2 if causal else 1)

    def form(lib: Array, q: Array, k: Array, v: Array) -> Array:
        return lib.attention(q, k, v, causal)

    name = "attention " + "x".join(map(str, shape)) + ", causal" * causal
    given = (Input(shape, "bfloat16"),) * 3
    return Work("attention", name, "matrix", flops, given, form, (FLASH,), repeat=5)


def _row(name: str, n: int, form: Form, vectors: int = 0, dtype: str = "float32") -> Work:
    """Reads a square and writes one."""
    given, amount = (Input((n, n), dtype), *[Input((n,), dtype)] * vectors), 2.0 * _BYTES[dtype]
    return Work("memory", name, "copy", amount * n * n, given, form, (COPY,), repeat=5)


def _sum(n: int, axis: int | None) -> Work:
    def form(_: object, x: Array) -> Array:
        return x.sum(axis)

    name = f"sum{'' if axis is None else f' axis {axis}'} {n}x{n}"
    return Work("memory", name, "copy", 4.0 * n * n, (Input((n, n)),), form, (COPY,), repeat=5)


def _graph(kernels: int) -> Work:
    """Bytes: a few thousand, so that it is launches that count."""
    amount, size = 8.0 * kernels, 1024

    def form(lib: Array, x: Array) -> Array:
        return lib.steps(x, kernels)

    name = f"graph of {kernels} small kernels"
    return Work("graphs", name, "copy", amount * size, (Input((size,)),), form, (GRAPH,), repeat=5)
