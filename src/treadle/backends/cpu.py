"""CPU: this machine's cores, with code of the embedded LLVM or of a clang on the PATH."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING

from ..config import settings
from ..errors import DeviceError, InternalError, SettingError
from ..target import Target, host_target, parse_target
from .record import Backend, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.clang import ClangCompiler
    from ..compile.llvm import LLVMCompiler
    from ..render.base import Renderer
    from ..runtime.base import Device

__all__ = ["CPU", "LLVM"]


# -- code -----------------------------------------------------------------------------------------


def _processor(request: Request) -> Target:
    target = parse_target(request.arch) if request.arch else host_target()
    if target.workgroup is not None:
        raise SettingError(f"{request.full_name}: {request.arch} is no processor's architecture")
    return target


def _llvm(target: Target, device: object) -> LLVMCompiler:
    from ..compile.llvm import LLVMCompiler

    return LLVMCompiler(target)


def _llvm_renderer(target: Target, contract: bool) -> Renderer:
    from ..render.llvm import LLVMRenderer

    return LLVMRenderer(
        triple=target.triple,
        vector_bits=8 * target.vector_bytes,
        registers=target.vector_registers,
        contract=contract,
    )


def _processor_of_clang(request: Request) -> Target:
    from ..compile.clang import clang_target

    return clang_target(_processor(request))


def _clang(target: Target, device: object) -> ClangCompiler:
    from ..compile.clang import ClangCompiler

    return ClangCompiler(target)


def _c_renderer(target: Target, contract: bool) -> Renderer:
    from ..render.c import CRenderer

    return CRenderer(contract)


LLVM = Toolchain(
    "LLVM", "embedded", _llvm, _llvm_renderer, _processor,
    spellings=("CPU_LLVM", "LLVM"),
)  # fmt: skip
CLANG = Toolchain(
    "CLANG",
    "the newest `clang` on the PATH; one that is older than the processor compiles for the newest "
    "CPU that it knows",
    _clang, _c_renderer, _processor_of_clang, spellings=("CPU_CLANG", "CLANG"), is_tested=False,
)  # fmt: skip


# -- the device -----------------------------------------------------------------------------------


def _open(request: Request) -> Device:
    from ..runtime.cpu import CpuDevice

    assert request.toolchain.target is not None
    target, host = request.toolchain.target(request), host_target()
    _check_runs_here(request, target, host)
    # Whatever instructions it uses, it runs on this machine.
    target = replace(target, l1=host.l1, l2=host.l2, l3=host.l3, cores=host.cores)
    return CpuDevice(request.name, target, request.compile_ir, settings.CPU_COUNT or None)


def _check_runs_here(request: Request, target: Target, host: Target) -> None:
    """Raises DeviceError for instructions that this processor lacks: they would end the process."""
    lacks = target.arch != host.arch or target.vector_bytes > host.vector_bytes
    if lacks or (target.has_fma and not host.has_fma):
        raise DeviceError(
            f"{request.full_name}: this machine ({host.cpu}, vectors of {host.vector_bytes} bytes) "
            f"lacks instructions of {request.arch}; DEV=NULL:0:LLVM:{request.arch} compiles for "
            "that and runs nothing"
        )


# -- what `treadle doctor` says -------------------------------------------------------------------

_OTHER = "install another version, or use another compiler, as in DEV=CPU:LLVM"


def _describe(request: Request) -> str:
    """What a compiler says of itself, once a function that it made has run."""
    if request.toolchain.name == "LLVM":
        _check(_llvm(host_target(), None), _TWICE_IN_IR)
        return "the embedded LLVM"
    compiler = _clang(host_target(), None)
    _check(compiler, _TWICE_IN_C)
    wanted = compiler.target.cpu
    older = "" if compiler.cpu == wanted else f", for {compiler.cpu}, as it knows no {wanted}"
    return f"{compiler.version}{older}"


_TWICE_IN_IR = "define i32 @twice(i32 %x) { %y = add i32 %x, %x ret i32 %y }"
_TWICE_IN_C = "int twice(int x) { return x + x; }"


def _check(compiler: LLVMCompiler | ClangCompiler, source: str) -> None:
    """Raises DeviceError unless `twice`, which `source` defines, runs and is right."""
    from ..runtime.loader import load_object

    missing = compiler.available()
    if missing is not None:
        raise DeviceError(missing)
    try:
        library = load_object(compiler.compile(source), ["twice"])
    except InternalError as error:
        raise DeviceError(f"{error}; {_OTHER}") from error
    twice = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library.address("twice"))
    if (result := twice(21)) != 42:
        raise DeviceError(f"{compiler.version} computes twice 21 as {result}; {_OTHER}")


CPU = Backend(
    "CPU",
    "this machine's cores, by a pool of native threads",
    (LLVM, CLANG),
    _open,
    _describe,
    dlpack_host=1,
)
