"""OpenCL devices, through pyopencl: platforms.py finds them, device.py runs on them.

    device = CLDevice("CL")
    buffer = device.allocator.alloc(1024)

pyopencl is imported when the first device is looked for, never before.
"""

from treadle.runtime.cl.device import CLDevice
from treadle.runtime.cl.platforms import describe, find_devices

__all__ = ["CLDevice", "describe", "find_devices"]
