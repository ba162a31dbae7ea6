"""NVIDIA GPUs behind an emulated kernel driver: RM, UVM, and the channels that a GPU serves.

    platform = EmulatedPlatform(seed=7)
    driver = EmulatedNV(platform, ["sm_80"], execute)

`execute` runs a kernel: it is called with a Dispatch, and may be any function. Everything is
decoded by NVIDIA's own tables (`tables/`), and never by what the runtime encodes it with.
"""

from __future__ import annotations

from .dispatch import Dispatch
from .driver import EmulatedNV
from .faults import ChannelFault

__all__ = ["ChannelFault", "Dispatch", "EmulatedNV"]
