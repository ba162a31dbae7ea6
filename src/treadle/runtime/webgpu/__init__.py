"""WebGPU devices, through Dawn's C interface: library.py finds it, device.py runs on it.

    device = WebGPUDevice("WEBGPU")
    buffer = device.allocator.alloc(1024)

Dawn is loaded when the first device is opened, never before.
"""

from treadle.runtime.webgpu.adapter import describe
from treadle.runtime.webgpu.device import WebGPUDevice

__all__ = ["WebGPUDevice", "describe"]
