"""NVIDIA's GPUs through their kernel driver, past libcuda.

    device = NVDevice("NV", RM(platform), 0, make_target)
    buffer = device.allocator.alloc(1 << 20)
    device.write(buffer, data)
    device.run([Launch(device.load(cubin, entries).phases, [buffer.argument])])

`rm` makes the driver's calls, `objects` what a GPU needs of it, `memory` gives addresses to host
and GPU, `channels` hands commands to the engines, `launches` writes what a launch is, `device` fits
all of it to what a runtime is.
"""

from __future__ import annotations

from .adapter import describe, plain_target, target_of
from .device import NVDevice
from .rm import RM

__all__ = ["RM", "NVDevice", "describe", "plain_target", "target_of"]
