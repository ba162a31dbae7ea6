"""NULL: schedules and compiles for a target, and runs nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import DeviceError
from . import amd
from .cpu import LLVM
from .cuda import NVRTC, PTX
from .qcom import ADRENO, IR3
from .record import Backend, Request, Toolchain

if TYPE_CHECKING:
    from ..runtime.base import Device

__all__ = ["NULL"]


def _alone(toolchain: Toolchain, name: str | None = None) -> Toolchain:
    """A toolchain as it is without a device of its own, by another name if need be."""
    make = toolchain.compiler
    assert make is not None
    return replace(
        toolchain,
        compiler=lambda target, _: make(target, None),
        spellings=(),
        name=name or toolchain.name,
    )


def _open(request: Request) -> Device:
    from ..runtime.null import NullDevice

    assert request.toolchain.target is not None
    return NullDevice(request.name, request.toolchain.target(request))


def _describe(request: Request) -> str:
    toolchain = request.toolchain
    assert toolchain.compiler is not None
    assert toolchain.target is not None
    missing = toolchain.compiler(toolchain.target(request), None).available()
    if missing is not None:
        raise DeviceError(missing)
    return "compiles, but runs nothing"


NULL = Backend(
    "NULL",
    "schedules and compiles for a processor, an NVIDIA GPU (`DEV=NULL:0:PTX:sm_90`), an AMD GPU "
    "(`DEV=NULL:0:AMDGPU:gfx1100`) or an Adreno (`DEV=NULL:0:ADRENO:a630`), and runs nothing: for "
    "looking at kernels and for timing the compiler",
    (
        _alone(LLVM),
        _alone(NVRTC),
        _alone(PTX),
        _alone(amd.LLVM, "AMDGPU"),
        _alone(amd.HIP),
        _alone(ADRENO),
        _alone(IR3),
    ),
    _open,
    _describe,
    computes=False,
)
