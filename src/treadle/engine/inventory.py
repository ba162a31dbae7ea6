"""What works on this machine, and what would mend the rest: the lines of `treadle doctor`.

    inventory()   ->  [Row("CPU", "LLVM", "", True, "the embedded LLVM", ""), ...]

Nothing stays open: a driver or a library is loaded where that is the only way to know. A compiler
for processors works once a function that it compiled has run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..compile.clang import ClangCompiler
from ..compile.llvm import LLVMCompiler
from ..errors import DeviceError, InternalError
from ..runtime.loader import load_object
from ..target import Target, host_target, parse_target
from .backends import cuda_driver
from .selection import LATER

__all__ = ["Row", "inventory"]


@dataclass(frozen=True)
class Row:
    """One line of `treadle doctor`: whether a way to run works here, and what mends it if not."""

    runtime: str
    compiler: str
    interface: str
    usable: bool
    reason: str
    fix: str


def inventory() -> list[Row]:
    """Every runtime and compiler, whether it can be used here, and what to do if not."""
    rows = []
    for (runtime, compiler), about in _ABOUT.items():
        try:
            reason, fix, usable = about(), "", True
        except DeviceError as error:
            reason, _, fix = str(error).partition("; ")
            usable = False
        rows.append(Row(runtime, compiler, "", usable, reason, fix))
    rows += [Row(name, "", "", False, "not part of this version of treadle", "") for name in LATER]
    return rows


# A function that doubles an integer, in the language of each compiler for processors.
_TWICE = {
    "LLVM": "define i32 @twice(i32 %x) { %y = add i32 %x, %x ret i32 %y }",
    "CLANG": "int twice(int x) { return x + x; }",
}


_OTHER = "install another version, or use another compiler, as in DEV=CPU:LLVM"


def _about_processor(compiler: Any) -> str:
    """What `compiler` says of itself, once a function that it made has run."""
    missing = compiler.available()
    if missing is not None:
        raise DeviceError(missing)
    try:
        library = load_object(compiler.compile(_TWICE[compiler.name]), ["twice"])
    except InternalError as error:
        raise DeviceError(f"{error}; {_OTHER}") from error
    twice = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library.address("twice"))
    if (result := twice(21)) != 42:
        raise DeviceError(f"{compiler.version} computes twice 21 as {result}; {_OTHER}")
    return "the embedded LLVM" if compiler.name == "LLVM" else _about_clang(compiler)


def _about_clang(compiler: ClangCompiler) -> str:
    wanted = compiler.target.cpu
    older = "" if compiler.cpu == wanted else f", for {compiler.cpu}, as it knows no {wanted}"
    return f"{compiler.version}{older}"


def _about_cl() -> str:
    from ..runtime.cl import describe

    return describe()


def _about_webgpu() -> str:
    from ..runtime.webgpu import describe

    return describe()


def _about_cuda_nvrtc() -> str:
    from ..compile.nvrtc import NVRTCCompiler

    return _about_cuda(NVRTCCompiler)


def _about_cuda_ptx() -> str:
    from ..compile.ptx import PTXCompiler

    return _about_cuda(PTXCompiler)


def _about_cuda(make_compiler: Callable[[Target], Any]) -> str:
    """The devices and the compiler; DeviceError names each piece that is missing."""
    from ..runtime.cuda import describe, target_of

    missing: list[str] = []
    about, target = "", parse_target("sm_80")
    try:
        driver = cuda_driver(None)
        about = describe(driver)
        target = target_of(max(driver.devices(), key=lambda facts: facts.capability))
    except DeviceError as error:
        missing.append(str(error))
    compiler = make_compiler(target)
    missing += filter(None, [compiler.available()])
    if missing:
        parts = [text.partition("; ") for text in missing]
        fixes = ", and ".join(fix for _, _, fix in parts if fix)
        raise DeviceError(f"{', and '.join(reason for reason, _, _ in parts)}; {fixes}")
    return f"{about}; {compiler.version}"


# What `treadle doctor` says of each backend; DeviceError says why it cannot be used.
_ABOUT: dict[tuple[str, str], Callable[[], str]] = {
    ("CPU", "LLVM"): lambda: _about_processor(LLVMCompiler(host_target())),
    ("CPU", "CLANG"): lambda: _about_processor(ClangCompiler(host_target())),
    ("CL", "OPENCL"): _about_cl,
    ("WEBGPU", "WGSL"): _about_webgpu,
    ("CUDA", "NVRTC"): _about_cuda_nvrtc,
    ("CUDA", "PTX"): _about_cuda_ptx,
    ("REF", "NUMPY"): lambda: "the reference interpreter",
    ("NULL", "LLVM"): lambda: "compiles, but runs nothing",
}
