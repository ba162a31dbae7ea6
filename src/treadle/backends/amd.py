"""AMD: AMD's GPUs, past AMD's own user-space driver.

Code is made for them (`DEV=NULL:0:AMDGPU:gfx1100` shows it); what runs it is not here yet, so that
the device is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..target import Target, amd_target
from .record import Backend, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.llvm import LLVMCompiler
    from ..render.base import Renderer

__all__ = ["AMD", "LLVM"]

_USUAL = "gfx1100"


def _target(request: Request) -> Target:
    return amd_target(request.arch or _USUAL)


def _compiler(target: Target, device: object) -> LLVMCompiler:
    from ..compile.llvm import LLVMCompiler

    return LLVMCompiler(target)


def _renderer(target: Target, contract: bool) -> Renderer:
    from ..render.amdgpu import AMDGPURenderer

    return AMDGPURenderer(target, contract)


LLVM = Toolchain("LLVM", "embedded LLVM", _compiler, _renderer, _target, spellings=("AMD_LLVM",))

AMD = Backend(
    "AMD",
    "AMD's GPUs, past AMD's own user-space driver",
    (LLVM,),
    spellings=("AMD_HIP",),
    interfaces=("KFD", "PCI", "USB"),
    dlpack_host=11,
)
