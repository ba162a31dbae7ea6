"""CL: OpenCL devices, through pyopencl, with the compiler of their driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .record import GPU_NODES, Backend, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.opencl import OpenCLCompiler
    from ..render.base import Renderer
    from ..runtime.base import Device
    from ..runtime.cl import CLDevice
    from ..target import Target

__all__ = ["CL"]


def _compiler(target: Target, device: CLDevice) -> OpenCLCompiler:
    from ..compile.opencl import OpenCLCompiler

    return OpenCLCompiler(target, device.build)


def _renderer(target: Target, contract: bool) -> Renderer:
    from ..render.opencl import OpenCLRenderer

    return OpenCLRenderer(target, contract)


def _open(request: Request) -> Device:
    from ..runtime.cl import CLDevice

    return CLDevice(request.name, request.index, request.arch)


def _describe(request: Request) -> str:
    from ..runtime.cl import describe

    return describe()


CL = Backend(
    "CL",
    "OpenCL 2.0 or newer, GPUs first",
    (Toolchain("OPENCL", "the driver's", _compiler, _renderer),),
    _open,
    _describe,
    spellings=("GPU",),
    variables=("OCL_ICD_VENDORS",),
    has_several=True,
    extra="cl",
    nodes=GPU_NODES,
    is_chosen_unasked=True,
    dlpack=4,
)
