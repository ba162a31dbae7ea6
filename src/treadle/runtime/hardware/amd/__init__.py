"""AMD's GPUs through the kernel driver amdgpu, past AMD's own user-space driver.

    device = AMDDevice("AMD", platform, 0)
    buffer = device.allocator.alloc(1 << 20)
    device.write(buffer, data)
    device.run([Launch([Phase(kernel, entry)], [buffer.argument])])

`discovery` finds GPUs, `kfd` makes the driver's calls, `memory` gives addresses to host and GPU,
`queues` hands packets to the engines, `device` fits all of it to what a runtime is.
"""

from __future__ import annotations

from .device import AMDDevice
from .kernel import Kernel
from .launches import Phase

__all__ = ["AMDDevice", "Kernel", "Phase"]
