"""CUDA: NVIDIA GPUs through their driver, or emulated ones; CUDA C through NVRTC, or PTX."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..errors import DeviceError
from ..target import Target, nvidia_target
from .record import Backend, CompileIR, Emulation, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.nvrtc import NVRTCCompiler
    from ..compile.ptx import PTXCompiler
    from ..emulate.cuda import EmulatedDriver
    from ..render.base import Renderer
    from ..runtime.base import Device
    from ..runtime.cuda import CUDADevice


__all__ = ["CUDA", "NVRTC", "PTX"]

_EMULATED = "sm_80"  # the oldest architecture with all that kernels are written for


# -- code -----------------------------------------------------------------------------------------


def _target(request: Request) -> Target:
    return nvidia_target(request.arch or _EMULATED)


def _nvrtc(target: Target, device: CUDADevice | None) -> NVRTCCompiler:
    """A GPU's own machine code where it is made for just that GPU; drivers refuse newer PTX."""
    from ..compile.nvrtc import NVRTCCompiler
    from ..runtime.cuda import runs_as_it_is

    is_native = device is not None and runs_as_it_is(device.facts, target)
    return NVRTCCompiler(target, "cubin" if is_native else "ptx")


def _cuda_renderer(target: Target, contract: bool) -> Renderer:
    from ..render.cuda import CUDARenderer

    return CUDARenderer(target, contract)


def _ptx(target: Target, device: object) -> PTXCompiler:
    from ..compile.ptx import PTXCompiler

    return PTXCompiler(target)


def _ptx_renderer(target: Target, contract: bool) -> Renderer:
    from ..render.ptx import PTXRenderer

    return PTXRenderer(target, contract)


NVRTC = Toolchain("NVRTC", "CUDA C", _nvrtc, _cuda_renderer, _target)
PTX = Toolchain("PTX", "embedded LLVM", _ptx, _ptx_renderer, _target, spellings=("CUDA_PTX",))


# -- the device -----------------------------------------------------------------------------------


def _open(request: Request) -> Device:
    from ..runtime.cuda import CUDADevice, target_of

    return CUDADevice(
        request.name, _driver(request), request.index, lambda facts: target_of(facts, request.arch)
    )


def _driver(request: Request) -> Any:
    """NVIDIA's driver, or the emulator. Raises DeviceError."""
    if request.emulation is not None:
        return _emulated_driver(request.emulation, request.compile_ir)
    from ..runtime.cuda import open_driver

    return open_driver()


@functools.cache
def _emulated_driver(emulation: Emulation, compile_ir: CompileIR) -> EmulatedDriver:
    from ..emulate.cuda import EmulatedDriver

    try:
        return EmulatedDriver(
            emulation.chip, emulation.devices, compile_ir, checks_races=emulation.checks_races
        )
    except ValueError as error:
        raise DeviceError(f"CUDA: {error}") from error


def _describe(request: Request) -> str:
    """The devices and the compiler; DeviceError names each piece that is missing."""
    from ..runtime.cuda import describe, target_of

    missing: list[str] = []
    about, target = "", _target(request)
    try:
        driver = _driver(request)
        about = describe(driver)
        target = target_of(max(driver.devices(), key=lambda facts: facts.capability))
    except DeviceError as error:
        missing.append(str(error))
    assert request.toolchain.compiler is not None
    compiler = request.toolchain.compiler(target, None)
    missing += filter(None, [compiler.available()])
    if missing:
        parts = [text.partition("; ") for text in missing]
        fixes = ", and ".join(fix for _, _, fix in parts if fix)
        raise DeviceError(f"{', and '.join(reason for reason, _, _ in parts)}; {fixes}")
    return f"{about}; {compiler.version}"


CUDA = Backend(
    "CUDA",
    "NVIDIA GPUs from Turing (sm_75) on, or emulated ones",
    (NVRTC, PTX),
    _open,
    _describe,
    variables=("CUDA_VISIBLE_DEVICES",),
    has_several=True,
    extra="cuda",
    nodes=("/dev/nvidia[0-9]*", "/dev/dxg"),
    is_chosen_unasked=True,
    emulated_chip=_EMULATED,
    dlpack=2,
    dlpack_host=3,
)
