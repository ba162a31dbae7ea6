"""AMD: AMD's GPUs through their kernel driver, past AMD's own user-space driver, or emulated ones.

No AMD GPU has run any of it yet. So none is taken without a wish.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from ..errors import DeviceError
from ..target import Target, amd_target
from .record import Backend, CompileIR, Emulation, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.comgr import ComgrCompiler
    from ..compile.llvm import LLVMCompiler
    from ..render.base import Renderer
    from ..runtime.base import Device
    from ..runtime.hardware.amd import KFD

__all__ = ["AMD", "HIP", "LLVM"]

_USUAL = "gfx1100"
_USUAL_OF_HIP = "gfx1030"  # which every libamd_comgr knows


# -- code -----------------------------------------------------------------------------------------


def _target(request: Request) -> Target:
    return amd_target(request.arch or _USUAL)


def _llvm(target: Target, device: object) -> LLVMCompiler:
    from ..compile.llvm import LLVMCompiler

    return LLVMCompiler(target)


def _llvm_renderer(target: Target, contract: bool) -> Renderer:
    from ..render.amdgpu import AMDGPURenderer

    return AMDGPURenderer(target, contract)


def _target_of_hip(request: Request) -> Target:
    return amd_target(request.arch or _USUAL_OF_HIP)


def _comgr(target: Target, device: object) -> ComgrCompiler:
    from ..compile.comgr import ComgrCompiler

    return ComgrCompiler(target)


def _hip_renderer(target: Target, contract: bool) -> Renderer:
    from ..render.hip import HIPRenderer

    return HIPRenderer(target, contract)


LLVM = Toolchain(
    "LLVM", "embedded LLVM", _llvm, _llvm_renderer, _target,
    spellings=("AMD_LLVM",), tested_architectures=("gfx1030", "gfx1201", "gfx942"),
)  # fmt: skip
# Few machines have the library, so its chips take a share of the default compiler's tests.
HIP = Toolchain(
    "HIP", "AMD's libamd_comgr", _comgr, _hip_renderer, _target_of_hip,
    spellings=("AMD_HIP",), is_tested=False, tested_architectures=("gfx1030", "gfx90a"),
)  # fmt: skip


# -- the device -----------------------------------------------------------------------------------


def _open(request: Request) -> Device:
    from ..runtime.hardware.amd import AMDDevice, target_of

    kfd = _driver(request)
    is_emulated = request.emulation is not None
    return AMDDevice(
        request.name, kfd, request.index, lambda node: target_of(node, request.arch, is_emulated)
    )


def _driver(request: Request) -> KFD:
    """The kernel driver, or an emulated one. Raises DeviceError."""
    if request.emulation is not None:
        return _emulated_driver(request.emulation, request.compile_ir)
    return _kernel_driver()


@functools.cache
def _kernel_driver() -> KFD:
    from ..runtime.hardware.amd import KFD
    from ..runtime.hardware.platform import LinuxPlatform

    return KFD(LinuxPlatform())


@functools.cache
def _emulated_driver(emulation: Emulation, compile_ir: CompileIR) -> KFD:
    from ..emulate.amd.execute import Executor
    from ..emulate.kfd import EmulatedKFD
    from ..emulate.machine.platform import EmulatedPlatform
    from ..runtime.hardware.amd import KFD
    from ..target import available_cores

    platform = EmulatedPlatform()
    execute = Executor(compile_ir, available_cores(), emulation.checks_races)
    try:
        EmulatedKFD(platform, [emulation.chip] * emulation.devices, execute)
    except ValueError as error:
        raise DeviceError(f"AMD: {error}") from error
    return KFD(platform)


if hasattr(os, "register_at_fork"):  # a driver is of the process that opened it
    os.register_at_fork(after_in_child=_kernel_driver.cache_clear)
    os.register_at_fork(after_in_child=_emulated_driver.cache_clear)


def _describe(request: Request) -> str:
    """The devices and the compiler."""
    from ..runtime.hardware.amd import describe

    devices, toolchain = describe(_driver(request)), request.toolchain
    assert toolchain.compiler is not None
    assert toolchain.target is not None
    return f"{devices}; {toolchain.compiler(toolchain.target(request), None).version}"


AMD = Backend(
    "AMD",
    "AMD's GPUs from RDNA2 and CDNA2 on by the kernel driver amdgpu, or emulated ones",
    (LLVM, HIP),
    _open,
    _describe,
    variables=("ROCM_PATH",),
    interfaces=("KFD",),
    has_several=True,
    nodes=("/dev/kfd",),
    emulated_chip=_USUAL,
    dlpack_host=11,
)
