"""AMD GPUs behind an emulated kernel driver: /dev/kfd, sysfs, and the queues that a GPU serves.

    platform = EmulatedPlatform(seed=7)
    kfd = EmulatedKFD(platform, ["gfx1100"], execute)

`execute` runs a kernel: it is called with a Dispatch, and may be any function. Packets are decoded
by AMD's own tables (`tables/`), and never by what the runtime encodes them with.
"""

from __future__ import annotations

from .dispatch import Dispatch, KernelFault
from .driver import EmulatedKFD
from .injection import Injection

__all__ = ["Dispatch", "EmulatedKFD", "Injection", "KernelFault"]
