"""LLVM IR text becomes a relocatable object, in this process, through llvmlite.

    LLVMCompiler(host_target()).compile("define void @f() { ret void }")  ->  an ELF object

Kernels arrive vectorised and unrolled, with accumulators and loop counters in allocas, so three
passes are enough: on a 12x32 matmul tile they give the very inner loop that O2 gives, in 2.6 ms
instead of 9. One surprise: LLVM prefers 256-bit vectors on AVX-512 machines unless the functions
in the IR say `"prefer-vector-width"="512"`.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from treadle.compile.report import save_rejected
from treadle.errors import DeviceError, InternalError
from treadle.forks import fork_safe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from llvmlite.binding.module import ModuleRef
    from llvmlite.binding.targets import TargetMachine

    from treadle.target import Target

__all__ = ["LLVMCompiler"]

# Promote allocas to registers, simplify, then drop the branches that became constant.
_PASSES = ("add_sroa_pass", "add_instruction_combine_pass", "add_simplify_cfg_pass")

# Where a loop says so: what its steps share is computed once for a few of them.
_UNROLLING = "llvm.loop.unroll"
_UNROLLING_PASSES = (*_PASSES, "add_loop_unroll_pass", "add_instruction_combine_pass")

# What is compiled quickly pays for a pass only if that leaves less for the rest to do.
_QUICK_PASSES = ("add_instruction_combine_pass",)

# The first release that reads `ptr` types.
_OLDEST = (0, 45)

# llvmlite locks each call, but one compile is many calls on one TargetMachine. A signal's handler
# may compile between two of them, and so may a finalizer, on a module of its own.
_LOCK = fork_safe(threading.RLock())


class LLVMCompiler:
    """Compiles LLVM IR for one target. Any number of threads may call it."""

    name = "LLVM"
    travels = True

    def __init__(self, target: Target) -> None:
        self.target = target

    @functools.cached_property
    def version(self) -> str:
        """llvmlite's version, which settles LLVM's."""
        return f"llvmlite {_llvmlite().__version__}"

    def available(self) -> str | None:
        """None, or why the embedded LLVM cannot be used."""
        try:
            return None if self.version else "llvmlite tells no version"
        except DeviceError as error:
            return str(error)

    def compile(self, source: str, *, quick: bool = False) -> bytes:
        """The ELF (Mach-O on macOS, COFF on Windows) object of one module of LLVM IR.

        `quick` is for code that hardly runs: made in about half of the time, hardly optimised.
        Raises InternalError, naming the file where the IR was saved, if LLVM rejects it.
        """
        return self._emit(source, "emit_object", quick)

    def assembly(self, source: str) -> str:
        """The same code as `compile` gives, as assembly text."""
        return self._emit(source, "emit_assembly")

    def _emit(self, source: str, emit: str, quick: bool = False) -> Any:
        llvm = _binding()
        with _LOCK:
            level = 0 if quick else 2
            machine = _machine(self.target.triple, self.target.cpu, self.target.features, level)
            # A context of its own: the global one would keep every type and name for ever.
            context = llvm.create_context()
            try:
                module = llvm.parse_assembly(source, context)
                module.triple = self.target.triple
                module.data_layout = str(machine.target_data)
                module.verify()
                passes = _UNROLLING_PASSES if _UNROLLING in source else _PASSES
                _run_passes(llvm, module, machine, _QUICK_PASSES if quick else passes)
                return getattr(machine, emit)(module)
            except RuntimeError as error:
                path = save_rejected(source, ".ll")
                raise InternalError(f"LLVM rejected generated IR: {error}; IR: {path}") from error


def _run_passes(
    llvm: ModuleType, module: ModuleRef, machine: TargetMachine, passes: Sequence[str]
) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    manager = llvm.create_new_module_pass_manager()
    for add in passes:
        getattr(manager, add)()
    manager.run(module, builder)


def _llvmlite() -> ModuleType:
    try:
        import llvmlite
    except ImportError as error:
        raise DeviceError(
            "llvmlite, the embedded LLVM, is missing: `pip install llvmlite` brings it"
        ) from error
    if tuple(map(int, llvmlite.__version__.split(".")[:2])) < _OLDEST:
        raise DeviceError(
            f"llvmlite {llvmlite.__version__} is too old for treadle, which needs "
            f"{'.'.join(map(str, _OLDEST))} or newer: `pip install -U llvmlite`"
        )
    return llvmlite


@functools.cache
def _binding() -> ModuleType:
    _llvmlite()
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@functools.cache
def _machine(triple: str, cpu: str, features: str, level: int) -> TargetMachine:
    """LLVM's TargetMachine. Position independent, so that an object can be placed anywhere."""
    kind = _binding().Target.from_triple(triple)
    return kind.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small"
    )
