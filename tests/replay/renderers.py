"""The renderers whose text is recorded, each with a target that is the same on every machine.

RENDERERS["ptx sm_80"]()  ->  (its Target, the renderer)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from treadle.render.amdgpu import AMDGPURenderer
from treadle.render.c import CRenderer
from treadle.render.cuda import CUDARenderer
from treadle.render.llvm import LLVMRenderer
from treadle.render.opencl import OpenCLRenderer
from treadle.render.ptx import PTXRenderer
from treadle.render.wgsl import WGSLRenderer
from treadle.runtime.cl import platforms
from treadle.runtime.webgpu import adapter
from treadle.runtime.webgpu.structures import LIMITS
from treadle.target import Target, parse_target

__all__ = ["RENDERERS"]

Made = tuple[Target, Any]
CORES = 4
CACHES = {"l1": 32 << 10, "l2": 1 << 20, "l3": 32 << 20}


def _processor(arch: str) -> Target:
    return replace(parse_target(arch), cores=CORES, **CACHES)


def _llvm(arch: str) -> Made:
    target = _processor(arch)
    return target, LLVMRenderer(triple=target.triple, vector_bits=8 * target.vector_bytes)


def _c() -> Made:
    return _processor("x86-64-v3"), CRenderer(contract=True)


def _opencl(schedule: str) -> Made:
    facts = platforms.Facts(
        handle=None, platform="replay", name="replay", driver="x86_64-pc-linux-gnu-haswell",
        version=(3, 0), is_software=True, shares_memory=True, has_half=False, has_double=True,
        has_subgroups=False, max_image=(16384, 16384), local_bytes=32 << 10, max_work_items=1024,
        max_alloc=1 << 32, units=CORES,
    )  # fmt: skip
    target = replace(platforms.target_of(facts, schedule), **CACHES)
    return target, OpenCLRenderer(target, True)


def _wgsl() -> Made:
    limits = dict.fromkeys(LIMITS, 1 << 30) | {
        "work_items": 256, "work_items_x": 256, "shared_bytes": 16 << 10, "storage_buffers": 8,
        "storage_bytes": 1 << 30,
    }  # fmt: skip
    facts = adapter.Facts(
        name="replay", vendor="replay", kind="discrete GPU", backend="Vulkan", library="replay",
        features=frozenset(("shader-f16", "subgroups")), limits=limits, subgroup=(32, 32),
    )  # fmt: skip
    target = adapter.target_of(facts)
    return target, WGSLRenderer(target, True)


def _gpu(renderer: Any, arch: str) -> Made:
    target = parse_target(arch)
    return target, renderer(target, True)


RENDERERS: dict[str, Callable[[], Made]] = {
    "llvm avx512": lambda: _llvm("x86-64-v4"),
    "llvm avx2": lambda: _llvm("x86-64-v3"),
    "llvm sse": lambda: _llvm("x86-64-v2"),
    "llvm aarch64": lambda: _llvm("aarch64"),
    "c": _c,
    "opencl cpu": lambda: _opencl("cpu"),
    "opencl gpu": lambda: _opencl("gpu"),
    "wgsl": _wgsl,
    "cuda sm_80": lambda: _gpu(CUDARenderer, "sm_80"),
    "cuda sm_90a": lambda: _gpu(CUDARenderer, "sm_90a"),
    "ptx sm_80": lambda: _gpu(PTXRenderer, "sm_80"),
    "ptx sm_90a": lambda: _gpu(PTXRenderer, "sm_90a"),
    "amdgpu gfx1100": lambda: _gpu(AMDGPURenderer, "gfx1100"),
    "amdgpu gfx942": lambda: _gpu(AMDGPURenderer, "gfx942"),
}
