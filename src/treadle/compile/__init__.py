"""From text to object code: the embedded LLVM and external compilers, one interface."""

from treadle.compile.base import Compiler
from treadle.compile.clang import ClangCompiler
from treadle.compile.llvm import LLVMCompiler

__all__ = ["ClangCompiler", "Compiler", "LLVMCompiler"]
