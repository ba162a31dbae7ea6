"""LLVM IR as native code of this process, by way of the disk cache.

    compile_for_host("define i32 @f() { ret i32 1 }")  ->  the bytes of an object

Whatever device computes, the worker pool, the emulators and DLPack's deleters are such code.
"""

from __future__ import annotations

from ..compile.llvm import LLVMCompiler
from ..target import host_target
from .cache import cached

__all__ = ["compile_for_host"]


def compile_for_host(source: str, /, *, quick: bool = False) -> bytes:
    """`source` for this machine's processor; `quick` compiles soon what hardly runs."""
    compiler = LLVMCompiler(host_target())
    made_by = (compiler.name, compiler.version, compiler.target.code_key)
    key = "\0".join((*made_by, repr(("quick", quick)), source))
    return cached(key, lambda: compiler.compile(source, quick=quick))
