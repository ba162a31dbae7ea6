"""Devices, under the specification's module name: `from treadle.device import Device`.

    Device.DEFAULT, Device["CPU"]
    is_dtype_supported(dtypes.float64, "WEBGPU")    -> False

What devices there are, and how one is chosen, stands in `treadle.backends`.
"""

from __future__ import annotations

from .dtype import to_dtype
from .engine.devices import Device
from .tensor.types import DTypeLike

__all__ = ["Device", "is_dtype_supported"]


def is_dtype_supported(dtype: DTypeLike, device: str | None = None) -> bool:
    """Whether tensors of `dtype` compute on `device` (None: the default one), emulated included.

    Opens the device. Raises DTypeError for what is no dtype, DeviceError for a device that there is
    not.
    """
    return Device[Device.canonicalize(device)].target.supports(to_dtype(dtype).real)
