"""QCOM: Qualcomm's Adreno GPUs.

Only its names are here yet, so that it is refused by name.
"""

from __future__ import annotations

from .record import Backend

__all__ = ["QCOM"]

QCOM = Backend(
    "QCOM",
    "Qualcomm's Adreno GPUs",
    spellings=("QCOM_IR3", "QCOM_CL"),
)
