"""Libraries of kernels: a text is compiled by clang, as if it were Metal's compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air import Module, Program, compile_msl
from treadle.emulate.metal.faults import Misuse
from treadle.emulate.metal.objects import Object, message
from treadle.errors import TreadleError
from treadle.target import available_cores

if TYPE_CHECKING:
    from treadle.emulate.air import Cached, Kernel
    from treadle.emulate.simt.execute import CompileIR

__all__ = ["CompileOptions", "Error", "Function", "Library", "Pipeline", "PipelineDescriptor"]

SIMD_WIDTH = 32
MOST_THREADS = 1024
_WITH_BFLOAT = (3 << 16) + 1  # MTLLanguageVersion3_1
_SAFE = 0  # MTLMathModeSafe


class Error(Object):
    """NSError."""

    def __init__(self, text: str, code: int = 1) -> None:
        self._text, self._code = text, code

    @message("localizedDescription")
    def localized_description(self) -> str:
        return self._text

    @message("code")
    def code(self) -> int:
        return self._code


class CompileOptions(Object):
    """MTLCompileOptions. Unless it is told otherwise, Metal takes floats for real numbers."""

    def __init__(self) -> None:
        self.math_mode: int | None = None
        self.language = 0

    @message("setMathMode:")
    def set_math_mode(self, mode: int) -> None:
        self.math_mode = mode

    @message("setLanguageVersion:")
    def set_language_version(self, version: int) -> None:
        self.language = version


class Library(Object):
    """MTLLibrary."""

    def __init__(
        self, owner: Object, text: str, options: CompileOptions, compile_ir: CompileIR,
        checks_races: bool, cached: Cached | None,
    ) -> None:  # fmt: skip
        if options.math_mode != _SAFE:
            raise Misuse("this text was not compiled with MTLMathModeSafe, which it relies on")
        if "bfloat" in text and options.language < _WITH_BFLOAT:
            raise TreadleError("unknown type name 'bfloat': it came with Metal 3.1")
        self.owner = owner
        module = Module(compile_msl(text, cached=cached))
        self.program = Program(module, compile_ir, available_cores(), checks_races)

    @message("newFunctionWithName:")
    def new_function(self, name: str) -> Function | None:
        found = self.program.module.kernels.get(name)
        return None if found is None else Function(self, found)


class Function(Object):
    """MTLFunction."""

    def __init__(self, library: Library, kernel: Kernel) -> None:
        self.library, self.kernel = library, kernel

    @message("name")
    def name(self) -> str:
        return self.kernel.name


class PipelineDescriptor(Object):
    """MTLComputePipelineDescriptor."""

    def __init__(self) -> None:
        self.function: Function | None = None
        self.most_threads = 0
        self.is_indirect = False

    @message("setComputeFunction:")
    def set_compute_function(self, function: Function) -> None:
        self.function = function

    @message("setMaxTotalThreadsPerThreadgroup:")
    def set_most_threads(self, threads: int) -> None:
        self.most_threads = threads

    @message("setSupportIndirectCommandBuffers:")
    def set_indirect(self, is_indirect: bool) -> None:
        self.is_indirect = is_indirect


class Pipeline(Object):
    """MTLComputePipelineState."""

    def __init__(self, function: Function, descriptor: PipelineDescriptor) -> None:
        self.kernel, self.program = function.kernel, function.library.program
        self.is_indirect = descriptor.is_indirect
        self.most_threads = descriptor.most_threads or function.kernel.max_threads

    @message("maxTotalThreadsPerThreadgroup")
    def max_total_threads(self) -> int:
        return self.most_threads
