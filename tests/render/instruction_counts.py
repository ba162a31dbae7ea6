"""python -m tests.render.instruction_counts [CHIP ...]: instructions of kernels beside HIP's.

    chip     kernel   LLVM  HIP  by hand
    gfx1100  softmax  136   146  187

LLVM and HIP are treadle's own kernels, by the embedded LLVM and as HIP by clang -O3. By hand are
those of plain_kernels.hip, by clang -O3. Each instruction of the code counts once; waits, delays
and padding do not. Behind the number of a matmul is what its inner loop has for each multiply-add.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.emulate.amd.newest_clang import NewestClang

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.amd.decode import DecodeError, Instruction, decode
from treadle.render.amdgpu import AMDGPURenderer
from treadle.render.hip import HIPRenderer
from treadle.runtime.hardware.codeobject import Image, link
from treadle.target import amd_target

from .corpus import floats
from .test_amdgpu import lowered

CHIPS = ("gfx1100", "gfx1030", "gfx1201", "gfx90a", "gfx942")
PLAIN = Path(__file__).with_name("plain_kernels.hip")
PROGRAMS = {
    "softmax": lambda: floats(256, 1024).softmax(),
    "layer_norm": lambda: floats(256, 1024).layernorm(),
    "matmul": lambda: floats(1024, 1024) @ floats(1024, 1024),
}
_UNCOUNTED = ("s_wait", "s_delay", "s_nop", "s_clause", "s_code_end", "s_inst_prefetch")
_PRODUCTS = ("v_fma", "v_mac", "v_mad", "v_pk_fma", "v_dual_fmac")


def code_of(image: Image, name: str, chip: str) -> Iterator[tuple[int, Instruction]]:
    """All instructions of a kernel with their places: up to the padding behind its last end."""
    kernel = image.kernels[name]
    others = [other.entry for other in image.kernels.values() if other.entry > kernel.entry]
    end = min(others, default=len(image.data))
    at, ended = kernel.entry, False
    while at < end:
        try:
            item = decode(image.data, at, chip, kernel.wave)
        except DecodeError:
            return
        if item.operation == "s_code_end" or (ended and item.operation == "s_nop"):
            return
        ended = item.operation == "s_endpgm"
        yield at, item
        at += item.size


def counted(image: Image, name: str, chip: str) -> str:
    """How many instructions a kernel has, and of its busiest loop how many for a multiply-add."""
    items = [(at, one) for at, one in code_of(image, name, chip)
             if not one.operation.startswith(_UNCOUNTED)]  # fmt: skip
    loops = []
    for at, item in items:
        target = at + item.size + 4 * _distance(item)
        if item.operation.startswith(("s_cbranch", "s_branch")) and target <= at:
            body = [one for place, one in items if target <= place <= at]
            products = sum(map(_products, body))
            loops.append((len(body), products))
    total = str(len(items))
    busy = [(body / products, body, products) for body, products in loops if products >= 16]
    return total + (f" ({min(busy)[0]:.2f})" if busy else "")


def _distance(item: Instruction) -> int:
    number = item.modifiers.get("simm16", 0)
    return number - (number >> 15 << 16)


def _products(item: Instruction) -> int:
    """Multiply-adds of a lane."""
    if item.pair:
        return sum(map(_products, item.pair))
    matrix = re.match(r"v_mfma_f32_(\d+)x(\d+)x(\d+)", item.operation)
    if matrix:
        return math.prod(map(int, matrix.groups())) // 64
    return item.operation.startswith(_PRODUCTS) * (2 if "_pk_" in item.operation else 1)


def own(chip: str, name: str) -> list[str]:
    """Of treadle's kernel by LLVM and as HIP; several phases stand with a plus between."""
    target = amd_target(chip)
    phases = lowered(PROGRAMS[name](), target)
    found = []
    for renderer, compiler in (
        (AMDGPURenderer(target), LLVMCompiler(target)), (HIPRenderer(target), NewestClang(target)),
    ):  # fmt: skip
        image = link(compiler.compile(renderer.render("k", phases, ())))
        found.append(" + ".join(counted(image, f"k_{n}", chip) for n in range(len(phases))))
    return found


def by_hand(chip: str) -> Image:
    """What clang makes of plain_kernels.hip."""
    clang = NewestClang(amd_target(chip))
    ir = clang.ir_of(PLAIN.read_text(), "-funroll-loops", "-ffp-contract=fast")
    return link(clang.object_of(ir))


def rows(chip: str) -> Iterator[list[str]]:
    image = by_hand(chip)
    for name in PROGRAMS:
        yield [chip, name, *own(chip, name), counted(image, name, chip)]


def main() -> None:
    table = [["chip", "kernel", "LLVM", "HIP", "by hand"]]
    for chip in sys.argv[1:] or CHIPS:
        table += rows(chip)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


if __name__ == "__main__":
    main()
