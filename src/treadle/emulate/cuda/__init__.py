"""An NVIDIA GPU that is not there: what the CUDA runtime asks of a driver, served by PTX emulation."""

from treadle.emulate.cuda.driver import EmulatedDriver

__all__ = ["EmulatedDriver"]
