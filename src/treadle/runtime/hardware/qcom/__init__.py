"""Qualcomm's Adreno GPUs through their kernel driver, KGSL.

    device = QCOMDevice("QCOM", KGSL(platform), make_target)
    buffer = device.allocator.alloc(1 << 20)
    device.write(buffer, data)
    device.run([Launch(device.load(code, entries).phases, [buffer.argument])])

`kgsl` makes the driver's calls, `memory` gives addresses to host and GPU, `queue` hands commands
over, `packets` writes them, `launches` says what a launch is, `device` fits all of it to what a
runtime is.
"""

from __future__ import annotations

from .adapter import describe, target_of
from .device import QCOMDevice
from .kgsl import KGSL

__all__ = ["KGSL", "QCOMDevice", "describe", "target_of"]
