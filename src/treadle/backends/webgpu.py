"""WEBGPU: what Dawn, the WebGPU of Chrome, finds: a Vulkan, Metal or D3D12 driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .record import GPU_NODES, Backend, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.text import TextCompiler
    from ..render.base import Renderer
    from ..runtime.base import Device
    from ..target import Target

__all__ = ["WEBGPU"]


def _compiler(target: Target, device: object) -> TextCompiler:
    from ..compile.text import TextCompiler

    return TextCompiler("WGSL", target)


def _renderer(target: Target, contract: bool) -> Renderer:
    from ..render.wgsl import WGSLRenderer

    return WGSLRenderer(target, contract)


def _open(request: Request) -> Device:
    from ..runtime.webgpu import WebGPUDevice

    return WebGPUDevice(request.name, request.index, request.arch)


def _describe(request: Request) -> str:
    from ..runtime.webgpu import describe

    return describe()


WEBGPU = Backend(
    "WEBGPU",
    "Dawn, the WebGPU of Chrome, on a Vulkan, Metal or D3D12 driver",
    (Toolchain("WGSL", "Dawn's", _compiler, _renderer),),
    _open,
    _describe,
    variables=("WEBGPU_BACKEND",),
    extra="webgpu",
    nodes=GPU_NODES,
    is_chosen_unasked=True,
    dlpack=15,
)
