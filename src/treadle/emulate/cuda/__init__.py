"""An NVIDIA GPU that is not there: a driver for the CUDA runtime that emulates PTX."""

from treadle.emulate.cuda.driver import EmulatedDriver

__all__ = ["EmulatedDriver"]
