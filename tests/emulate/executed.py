"""How many instructions emulated NVIDIA GPUs execute for programs: of warps, of PTX.

    python -m tests.emulate.executed [ARCH ...] [--only WORD]

for sm_80 and sm_90a, unless it is told another. With PYTHONPATH=OLD/src:. the sources of another
checkout are counted, such as those before a change. An instruction of a unit, such as wgmma, is one
as well. Warps that wait at a convergence point execute its block a second time.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import tempfile
from typing import Any

os.environ |= {"CACHE_DIR": tempfile.mkdtemp(), "EMULATE": "1"}  # code holds this process's counter

import numpy as np

from treadle import Tensor, dtypes
from treadle.emulate.ptx import translate
from treadle.engine.counters import GlobalCounters

EXECUTED = ctypes.c_uint64()


def count_blocks() -> None:
    """Let each basic block that a warp enters add its instructions to EXECUTED."""
    (kind,) = (
        one for one in vars(translate).values() if isinstance(one, type) and hasattr(one, "_enter")
    )
    block, enter = kind._block, kind._enter  # type: ignore[attr-defined]
    place = f"inttoptr (i64 {ctypes.addressof(EXECUTED)} to ptr)"

    def counted_block(self: Any, given: Any) -> None:
        self.uncounted = len(given.instructions)
        block(self, given)

    def counted_enter(self: Any) -> None:
        enter(self)
        if self.uncounted:
            self.e.do(f"atomicrmw add ptr {place}, i64 {self.uncounted} monotonic")
            self.uncounted = 0

    kind._block, kind._enter = counted_block, counted_enter  # type: ignore[attr-defined]


def numbers(device: str, *shape: int, dtype: Any = dtypes.float32) -> Tensor:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return Tensor(values, device="CPU").cast(dtype).to(device).realize()


def _attention(is_step: bool, width: int, **options: Any) -> Any:
    def run(device: str) -> list[Tensor]:
        q, k, v = (numbers(device, 2, 256, width, dtype=dtypes.bfloat16) for _ in range(3))
        for tensor in (q, k, v):
            tensor.requires_grad = True
        out = q.scaled_dot_product_attention(k, v, **options)
        if not is_step:
            return [out]
        out.backward(numbers(device, 2, 256, width, dtype=dtypes.bfloat16))
        return [t for t in (out, q.grad, k.grad, v.grad) if t is not None]

    return run


def _product(m: int, k: int, n: int, dtype: Any) -> Any:
    return lambda d: [numbers(d, m, k, dtype=dtype) @ numbers(d, k, n, dtype=dtype)]


def _of(shape: tuple[int, ...], make: Any) -> Any:
    return lambda d: [make(numbers(d, *shape))]


def _convolution(device: str) -> list[Tensor]:
    return [numbers(device, 2, 16, 28, 28).conv2d(numbers(device, 32, 16, 3, 3), padding=1)]


PROGRAMS = {
    "attention, 64 columns": _attention(False, 64),
    "attention, 64 columns, causal": _attention(False, 64, is_causal=True),
    "attention, 128 columns": _attention(False, 128),
    "attention with gradients, 64 columns": _attention(True, 64),
    "attention with gradients, 64 columns, causal": _attention(True, 64, is_causal=True),
    "product 256 cubed, float16": _product(256, 256, 256, dtypes.float16),
    "product 256 cubed, float32": _product(256, 256, 256, dtypes.float32),
    "product 200 x 130 x 72, float32": _product(200, 130, 72, dtypes.float32),
    "convolution 3x3": _convolution,
    "softmax along rows": _of((256, 1000), lambda x: x.softmax(1)),
    "softmax down columns": _of((1000, 256), lambda x: x.softmax(0)),
    "layer norm": _of((256, 1000), lambda x: x.layernorm()),
    "sum of all": _of((512, 1000), lambda x: x.sum()),
    "sum down columns": _of((1000, 256), lambda x: x.sum(0)),
    "maximum along rows": _of((256, 1000), lambda x: x.max(1)),
    "argmax along rows": _of((256, 1000), lambda x: x.argmax(1)),
    "argmax down columns": _of((1000, 256), lambda x: x.argmax(0)),
    "variance along rows": _of((256, 1000), lambda x: x.var(1)),
    "running sum along rows": _of((64, 1000), lambda x: x.cumsum(1)),
    "sorted rows": _of((64, 1000), lambda x: x.sort(1)[0]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Instructions that emulated GPUs execute.")
    parser.add_argument("archs", nargs="*", default=["sm_80", "sm_90a"])
    parser.add_argument("--only", default="", help="programs with this in their name")
    given = parser.parse_args()
    count_blocks()
    print(f"{'':46}" + "".join(f"{arch + ': kernels':>18}{'executed':>14}" for arch in given.archs))
    totals = [[0, 0] for _ in given.archs]
    for name, program in PROGRAMS.items():
        if given.only not in name:
            continue
        cells = []
        for arch, total in zip(given.archs, totals, strict=True):
            wanted = program(f"CUDA:PTX:{arch}")
            before, EXECUTED.value = GlobalCounters.kernel_count, 0
            Tensor.realize(*wanted)
            wanted[0].to("CPU").realize()
            kernels = GlobalCounters.kernel_count - before
            total[0] += kernels
            total[1] += EXECUTED.value
            cells.append(f"{kernels:18,}{EXECUTED.value:14,}")
        print(f"{name:46}" + "".join(cells), flush=True)
    print(f"{'all':46}" + "".join(f"{kernels:18,}{count:14,}" for kernels, count in totals))


if __name__ == "__main__":
    main()
