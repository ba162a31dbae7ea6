"""LLVM IR text becomes PTX, in this process, through llvmlite.

    PTXCompiler(Target.parse("sm_90")).compile("define ptx_kernel void @f() { ret void }")  ->  PTX

A machine with nothing but the driver runs it: the driver makes machine code of PTX. LLVM writes the
oldest version of PTX that has the architecture, which every driver that knows it takes.
"""

from __future__ import annotations

from treadle.compile.llvm import LLVMCompiler

__all__ = ["PTXCompiler"]


class PTXCompiler(LLVMCompiler):
    """Compiles LLVM IR for one NVIDIA target. Any number of threads may call it."""

    name = "PTX"

    def compile(self, source: str) -> bytes:
        """The PTX of one module of LLVM IR, as text.

        Raises InternalError, naming the file where the IR was saved, if LLVM rejects it.
        """
        return self.assembly(source).encode()
