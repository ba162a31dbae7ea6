"""An Adreno GPU behind an emulated kernel driver, KGSL: /dev/kgsl-3d0 and its command processor.

    platform = EmulatedPlatform(seed=7)
    kgsl = EmulatedKGSL(platform, "a630", execute)

`execute` runs a kernel: it is called with a Dispatch, and may be any function. Packets are decoded
by Mesa's description of registers and packets, and never by what the runtime encodes them with.
"""

from __future__ import annotations

from .dispatch import Dispatch
from .driver import EmulatedKGSL
from .faults import KernelFault
from .injection import Injection

__all__ = ["Dispatch", "EmulatedKGSL", "Injection", "KernelFault"]
