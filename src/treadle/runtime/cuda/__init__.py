"""CUDA devices: driver.py is the protocol, device.py runs on whatever driver fits it.

    device = CUDADevice("CUDA", open_driver(), 0, make_target)

NVIDIA's driver is behind bindings.py and context.py, through cuda-bindings, which is imported when
the first device is opened. An emulator is the other driver.
"""

from treadle.runtime.cuda.adapter import describe, runs_as_it_is, target_of
from treadle.runtime.cuda.bindings import open_driver
from treadle.runtime.cuda.device import CUDADevice

__all__ = ["CUDADevice", "describe", "open_driver", "runs_as_it_is", "target_of"]
