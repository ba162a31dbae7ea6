"""What NVIDIA's assembler makes of attention: registers, spills, instructions for a tile of keys.

    python -m tests.render.attention_figures [CPU ...]

for sm_90 (mma.sync) and sm_90a (wgmma), unless it is told another. Each kernel of the result, and
of the result with its gradients, has a row. What the assembler unrolls is several tiles.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from treadle import Tensor, dtypes
from treadle.compile.ptx import PTXCompiler
from treadle.engine.realized import current
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.render.ptx import PTXRenderer
from treadle.schedule.passes import schedule
from treadle.target import parse_target

from .assembler import assembled, tool

WIDTHS = 64, 128


def kernels(width, is_step):
    """Nodes of attention over whole tiles of keys."""
    q, k, v = (Tensor.zeros(16, 2048, width, dtype=dtypes.bfloat16) for _ in range(3))
    tensors = [t.contiguous().realize() for t in (q, k, v)]
    for tensor in tensors:
        tensor.requires_grad = True
    q, k, v = tensors
    result = q.scaled_dot_product_attention(k, v)
    if not is_step:
        return [result.node]
    result.backward(Tensor.zeros(*result.shape, dtype=result.dtype).contiguous().realize())
    return [result.node, *(t.grad.node for t in tensors)]


def loops(body):
    """The instructions of each loop over tiles, in order."""
    labels, instructions = {}, []
    for line in body.splitlines():
        if found := re.match(r"\s*(\.L_\w+):", line):
            labels[found[1]] = len(instructions)
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(\S.*?);", line):
            instructions.append(found[1])
    found = []
    for number, one in enumerate(instructions):
        to = re.search(r"BRA.*(\.L_\w+)", one)
        if to and labels.get(to[1], len(instructions)) <= number:
            inside = instructions[labels[to[1]] : number + 1]
            if any("MMA" in n for n in inside):
                found.append(inside)
    return found


def main():
    for cpu in sys.argv[1:] or ("sm_90", "sm_90a"):
        target, phases, names = parse_target(cpu), [], []
        for width in WIDTHS:
            for is_step in (False, True):
                for kernel in schedule(current(kernels(width, is_step))[0], "CPU", target)[0]:
                    ast, _ = optimize(kernel.ast, target)
                    phases += lower(ast, len(kernel.buffers), target).phases
                    names.append(f"{width} columns, {'with gradients' if is_step else 'result'}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            ptx = PTXCompiler(target).compile(PTXRenderer(target).render("k", phases, ()))
            figures = assembled(ptx, cpu, folder)
            command = [tool("nvdisasm", "nvidia-cuda-nvdisasm"), "-c", folder / "corpus.cubin"]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.findall(r"\.section\s+\.text\.\w+?(\d+)\b(.*?)(?=\.section|\Z)", text, re.DOTALL)
        bodies = {int(number): body for number, body in found}
        print(f"{cpu:38} registers  spilled  instructions, and products, of a tile in each pass")
        for number, name in enumerate(names):
            registers, _, spilled = figures[number]
            counts = (f"{len(n)}, {sum('MMA' in one for one in n)}" for n in loops(bodies[number]))
            print(f"{name:38} {registers:9} {spilled:8}  {'; '.join(counts)}")


if __name__ == "__main__":
    main()
