"""Runs Metal's kernels on this processor: LLVM IR as Apple's compiler makes it, on the SIMT core.

    ir = compile_msl(source)                       # clang and a metal_stdlib of our own
    program = Program(Module(ir), compile_ir)
    program.module.kernels["add"].arguments        # Argument("buffer", index=0, space=1, ...)
    program.launch("add", (4, 1, 1), (256, 1, 1), buffers={0: address}, memory=regions)

Apple's own modules (bitcode of a metallib) are read as well as those of `compile_msl`.
"""

from __future__ import annotations

from treadle.emulate.air.clang import find_clang, needed_clang
from treadle.emulate.air.execute import Program
from treadle.emulate.air.kernels import Argument, Kernel, Module
from treadle.emulate.air.shim import Cached, MSLError, compile_msl
from treadle.emulate.air.syntax import AIRError

__all__ = [
    "AIRError", "Argument", "Cached", "Kernel", "MSLError", "Module", "Program", "compile_msl",
    "find_clang", "needed_clang",
]  # fmt: skip
