"""NV: NVIDIA GPUs through their kernel driver, past NVIDIA's own library, or emulated ones.

No GPU has run any of it yet. So none is taken without a wish.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from ..errors import DeviceError
from ..target import Target
from .record import Backend, CompileIR, Emulation, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.nvrtc import NVRTCCompiler
    from ..compile.ptxas import PTXASCompiler
    from ..emulate.nv.compiler import RecordingCompiler
    from ..emulate.nv.programs import Programs
    from ..render.base import Renderer
    from ..runtime.base import Device
    from ..runtime.hardware.nv import RM, NVDevice

__all__ = ["NV", "NVRTC", "PTX"]

_USUAL = "sm_80"
_OTHERS = ("sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")


# -- code -----------------------------------------------------------------------------------------


def _target(request: Request) -> Target:
    from ..runtime.hardware.nv import plain_target

    return plain_target(request.arch or _USUAL)


def _nvrtc(target: Target, device: NVDevice | None) -> NVRTCCompiler | RecordingCompiler:
    """An emulated GPU runs the PTX that is recorded beside its machine code."""
    from ..compile.nvrtc import NVRTCCompiler

    compiler = NVRTCCompiler(target, "cubin")
    if device is None or not device.is_software:
        return compiler
    from ..emulate.nv.compiler import RecordingCompiler

    return RecordingCompiler(compiler)


def _cuda_renderer(target: Target, contract: bool) -> Renderer:
    from ..render.cuda import CUDARenderer

    return CUDARenderer(target, contract)


def _ptxas(target: Target, device: NVDevice | None) -> PTXASCompiler | RecordingCompiler:
    from ..compile.ptxas import PTXASCompiler

    compiler = PTXASCompiler(target)
    if device is None or not device.is_software:
        return compiler
    from ..emulate.nv.compiler import RecordingCompiler

    return RecordingCompiler(compiler)


def _ptx_renderer(target: Target, contract: bool) -> Renderer:
    from ..render.ptx import PTXRenderer

    return PTXRenderer(target, contract)


NVRTC = Toolchain(
    "NVRTC", "CUDA C", _nvrtc, _cuda_renderer, _target, tested_architectures=_OTHERS
)  # fmt: skip
PTX = Toolchain(
    "PTX", "embedded LLVM and ptxas", _ptxas, _ptx_renderer, _target,
    spellings=("NV_PTX",), tested_architectures=_OTHERS,
)  # fmt: skip


# -- the device -----------------------------------------------------------------------------------


def _open(request: Request) -> Device:
    from ..runtime.hardware.nv import NVDevice, target_of

    rm, programs = _driver(request)
    is_emulated = programs is not None
    return NVDevice(
        request.name,
        rm,
        request.index,
        lambda own, facts: target_of(own, facts, request.arch, is_emulated),
        on_load=programs.record if programs is not None else None,
    )


def _driver(request: Request) -> tuple[RM, Programs | None]:
    """The kernel driver, or an emulated one with what it knows of code. Raises DeviceError."""
    if request.emulation is not None:
        return _emulated_driver(request.emulation, request.compile_ir)
    return _kernel_driver(), None


@functools.cache
def _kernel_driver() -> RM:
    from ..runtime.hardware.nv import RM
    from ..runtime.hardware.platform import LinuxPlatform

    return RM(LinuxPlatform())


@functools.cache
def _emulated_driver(emulation: Emulation, compile_ir: CompileIR) -> tuple[RM, Programs]:
    from ..emulate.machine.platform import EmulatedPlatform
    from ..emulate.nv import EmulatedNV
    from ..emulate.nv.execute import Executor
    from ..emulate.nv.programs import Programs
    from ..runtime.hardware.nv import RM
    from ..target import available_cores

    platform = EmulatedPlatform()
    programs = Programs(compile_ir, available_cores(), emulation.checks_races)
    try:
        EmulatedNV(platform, [emulation.chip] * emulation.devices, Executor(programs))
    except ValueError as error:
        raise DeviceError(f"NV: {error}") from error
    return RM(platform), programs


if hasattr(os, "register_at_fork"):  # a driver is of the process that opened it
    os.register_at_fork(after_in_child=_kernel_driver.cache_clear)
    os.register_at_fork(after_in_child=_emulated_driver.cache_clear)


def _describe(request: Request) -> str:
    """The devices and the compiler."""
    from ..runtime.hardware.nv import describe

    devices, toolchain = describe(_driver(request)[0]), request.toolchain
    assert toolchain.compiler is not None
    assert toolchain.target is not None
    compiler = toolchain.compiler(toolchain.target(request), None)
    missing = compiler.available()
    if missing is not None:
        raise DeviceError(missing)
    return f"{devices}; {compiler.version}"


NV = Backend(
    "NV",
    "NVIDIA GPUs from Ampere on by the open kernel driver, past libcuda, or emulated ones",
    (NVRTC, PTX),
    _open,
    _describe,
    interfaces=("NVK",),
    has_several=True,
    extra="nv",
    nodes=("/dev/nvidiactl",),
    emulated_chip=_USUAL,
)
