"""QCOM: Qualcomm's Adreno GPUs through their kernel driver, KGSL, or emulated ones.

No GPU has run any of it yet. So none is taken without a wish.
"""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import DeviceError
from ..target import Target, adreno_target
from .record import Backend, CompileIR, Emulation, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.ir3 import IR3Compiler
    from ..compile.mesa_ir3 import MesaIR3Compiler
    from ..render.base import Renderer
    from ..runtime.base import Device
    from ..runtime.hardware.qcom import KGSL

__all__ = ["ADRENO", "IR3", "QCOM"]

_DEFAULT = "a630"


# -- code -----------------------------------------------------------------------------------------


def _target(request: Request) -> Target:
    return adreno_target(request.arch or _DEFAULT)


def _compiler(target: Target, device: object) -> IR3Compiler:
    from ..compile.ir3 import IR3Compiler

    return IR3Compiler(target)


def _renderer(target: Target, contract: bool) -> Renderer:
    from ..render.ir3 import IR3Renderer

    return IR3Renderer(target, contract)


def _within_mesa(target: Target) -> Target:
    """What Mesa's compiler is given: all buffers may be images, and it counts to 32 of these."""
    return replace(target, max_buffers=32)


def _mesa_target(request: Request) -> Target:
    return _within_mesa(_target(request))


def _mesa_compiler(target: Target, device: object) -> MesaIR3Compiler:
    from ..compile.mesa_ir3 import MesaIR3Compiler

    return MesaIR3Compiler(target)


ADRENO = Toolchain("ADRENO", "treadle's own", _compiler, _renderer, _target)
IR3 = Toolchain(
    "IR3", "Mesa's, of the package tinymesa", _mesa_compiler, _renderer, _mesa_target,
    spellings=("QCOM_IR3",), is_tested=False,
)  # fmt: skip


# -- the device -----------------------------------------------------------------------------------


def _open(request: Request) -> Device:
    from ..runtime.hardware.qcom import QCOMDevice, target_of

    if request.index:
        raise DeviceError(f"there is no {request.name}: the kernel driver shows 1 GPU")
    is_emulated = request.emulation is not None

    def make_target(chip_id: int) -> Target:
        found = target_of(chip_id, request.arch, is_emulated)
        return _within_mesa(found) if request.toolchain is IR3 else found

    return QCOMDevice(request.name, _driver(request), make_target)


def _driver(request: Request) -> KGSL:
    """The kernel driver, or an emulated one. Raises DeviceError."""
    if request.emulation is not None:
        return _emulated_driver(request.emulation, request.compile_ir)
    return _kernel_driver()


@functools.cache
def _kernel_driver() -> KGSL:
    from ..runtime.hardware.platform import LinuxPlatform
    from ..runtime.hardware.qcom import KGSL

    return KGSL(LinuxPlatform())


@functools.cache
def _emulated_driver(emulation: Emulation, compile_ir: CompileIR) -> KGSL:
    from ..emulate.ir3.execute import Executor
    from ..emulate.kgsl import EmulatedKGSL
    from ..emulate.machine.platform import EmulatedPlatform
    from ..runtime.hardware.qcom import KGSL
    from ..target import available_cores

    # However many are asked for: KGSL has one.
    platform = EmulatedPlatform()
    execute = Executor(compile_ir, available_cores(), emulation.checks_races)
    try:
        EmulatedKGSL(platform, emulation.chip, execute)
    except ValueError as error:
        raise DeviceError(f"QCOM: {error}") from error
    return KGSL(platform)


if hasattr(os, "register_at_fork"):  # a driver is of the process that opened it
    os.register_at_fork(after_in_child=_kernel_driver.cache_clear)
    os.register_at_fork(after_in_child=_emulated_driver.cache_clear)


def _describe(request: Request) -> str:
    from ..runtime.hardware.qcom import describe

    return describe(_driver(request))


QCOM = Backend(
    "QCOM",
    "Qualcomm's Adreno GPUs by the kernel driver KGSL, or an emulated one",
    (ADRENO, IR3),
    _open,
    _describe,
    variables=("MESA_LIBRARY",),
    nodes=("/dev/kgsl-3d0",),
    emulated_chip=_DEFAULT,
)
