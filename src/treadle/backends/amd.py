"""AMD: AMD's GPUs, past AMD's own user-space driver.

Only its names are here yet, so that it is refused by name.
"""

from __future__ import annotations

from .record import Backend

__all__ = ["AMD"]

AMD = Backend(
    "AMD",
    "AMD's GPUs, past AMD's own user-space driver",
    spellings=("AMD_LLVM", "AMD_HIP"),
    interfaces=("KFD", "PCI", "USB"),
    dlpack_host=11,
)
