"""What tests have to know of the devices that they run on."""

from __future__ import annotations

WITHOUT_FLOAT64 = ("METAL", "QCOM", "WEBGPU")  # and no arithmetic in its place: docs/devices.md


def has_float64(device: str) -> bool:
    """Whether the device of that name, with or without an architecture, computes in float64."""
    return device.partition(":")[0] not in WITHOUT_FLOAT64
