"""CUDA devices: driver.py is the protocol, device.py runs on whatever driver fits it.

    device = CUDADevice("CUDA", open_driver(), 0, make_target)

NVIDIA's driver is behind bindings.py and context.py, through cuda-bindings, which is imported when
the first device is opened. An emulator is the other driver.
"""

from treadle.runtime.cuda.bindings import open_driver
from treadle.runtime.cuda.device import CUDADevice
from treadle.runtime.cuda.failures import opening_failed

__all__ = ["CUDADevice", "open_driver", "opening_failed"]
