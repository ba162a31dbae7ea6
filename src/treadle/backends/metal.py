"""METAL: Apple's GPUs through pyobjc, or emulated ones; the Metal Shading Language."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..errors import DeviceError
from ..target import APPLE_FAMILIES, Target, apple_target
from .record import Backend, Cached, CompileIR, Emulation, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.text import TextCompiler
    from ..render.base import Renderer
    from ..runtime.base import Device
    from ..runtime.metal import Messages

__all__ = ["METAL"]

_EMULATED, *_OTHERS = APPLE_FAMILIES  # the oldest family is what all others can do


def _target(request: Request) -> Target:
    return apple_target(request.arch or _EMULATED)


def _compiler(target: Target, device: object) -> TextCompiler:
    from ..compile.text import TextCompiler

    return TextCompiler("MSL", target)


def _renderer(target: Target, contract: bool) -> Renderer:
    from ..render.metal import MetalRenderer

    return MetalRenderer(target, contract)


def _open(request: Request) -> Device:
    from ..runtime.metal import MetalDevice

    return MetalDevice(request.name, _messages(request), request.index, request.arch)


def _messages(request: Request) -> Messages:
    """Metal of this machine, or the emulator. Raises DeviceError."""
    if request.emulation is not None:
        return _emulated(request.emulation, request.compile_ir, request.cached)
    from ..runtime.metal import open_messages

    return open_messages()


@functools.cache
def _emulated(emulation: Emulation, compile_ir: CompileIR, cached: Cached) -> Messages:
    from ..emulate.metal import EmulatedMetal

    try:
        return EmulatedMetal(
            emulation.chip, emulation.devices, compile_ir, emulation.checks_races, cached
        )
    except ValueError as error:
        raise DeviceError(f"METAL: {error}") from error


def _describe(request: Request) -> str:
    from ..runtime.metal import describe

    return describe(_messages(request))


_MSL = Toolchain(
    "MSL", "Metal's", _compiler, _renderer, _target, tested_architectures=tuple(_OTHERS)
)
METAL = Backend(
    "METAL",
    "Apple's GPUs from M1 on, or emulated ones",
    (_MSL,),
    _open,
    _describe,
    has_several=True,
    extra="metal",
    nodes=("/System/Library/Frameworks/Metal.framework",),  # of macOS, so never on Linux
    emulated_chip=_EMULATED,
    dlpack=8,
)
