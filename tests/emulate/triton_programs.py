"""Programs in Triton's language, and their machine code for NVIDIA's and AMD's GPUs.

    python triton_programs.py cuda:80 FOLDER softmax matmul_f16

writes FOLDER/softmax.cubin and .ptx... (hip:gfx942: .hsaco) and prints a line of JSON for each: its
kernel, the bytes of shared memory that a launch adds, and how many work items a workgroup has. It
runs in a process of its own, where Triton's wheel is on the path. No GPU is needed: the wheel has
its own compilers, assembler and linker. All grids have one axis.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(out, x, columns, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def layer_norm(out, x, weight, bias, columns, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    here = at < columns
    values = tl.load(x + row * columns + at, mask=here, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    away = tl.where(here, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(away * away, axis=0) / columns + 1e-5)
    factor = tl.load(weight + at, mask=here, other=0.0)
    result = away * scale * factor + tl.load(bias + at, mask=here, other=0.0)
    tl.store(out + row * columns + at, result, mask=here)


@triton.jit
def matmul(
    out, a, b, rows, columns, depth, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
    TOTAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    wide = tl.cdiv(columns, TN)
    i = (tl.program_id(0) // wide * TM + tl.arange(0, TM))[:, None]
    j = (tl.program_id(0) % wide * TN + tl.arange(0, TN))[None, :]
    total = tl.zeros((TM, TN), TOTAL)
    for first in range(0, depth, TK):
        k = first + tl.arange(0, TK)
        of_a = (i < rows) & (k[None, :] < depth)
        of_b = (k[:, None] < depth) & (j < columns)
        left = tl.load(a + i * depth + k[None, :], mask=of_a, other=0.0)
        right = tl.load(b + k[:, None] * columns + j, mask=of_b, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION, out_dtype=TOTAL)
    tl.store(out + i * columns + j, total, mask=(i < rows) & (j < columns))


@triton.jit
def attention(out, q, k, v, length, scale, TQ: tl.constexpr, TK: tl.constexpr, DEPTH: tl.constexpr):
    tiles = tl.cdiv(length, TQ)
    base = tl.program_id(0) // tiles * length * DEPTH
    tile = tl.program_id(0) % tiles
    i = tile * TQ + tl.arange(0, TQ)
    d = tl.arange(0, DEPTH)
    place = base + i[:, None] * DEPTH + d[None, :]
    query = tl.load(q + place, mask=i[:, None] < length, other=0.0)
    most = tl.full((TQ,), -float("inf"), tl.float32)
    total = tl.zeros((TQ,), tl.float32)
    sums = tl.zeros((TQ, DEPTH), tl.float32)
    for first in range(0, (tile + 1) * TQ, TK):
        j = first + tl.arange(0, TK)
        here = j < length
        key = tl.load(k + base + j[None, :] * DEPTH + d[:, None], mask=here[None, :], other=0.0)
        value = tl.load(v + base + j[:, None] * DEPTH + d[None, :], mask=here[:, None], other=0.0)
        seen = (j[None, :] <= i[:, None]) & here[None, :]
        scores = tl.where(seen, tl.dot(query, key) * scale, -float("inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        powers = tl.exp(scores - now[:, None])
        kept = tl.exp(most - now)
        total = total * kept + tl.sum(powers, 1)
        sums = sums * kept[:, None] + tl.dot(powers.to(value.dtype), value)
        most = now
    tl.store(out + place, sums / total[:, None], mask=i[:, None] < length)


@triton.jit
def sort(out, x, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def scan(out, x, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def histogram(out, x, count, WIDTH: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    values = tl.load(x + at, mask=at < count, other=0)
    tl.atomic_add(out + tl.arange(0, BINS), tl.histogram(values, BINS, mask=at < count))


_PRODUCT = {"rows": "i32", "columns": "i32", "depth": "i32"}
_TILES = {"TM": 32, "TN": 32, "TK": 32}


def _matmul(kind, to="*fp32", total=tl.float32, tiles=_TILES, precision="ieee"):
    types = {"out": to, "a": f"*{kind}", "b": f"*{kind}", **_PRODUCT}
    return matmul, types, {**tiles, "TOTAL": total, "PRECISION": precision}, 4


def _attention(kind):
    types = dict.fromkeys(("q", "k", "v"), f"*{kind}")
    types = {"out": "*fp32", **types, "length": "i32", "scale": "fp32"}
    return attention, types, {"TQ": 32, "TK": 32, "DEPTH": 32}, 4


_ROWS = {"out": "*fp32", "x": "*fp32"}
# A program's function, the types of its arguments, its constants, and its waves.
PROGRAMS = {
    "softmax": (softmax, {**_ROWS, "columns": "i32"}, {"WIDTH": 512}, 4),
    "layer_norm": (
        layer_norm, {"out": "*fp16", "x": "*fp16", "weight": "*fp32", "bias": "*fp32",
                     "columns": "i32"}, {"WIDTH": 512}, 2,
    ),
    "matmul_f16": _matmul("fp16"), "matmul_bf16": _matmul("bf16"), "matmul_f32": _matmul("fp32"),
    "matmul_xf32": _matmul("fp32", precision="tf32"),
    "matmul_i8": _matmul("i8", "*i32", tl.int32),
    "matmul_f64": _matmul("fp64", "*fp64", tl.float64, {"TM": 16, "TN": 16, "TK": 16}),
    "matmul_fp8": _matmul("fp8e4b8"), "matmul_fp8_ocp": _matmul("fp8e4nv"),
    "matmul_bf8_ocp": _matmul("fp8e5"),
    "attention_f16": _attention("fp16"), "attention_bf16": _attention("bf16"),
    "sort": (sort, {"out": "*i32", "x": "*i32"}, {"WIDTH": 256}, 2),
    "scan": (scan, _ROWS, {"WIDTH": 512}, 4),
    "histogram": (
        histogram, {"out": "*i32", "x": "*i32", "count": "i32"}, {"WIDTH": 256, "BINS": 32}, 4,
    ),
}  # fmt: skip


def compiled(target: str, name: str) -> tuple[dict[str, bytes], dict[str, object]]:
    """A program's files by their endings, and what a launch has to know."""
    function, types, constants, waves = PROGRAMS[name]
    source = ASTSource(
        function, {**types, **dict.fromkeys(constants, "constexpr")}, constexprs=constants,
        # As for arrays that torch has made.
        attrs={(n,): [["tt.divisibility", 16]] for n, of in enumerate(types.values()) if "*" in of},
    )  # fmt: skip
    backend, _, chip = target.partition(":")
    wave = 64 if chip.startswith("gfx9") else 32
    gpu = GPUTarget(backend, int(chip) if backend == "cuda" else chip, wave)
    made = triton.compile(source, gpu, options={"num_warps": waves})
    kinds = ("cubin", "ptx") if backend == "cuda" else ("hsaco",)
    files = {kind: made.asm[kind] for kind in kinds}
    facts = {"symbol": made.metadata.name, "shared": made.metadata.shared}
    files = {kind: x.encode() if isinstance(x, str) else x for kind, x in files.items()}
    return files, {**facts, "workgroup": waves * wave}


if __name__ == "__main__":
    wanted, folder, *names = sys.argv[1:]
    for program in names:
        try:
            found, facts = compiled(wanted, program)
        except Exception as error:  # Triton's, of whatever kind: the program is not for this chip
            print(json.dumps({"program": program, "failed": f"{type(error).__name__}: {error}"}))
            continue
        for kind, content in found.items():
            (Path(folder) / f"{program}.{kind}").write_bytes(content)
        print(json.dumps({"program": program, **facts}))
