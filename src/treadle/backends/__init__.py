"""The backends: one file for each holds all that the rest of treadle knows of it.

    find("CL")                ->  its record (see record.py), or None
    backend_of("CUDA:1:PTX")  ->  the record of a device, by the device's name

Without a wish the first of the list is taken that opens on real hardware. `treadle doctor` shows
them in the same order.
"""

from __future__ import annotations

from .amd import AMD
from .cl import CL
from .cpu import CPU
from .cuda import CUDA
from .metal import METAL
from .null import NULL
from .nv import NV
from .qcom import QCOM
from .record import Backend, Emulation, Request, Toolchain, emulation_of
from .reference import REF
from .webgpu import WEBGPU

__all__ = [
    "BACKENDS", "CPU", "Backend", "Emulation", "Request", "Toolchain", "backend_of",
    "emulation_of", "find",
]  # fmt: skip

BACKENDS: list[Backend] = [CPU, CUDA, METAL, AMD, NV, QCOM, CL, WEBGPU, REF, NULL]


def find(name: str) -> Backend | None:
    """The backend of that name."""
    return next((one for one in BACKENDS if one.name == name), None)


def backend_of(device: str) -> Backend:
    """The backend of a device, by a name that `Device.canonicalize` gives."""
    name = device.partition(":")[0].rpartition("+")[2]
    return next(one for one in BACKENDS if one.name == name)
