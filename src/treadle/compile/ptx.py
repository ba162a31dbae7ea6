"""LLVM IR text becomes PTX, in this process, through llvmlite.

    PTXCompiler(parse_target("sm_90")).compile("define ptx_kernel void @f() { ret void }")  ->  PTX

A machine with nothing but the driver runs it: the driver makes machine code of PTX. LLVM writes the
oldest version of PTX that has the architecture, which every driver that knows it takes. It does not
look into inline assembly: products of fp8 matrices came later than the first architecture that has
them.
"""

from __future__ import annotations

import re

from treadle.compile.llvm import LLVMCompiler

__all__ = ["PTXCompiler"]

_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_FP8_PRODUCT = re.compile(r"mma\.sync[.\w]*\.e[45]m[23]")
_WITH_FP8_PRODUCTS = (8, 4)


class PTXCompiler(LLVMCompiler):
    """Compiles LLVM IR for one NVIDIA target. Any number of threads may call it."""

    name = "PTX"

    def compile(self, source: str) -> bytes:
        """The PTX of one module of LLVM IR, as text.

        Raises InternalError, naming the file where the IR was saved, if LLVM rejects it.
        """
        text = self.assembly(source)
        found = _VERSION.search(text)
        if found is not None and _FP8_PRODUCT.search(text):
            version = max((int(found[1]), int(found[2])), _WITH_FP8_PRODUCTS)
            text = _VERSION.sub(".version {}.{}".format(*version), text, count=1)
        return text.encode()
