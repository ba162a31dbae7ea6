"""AMD's GPUs through the kernel driver amdgpu, past AMD's own user-space driver.

    device = AMDDevice("AMD", KFD(platform), 0, make_target)
    buffer = device.allocator.alloc(1 << 20)
    device.write(buffer, data)
    device.run([Launch(device.load(code, entries).phases, [buffer.argument])])

`discovery` finds GPUs, `kfd` makes the driver's calls, `memory` gives addresses to host and GPU,
`queues` hands packets to the engines, `device` fits all of it to what a runtime is.
"""

from __future__ import annotations

from .adapter import describe, target_of
from .device import AMDDevice
from .kfd import KFD

__all__ = ["KFD", "AMDDevice", "describe", "target_of"]
