"""Rows about overheads of the default device: the CPU's, or of the runtime that DEV chooses.

CL      a captured graph of small kernels, over the same kernels enqueued by pyopencl alone
WEBGPU  a captured graph of small kernels, over tinygrad's on the same Dawn and driver
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

from ..engine.selection import environment_choice
from ..errors import UserError
from .index_checks import index_checks
from .latency import overheads
from .nvdec import nvdec_overheads
from .process import Overhead, printed
from .scaling import scaling
from .video import video_overheads

__all__ = ["overheads_here"]

CL = """
import statistics, time
import pyopencl as cl
from treadle import Device, Tensor, TinyJit
from treadle.engine.memory import memory_of
def chain(x):
    for _ in range({count}):
        x = (x + 1).contiguous()
    return x.realize()
step, x, device = TinyJit(chain), Tensor([0.0] * 256).realize(), Device["CL"].runtime
source = "kernel void f(global const float *x, global float *y) {{ y[0] = x[0] + 1; }}"
kernel = cl.Program(device.context, source).build().f
memory = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 1024)
kernel.set_args(memory, memory)
def replay():
    step(x)
    device.synchronize()
def bare():
    for _ in range({count}):
        cl.enqueue_nd_range_kernel(device.queue, kernel, (1,), (1,))
    device.queue.finish()
def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
for _ in range(4):
    replay(), bare()
print(statistics.median(seconds(replay) / seconds(bare) for _ in range(30)))
"""
CHAIN = """
import statistics, time
from {library} import Device, Tensor, TinyJit
def chain(x):
    for _ in range({count}):
        x = (x * 1.5 + 1).contiguous()
    return x.realize()
step, x, device = TinyJit(chain), Tensor([0.0] * 64).realize(), Device["WEBGPU"]
times = []
for _ in range(24):
    start = time.perf_counter()
    step(x)
    device.synchronize()
    times.append(time.perf_counter() - start)
print(statistics.median(times[4:]))
"""


def overheads_here(quick: bool) -> list[Overhead]:
    """The rows of the default device's runtime."""
    choice = environment_choice()
    runtime = "CPU" if choice is None else choice.runtime
    if runtime == "CL":
        counts = (20,) if quick else (50, 1000)
        return [
            Overhead(f"CL replay, {n} kernels over bare ones", "x", 2.0, _cl(n)) for n in counts
        ]
    if runtime == "WEBGPU":
        count = 10 if quick else 50
        name = f"WEBGPU replay, {count} kernels over tinygrad's"
        return [Overhead(name, "x", 0.2, lambda: _webgpu(count))]
    found = [*overheads(quick), *scaling(quick), *index_checks(quick)]
    return [*found, *video_overheads(quick), *nvdec_overheads(quick)]


def _cl(count: int) -> Callable[[], float]:
    return lambda: printed(CL.format(count=count))


def _webgpu(count: int) -> float:
    """Seconds of treadle's replay over those of tinygrad's. Raises UserError without a tinygrad."""
    if importlib.util.find_spec("tinygrad") is None:
        raise UserError("[bench] the peer tinygrad is not installed; run: pip install tinygrad")
    from ..runtime.webgpu.library import find_library

    backend = os.environ.get("WEBGPU_BACKEND", "Vulkan").removeprefix("WGPUBackendType_")
    theirs = printed(
        CHAIN.format(library="tinygrad", count=count),
        DEV="WEBGPU", WEBGPU_PATH=find_library().path, WEBGPU_BACKEND=f"WGPUBackendType_{backend}",
    )  # fmt: skip
    return printed(CHAIN.format(library="treadle", count=count)) / theirs
