"""NV: NVIDIA GPUs, past NVIDIA's own user-space driver.

Only its names are here yet, so that it is refused by name.
"""

from __future__ import annotations

from .record import Backend

__all__ = ["NV"]

NV = Backend(
    "NV",
    "NVIDIA GPUs, past NVIDIA's own user-space driver",
    spellings=("NV_PTX", "NV_NAK", "NV_NVCC"),
    interfaces=("NVK", "PCI", "USB"),
)
